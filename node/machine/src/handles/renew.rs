//! Renew: a new lifetime for the same value, at the same revision.

use helve_proto::v1::{HandleStatus, Lifetime, OperationReply, RenewReply, RenewRequest};

use crate::{
    access::quota,
    context::{Call, Stop},
    handles::{HandleName, handle_name},
    lifetime,
    record::{self, Change, Plan, Planned},
    view::View,
};

pub(crate) fn apply<V: View>(
    call: &mut Call<'_, V>,
    request: &RenewRequest,
) -> Result<RenewReply, Stop> {
    let (status, info) = match plan(call, handle_name!(request), request.lifetime.as_ref(), None)? {
        Planned::Ready(plan) => (HandleStatus::Live, quota::commit(call, plan)?.info),
        Planned::NotLive(status) => (status, None),
    };
    Ok(RenewReply {
        header: Some(call.header()),
        status: status.into(),
        info,
    })
}

pub(crate) fn plan<V: View>(
    call: &Call<'_, V>,
    name: HandleName<'_>,
    lifetime: Option<&Lifetime>,
    if_revision: Option<u64>,
) -> Result<Planned, Stop> {
    let target = name.target()?;
    let seen = record::see(call.batch, call.space, &target, call.clock_ms)?;
    let Some(present) = seen.live() else {
        return Ok(Planned::NotLive(seen.status));
    };
    record::refuse_claim(&seen)?;
    record::compare(if_revision, &seen)?;
    let mut row = present.clone();
    lifetime::set(&mut row, lifetime, Some(present), call.clock_ms)?;
    let reply = OperationReply {
        info: Some(record::info(name.owner, name.id, &row)),
        ..OperationReply::default()
    };
    Ok(Planned::Ready(Plan {
        target,
        seen,
        change: Change::Write(row),
        reply,
    }))
}
