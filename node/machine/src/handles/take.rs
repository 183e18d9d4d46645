//! Take: get and delete in one, so that a value goes out once.

use helve_proto::v1::{HandleStatus, OperationReply, TakeReply, TakeRequest};

use crate::{
    access::quota,
    context::{Call, Stop},
    handles::{HandleName, handle_name},
    record::{self, Change, Plan, Planned},
    view::View,
};

pub(crate) fn apply<V: View>(
    call: &mut Call<'_, V>,
    request: &TakeRequest,
) -> Result<TakeReply, Stop> {
    let (status, reply) = match plan(call, handle_name!(request), request.if_revision)? {
        Planned::Ready(plan) => (HandleStatus::Live, quota::commit(call, plan)?),
        Planned::NotLive(status) => (status, OperationReply::default()),
    };
    Ok(TakeReply {
        header: Some(call.header()),
        status: status.into(),
        info: reply.info,
        value: reply.value,
    })
}

pub(crate) fn plan<V: View>(
    call: &Call<'_, V>,
    name: HandleName<'_>,
    if_revision: Option<u64>,
) -> Result<Planned, Stop> {
    let target = name.target()?;
    let seen = record::see(call.batch, call.space, &target, call.clock_ms)?;
    let Some(row) = seen.live() else {
        return Ok(Planned::NotLive(seen.status));
    };
    record::refuse_claim(&seen)?;
    record::compare(if_revision, &seen)?;
    let reply = OperationReply {
        info: Some(record::info(name.owner, name.id, row)),
        value: row.value.clone(),
        status: 0,
    };
    Ok(Planned::Ready(Plan {
        target,
        seen,
        change: Change::Take,
        reply,
    }))
}
