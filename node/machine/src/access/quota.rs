//! A tenant's quotas of rows and bytes. What would pass one is refused whole; what adds nothing is never refused, so that who is over
//! a quota can still delete, take, renew and let time pass.

use helve_proto::command::v1::Refusal;

use crate::{
    batch::View,
    context::{Call, Stop},
    expiry,
    fault::Fault,
    limits::TICK_ROWS_MAX,
    record::Plan,
    usage::{self, Delta},
};

/// Removes what is due before a tenant's quota is looked at: whether time has been let pass already must not show in the answer.
pub(crate) fn make_room<V: View>(call: &mut Call<'_, V>) -> Result<(), Fault> {
    let quotas = call.batch.quotas(call.space)?;
    if quotas.rows > 0 || quotas.bytes > 0 {
        expiry::sweep(call, call.clock_ms, TICK_ROWS_MAX)?;
    }
    Ok(())
}

/// Refuses plans that together take the tenant over a quota.
pub(crate) fn admit<V: View>(call: &mut Call<'_, V>, plans: &[Plan]) -> Result<(), Stop> {
    let quotas = call.batch.quotas(call.space)?;
    if quotas.rows == 0 && quotas.bytes == 0 {
        return Ok(());
    }
    let growth = plans
        .iter()
        .map(|plan| plan.growth(call.index))
        .fold(Delta::default(), Delta::plus);
    let used = usage::current(call.batch, &call.space.usage_tenant())?;
    let is_over = |quota: u64, used: u64, growth: i64| {
        quota > 0 && growth > 0 && used.saturating_add_signed(growth) > quota
    };
    if is_over(quotas.rows, used.rows, growth.rows)
        || is_over(quotas.bytes, used.bytes, growth.bytes)
    {
        return Err(Stop::refused(Refusal::Quota));
    }
    Ok(())
}
