//! Several operations as one: all are planned before the first is written, so that all take effect at one revision, or none.

use std::collections::BTreeSet;

use bytes::Bytes;
use helve_proto::{
    command::v1::Refusal,
    v1::{
        Aborted, Committed, HandleStatus, MintOperation, Operation, OperationReply, TransactReply,
        TransactRequest, operation, transact_reply,
    },
};

use crate::{
    access::quota,
    context::{Call, Stop},
    fault::Fault,
    handles::{HandleName, delete, handle_name, mint, put, renew, take},
    limits::Bounds,
    record::{Plan, Planned},
    state,
    view::View,
};

/// The plans of a transaction so far.
#[derive(Debug)]
pub(crate) struct Plans {
    bounds: Bounds,
    plans: Vec<Plan>,
    names: BTreeSet<(bool, Bytes)>,
    taken_bytes: usize,
}

impl Plans {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            plans: Vec::new(),
            names: BTreeSet::new(),
            taken_bytes: 0,
        }
    }

    /// Refuses a record that another plan changes already: each was planned without the other.
    pub(crate) fn add(&mut self, plan: Plan) -> Result<(), Stop> {
        let is_handle = plan.target.kind == crate::layout::Kind::Handle;
        if !self.names.insert((is_handle, plan.target.path.clone())) {
            return Err(Stop::refused(Refusal::Malformed));
        }
        if !plan.reply.value.is_empty() {
            let info = plan.reply.info.as_ref();
            self.taken_bytes += info.map_or(0, |info| info.value_bytes as usize);
        }
        if self.taken_bytes > self.bounds.taken_bytes_max {
            return Err(Stop::refused(Refusal::TooLarge));
        }
        self.plans.push(plan);
        Ok(())
    }

    /// Carries all plans out, if together they are within the tenant's quotas.
    pub(crate) fn commit<V: View>(
        self,
        call: &mut Call<'_, V>,
    ) -> Result<Vec<OperationReply>, Stop> {
        quota::admit(call, &self.plans)?;
        let replies = self.plans.into_iter().map(|plan| plan.carry_out(call));
        Ok(replies.collect::<Result<_, Fault>>()?)
    }
}

pub(crate) fn apply<V: View>(
    call: &mut Call<'_, V>,
    request: &TransactRequest,
    minted_ids: &[String],
) -> Result<TransactReply, Stop> {
    let mut plans = Plans::new(*call.batch.bounds());
    let mut minted_ids = minted_ids.iter();
    for (index, operation) in request.operations.iter().enumerate() {
        let planned = plan(call, operation, &mut minted_ids).map_err(|stop| stop.at(index))?;
        match planned {
            Planned::Ready(plan) => plans.add(plan).map_err(|stop| stop.at(index))?,
            Planned::NotLive(status) => return Ok(aborted(call, index, status)),
        }
    }
    let replies = plans.commit(call)?;
    Ok(TransactReply {
        header: Some(call.header()),
        result: Some(transact_reply::Result::Committed(Committed { replies })),
    })
}

fn aborted<V>(call: &Call<'_, V>, index: usize, status: HandleStatus) -> TransactReply {
    TransactReply {
        header: Some(call.header()),
        result: Some(transact_reply::Result::Aborted(Aborted {
            operation: u32::try_from(index).unwrap_or(u32::MAX),
            status: status.into(),
        })),
    }
}

fn plan<V: View>(
    call: &Call<'_, V>,
    operation: &Operation,
    minted_ids: &mut std::slice::Iter<'_, String>,
) -> Result<Planned, Stop> {
    use operation::Operation as Op;

    let malformed = || Stop::refused(Refusal::Malformed);
    match operation.operation.as_ref().ok_or_else(malformed)? {
        Op::Mint(op) => {
            let minted_id = minted_ids.next().ok_or_else(malformed)?;
            plan_mint(call, op, minted_id).map(Planned::Ready)
        }
        Op::Put(op) => put::plan(
            call,
            handle_name!(op),
            &op.value,
            op.lifetime.as_ref(),
            op.if_revision,
        ),
        Op::Take(op) => take::plan(call, handle_name!(op), op.if_revision),
        Op::Renew(op) => renew::plan(call, handle_name!(op), op.lifetime.as_ref(), op.if_revision),
        Op::Delete(op) => delete::plan(call, handle_name!(op), op.if_revision),
        Op::Store(op) => state::store::plan(
            call,
            &op.owner,
            &op.key,
            &op.value,
            op.lifetime.as_ref(),
            op.if_revision,
        )
        .map(Planned::Ready),
        Op::DeleteKey(op) => {
            state::delete::plan(call, &op.owner, &op.key, op.if_revision).map(Planned::Ready)
        }
    }
}

fn plan_mint<V: View>(
    call: &Call<'_, V>,
    op: &MintOperation,
    minted_id: &str,
) -> Result<Plan, Stop> {
    let id = mint::handle_id(&op.id_prefix, minted_id);
    let name = HandleName {
        store: &op.store,
        owner: &op.owner,
        id: &id,
    };
    mint::plan(call, name, &op.value, op.lifetime.as_ref())
}
