//! Store: a value under a key. An expired key is simply absent.

use bytes::Bytes;
use helve_proto::v1::{BatchStoreReply, BatchStoreRequest, Lifetime, StoreReply, StoreRequest};

use crate::{
    access::quota,
    context::{Call, Stop},
    layout::Target,
    record::{self, Plan},
    transact::Plans,
    view::View,
};

pub(crate) fn apply<V: View>(
    call: &mut Call<'_, V>,
    request: &StoreRequest,
) -> Result<StoreReply, Stop> {
    let plan = plan(
        call,
        &request.owner,
        &request.key,
        &request.value,
        request.lifetime.as_ref(),
        request.if_revision,
    )?;
    let reply = quota::commit(call, plan)?;
    Ok(StoreReply {
        header: Some(call.header()),
        status: reply.status,
        info: reply.info,
    })
}

/// All items or none.
pub(crate) fn apply_batch<V: View>(
    call: &mut Call<'_, V>,
    request: &BatchStoreRequest,
) -> Result<BatchStoreReply, Stop> {
    let mut plans = Plans::new(*call.batch.bounds());
    for (index, item) in request.items.iter().enumerate() {
        plan(
            call,
            &request.owner,
            &item.key,
            &item.value,
            item.lifetime.as_ref(),
            item.if_revision,
        )
        .and_then(|plan| plans.add(plan))
        .map_err(|stop| stop.at(index))?;
    }
    let replies = plans.commit(call)?;
    Ok(BatchStoreReply {
        header: Some(call.header()),
        infos: replies.into_iter().filter_map(|reply| reply.info).collect(),
    })
}

pub(crate) fn plan<V: View>(
    call: &Call<'_, V>,
    owner: &str,
    key: &str,
    value: &Bytes,
    lifetime: Option<&Lifetime>,
    if_revision: Option<u64>,
) -> Result<Plan, Stop> {
    let target = Target::key(owner, key)?;
    let seen = record::see(call.batch, call.space, &target, call.clock_ms)?;
    record::compare(if_revision, &seen)?;
    let row = record::written(call, &seen, value, lifetime)?;
    Ok(Plan::write(target, seen, owner, key, row))
}
