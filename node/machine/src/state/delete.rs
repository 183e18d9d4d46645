//! Delete of a key. That there is none is no error.

use bytes::Bytes;
use helve_proto::v1::{DeleteKeyReply, DeleteKeyRequest, OperationReply, WriteStatus};

use crate::{
    access::quota,
    context::{Call, Stop},
    layout::Target,
    record::{self, Change, Plan},
    view::View,
};

pub(crate) fn apply<V: View>(
    call: &mut Call<'_, V>,
    request: &DeleteKeyRequest,
) -> Result<DeleteKeyReply, Stop> {
    let plan = plan(call, &request.owner, &request.key, request.if_revision)?;
    let reply = quota::commit(call, plan)?;
    Ok(DeleteKeyReply {
        header: Some(call.header()),
        existed: reply.status() == WriteStatus::Replaced,
    })
}

pub(crate) fn plan<V: View>(
    call: &Call<'_, V>,
    owner: &str,
    key: &str,
    if_revision: Option<u64>,
) -> Result<Plan, Stop> {
    let target = Target::key(owner, key)?;
    let seen = record::see(call.batch, call.space, &target, call.clock_ms)?;
    record::compare(if_revision, &seen)?;
    let (change, status) = match seen.live() {
        Some(_) => (Change::Remove, WriteStatus::Replaced),
        None => (Change::Nothing, WriteStatus::Unspecified),
    };
    Ok(Plan {
        target,
        seen,
        change,
        reply: OperationReply {
            info: None,
            value: Bytes::new(),
            status: status.into(),
        },
    })
}
