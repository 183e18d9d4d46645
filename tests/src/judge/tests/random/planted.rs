//! What a cluster may do wrong, once.

use helve_client::{
    ErrorKind,
    v1::{BatchStoreRequest, TransactRequest, exchange_call::Call},
};

use super::script::{carry_out, mutation};
use crate::{
    history::{Outcome, Request},
    judge::tests::history_builder::{HistoryBuilder, failed},
    model::Model,
};

/// What is done wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plant {
    /// A mutation is answered, and not done.
    Lost,
    /// It is done twice.
    Doubled,
    /// Of several parts only the first is done.
    Torn,
    /// It is done, and its caller is told that it was not.
    Denied,
    /// A read shows what was there before the last mutation.
    Stale,
}

/// Carries the request out, and does that wrong, if it can be done wrong so; `past` is what was there before the last mutation.
pub(super) fn plant(
    history: &mut HistoryBuilder,
    request: &Request,
    bug: Plant,
    past: &Model,
) -> Outcome {
    let before = history.model.clone();
    let (index, clock_ms) = (history.index, history.clock_ms);
    let outcome = carry_out(history, request);
    if let (Plant::Stale, Some(stale)) = (bug, past.read(request, history.at())) {
        return Outcome::Answered(stale);
    }
    let (Outcome::Answered(_), Some(call)) = (&outcome, mutation(request)) else {
        return outcome;
    };
    match bug {
        Plant::Lost => {
            history.model = before;
            outcome
        }
        Plant::Doubled => {
            history.effect(call);
            outcome
        }
        Plant::Torn => {
            if let Some(first) = first_part(call) {
                (history.model, history.index, history.clock_ms) = (before, index, clock_ms);
                history.effect(&first);
            }
            outcome
        }
        Plant::Denied => failed(ErrorKind::Unavailable),
        Plant::Stale => outcome,
    }
}

fn first_part(call: &Call) -> Option<Call> {
    match call {
        Call::BatchStore(batch) => Some(Call::BatchStore(BatchStoreRequest {
            items: batch.items[..1].to_vec(),
            ..batch.clone()
        })),
        Call::Transact(transact) => Some(Call::Transact(TransactRequest {
            operations: transact.operations[..1].to_vec(),
            ..transact.clone()
        })),
        _ => None,
    }
}
