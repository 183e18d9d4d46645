//! Delete: the handle goes, and nothing is left to tell of it.

use helve_proto::v1::{DeleteReply, DeleteRequest, HandleStatus, OperationReply};

use crate::{
    access::quota,
    context::{Call, Stop},
    handles::{HandleName, handle_name},
    record::{self, Change, Plan, Planned},
    view::View,
};

pub(crate) fn apply<V: View>(
    call: &mut Call<'_, V>,
    request: &DeleteRequest,
) -> Result<DeleteReply, Stop> {
    let status = match plan(call, handle_name!(request), request.if_revision)? {
        Planned::Ready(plan) => {
            quota::commit(call, plan)?;
            HandleStatus::Live
        }
        Planned::NotLive(status) => status,
    };
    Ok(DeleteReply {
        header: Some(call.header()),
        status: status.into(),
    })
}

pub(crate) fn plan<V: View>(
    call: &Call<'_, V>,
    name: HandleName<'_>,
    if_revision: Option<u64>,
) -> Result<Planned, Stop> {
    let target = name.target()?;
    let seen = record::see(call.batch, call.space, &target, call.clock_ms)?;
    if seen.live().is_none() {
        return Ok(Planned::NotLive(seen.status));
    }
    record::compare(if_revision, &seen)?;
    Ok(Planned::Ready(Plan {
        target,
        seen,
        change: Change::Remove,
        reply: OperationReply::default(),
    }))
}
