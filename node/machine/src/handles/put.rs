//! Put: a value under an id of the caller's choosing, or over the one that is there.

use bytes::Bytes;
use helve_proto::v1::{HandleStatus, Lifetime, PutReply, PutRequest, WriteStatus};

use crate::{
    access::quota,
    context::{Call, Stop},
    handles::{HandleName, handle_name},
    record::{self, Plan, Planned},
    view::View,
};

pub(crate) fn apply<V: View>(
    call: &mut Call<'_, V>,
    request: &PutRequest,
) -> Result<PutReply, Stop> {
    let name = handle_name!(request);
    let planned = plan(
        call,
        name,
        &request.value,
        request.lifetime.as_ref(),
        request.if_revision,
    )?;
    let (status, info) = match planned {
        Planned::Ready(plan) => {
            let reply = quota::commit(call, plan)?;
            (reply.status(), reply.info)
        }
        Planned::NotLive(HandleStatus::Taken) => (WriteStatus::Taken, None),
        Planned::NotLive(_) => (WriteStatus::Expired, None),
    };
    Ok(PutReply {
        header: Some(call.header()),
        status: status.into(),
        info,
    })
}

/// An expired or taken handle is never written again while its owner hears of it: a caller that holds it must learn that the
/// state is gone, not start over by accident.
pub(crate) fn plan<V: View>(
    call: &Call<'_, V>,
    name: HandleName<'_>,
    value: &Bytes,
    lifetime: Option<&Lifetime>,
    if_revision: Option<u64>,
) -> Result<Planned, Stop> {
    let target = name.target()?;
    let seen = record::see(call.batch, call.space, &target, call.clock_ms)?;
    if matches!(seen.status, HandleStatus::Expired | HandleStatus::Taken) {
        return Ok(Planned::NotLive(seen.status));
    }
    record::refuse_claim(&seen)?;
    record::compare(if_revision, &seen)?;
    let row = record::written(call, &seen, value, lifetime)?;
    Ok(Planned::Ready(Plan::write(
        target, seen, name.owner, name.id, row,
    )))
}
