//! Between calls and what the machine takes and gives.

use helve_proto::{
    Reason,
    command::v1::{Outcome, Refusal, Refused, command::Operation, outcome::Outcome as Kind},
    v1::{Operation as Part, exchange_answer::Answer, exchange_call::Call, operation},
};

use crate::error::Error;

/// A call as the machine takes it: a mutation through its log, or a read from its rows.
pub(super) enum Taken {
    Mutation(Operation),
    Read(Call),
}

pub(super) fn take(call: Call) -> Taken {
    match call.into_operation() {
        Ok(operation) => Taken::Mutation(operation),
        Err(read) => Taken::Read(read),
    }
}

/// How many ids the operation needs minted.
pub(super) fn mints(operation: &Operation) -> usize {
    let is_mint = |part: &&Part| matches!(part.operation, Some(operation::Operation::Mint(_)));
    match operation {
        Operation::Mint(_) => 1,
        Operation::Transact(request) => request.operations.iter().filter(is_mint).count(),
        _ => 0,
    }
}

pub(super) fn answer(outcome: Outcome) -> Result<Answer, Error> {
    let other = || Error::internal("the outcome of another command");
    match outcome.outcome.ok_or_else(other)? {
        Kind::Refused(refused) => Err(refusal(&refused)),
        kind => kind.into_answer().map_err(|_| other()),
    }
}

fn refusal(refused: &Refused) -> Error {
    let (reason, message) = match refused.refusal() {
        Refusal::Conflict => (
            Reason::Conflict,
            "the record's revision is another one: read again, decide again",
        ),
        Refusal::ReplayMismatch => (
            Reason::ReplayMismatch,
            "the identity was used for another request: never reuse one",
        ),
        Refusal::StaleCall => (
            Reason::StaleCall,
            "the call's number is below its session's floor: its outcome is forgotten",
        ),
        Refusal::TooEarly => (
            Reason::TooEarly,
            "the call's number or time is too far ahead: send what is incomplete first",
        ),
        Refusal::SessionExpired => (
            Reason::SessionExpired,
            "there is no such replay session: open a new one",
        ),
        Refusal::RequestTooOld => (
            Reason::RequestTooOld,
            "the request id is older than the outcomes that are kept: its outcome is forgotten",
        ),
        Refusal::Quota => (Reason::Quota, "a quota is used up: delete something"),
        Refusal::Clearing => (
            Reason::Overloaded,
            "expired entries are still being removed: try again",
        ),
        Refusal::Claimed => (
            Reason::Claimed,
            "the record is a claim, which only claims and deletes change, or it is none: use another id or store",
        ),
        Refusal::BadLifetime => (Reason::BadLifetime, "the lifetime does not fit: use never"),
        Refusal::TooLarge => (Reason::TooLarge, "the values are too large for one call"),
        Refusal::FeatureLevel => (
            Reason::FormatNewer,
            "the operation needs a higher feature level",
        ),
        // No call of this store makes tokens or tenants, and this process seals nothing.
        Refusal::Malformed
        | Refusal::NoTenant
        | Refusal::TokenExists
        | Refusal::Sealing
        | Refusal::Unspecified => (Reason::BadRequest, "the request is malformed"),
    };
    Error::refused(reason, message, refused.revision, refused.operation)
}
