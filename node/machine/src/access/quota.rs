//! A tenant's quotas of rows and bytes. What would pass one is refused whole; what adds nothing is never refused, so that who is over
//! a quota can still delete, take, renew and let time pass.

use helve_proto::{
    command::v1::{Refusal, UsageRow},
    v1::OperationReply,
};

use crate::{
    context::{Call, Lack, Stop},
    expiry,
    fault::Fault,
    record::Plan,
    usage::{Counter, Delta},
    view::View,
};

/// Removes what is due before a tenant's quota is looked at, of any tenant, as levels below [`MENDED`](crate::level::MENDED) do: whether time has
/// been let pass already must not show in the answer. From then on [`room`](super::room) sees to that.
pub(crate) fn make_room_before<V: View>(call: &mut Call<'_, V>) -> Result<(), Fault> {
    if call.is_mended()? {
        return Ok(());
    }
    let quotas = call.batch.quotas(call.space)?;
    if quotas.rows > 0 || quotas.bytes > 0 {
        let rows_max = call.batch.bounds().tick_rows_max;
        expiry::sweep(call, call.clock_ms, rows_max)?;
    }
    Ok(())
}

/// Carries out a plan alone, within its tenant's quotas.
pub(crate) fn commit<V: View>(call: &mut Call<'_, V>, plan: Plan) -> Result<OperationReply, Stop> {
    admit(call, std::slice::from_ref(&plan))?;
    Ok(plan.carry_out(call)?)
}

/// Refuses plans that together take the tenant over a quota.
pub(crate) fn admit<V: View>(call: &mut Call<'_, V>, plans: &[Plan]) -> Result<(), Stop> {
    let quotas = call.batch.quotas(call.space)?;
    if quotas.rows == 0 && quotas.bytes == 0 {
        return Ok(());
    }
    let is_mended = call.is_mended()?;
    let growths = plans.iter().map(|plan| {
        if is_mended {
            plan.growth_of_live(call.index)
        } else {
            plan.growth(call.index)
        }
    });
    let growth = growths.fold(Delta::default(), Delta::plus);
    let used = call.batch.usage(call.space, Counter::Tenant)?;
    let excess = |quota: u64, used: u64, growth: i64| match quota {
        0 => 0,
        _ if growth <= 0 => 0,
        _ => used.saturating_add_signed(growth).saturating_sub(quota),
    };
    let lack = UsageRow {
        rows: excess(quotas.rows, used.rows, growth.rows),
        bytes: excess(quotas.bytes, used.bytes, growth.bytes),
    };
    if lack == UsageRow::default() {
        return Ok(());
    }
    Err(if is_mended {
        Stop::Short(Lack::Usage(lack))
    } else {
        Stop::refused(Refusal::Quota)
    })
}

/// Refuses to hand out a value of `bytes` that also stays where it is: the outcome keeps it once more, and no number of them may
/// take the tenant over its quota of bytes.
pub(crate) fn admit_copy<V: View>(call: &mut Call<'_, V>, bytes: usize) -> Result<(), Stop> {
    let quota = call.batch.quotas(call.space)?.bytes;
    if quota == 0 || bytes == 0 {
        return Ok(());
    }
    let used = call.batch.usage(call.space, Counter::Tenant)?.bytes;
    let lack = UsageRow {
        rows: 0,
        bytes: used.saturating_add(bytes as u64).saturating_sub(quota),
    };
    if lack == UsageRow::default() {
        return Ok(());
    }
    Err(Stop::Short(Lack::Usage(lack)))
}
