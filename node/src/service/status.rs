//! The one map from failures to gRPC: a code, a reason, metadata, and a message that says what to do. Unary calls and Exchange
//! answer from the same [`Problem`].

mod members;
mod room;
#[cfg(test)]
mod tests;
mod watch;

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use data_encoding::BASE64;
use helve_proto::{
    ERROR_DOMAIN, Reason,
    command::v1::{Refusal, Refused},
    v1::ErrorReply,
};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::failure::{Failure, Lateness};
use crate::{
    excerpt, limits,
    propose::ProposeError,
    vault::{OpenError, SwitchError},
};

/// A failure in the words of the public contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    code: Code,
    reason: Reason,
    message: String,
    metadata: BTreeMap<String, String>,
    retry_after: Option<Duration>,
}

impl Problem {
    fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            code: code(reason),
            reason,
            message: excerpt::message(message.into()),
            metadata: BTreeMap::new(),
            retry_after: None,
        }
    }

    fn with(mut self, key: &str, value: String) -> Self {
        self.metadata.insert(key.to_owned(), value);
        self
    }

    /// The reason, for the metrics.
    pub(crate) fn reason(&self) -> Reason {
        self.reason
    }

    /// The answer to a unary call, or the end of a stream.
    pub(crate) fn into_status(self) -> Status {
        let mut details = ErrorDetails::with_error_info(
            self.reason.as_str(),
            ERROR_DOMAIN,
            HashMap::from_iter(self.metadata),
        );
        if let Some(pause) = self.retry_after {
            details.set_retry_info(Some(pause));
        }
        Status::with_error_details(self.code, self.message, details)
    }

    /// The answer to a call that Exchange carried.
    pub(crate) fn into_reply(self) -> ErrorReply {
        ErrorReply {
            code: self.code as i32,
            reason: self.reason.as_str().to_owned(),
            message: self.message,
            metadata: self.metadata,
        }
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Invalid(violation) => {
                let problem = Self::new(violation.reason, violation.message);
                match violation.operation {
                    Some(operation) => problem.with("operation", operation.to_string()),
                    None => problem,
                }
            }
            Failure::Malformed(message) => Self::new(Reason::BadRequest, message),
            Failure::TooSlow(time) => room::too_slow(time),
            Failure::Denied(why) => Self::new(Reason::Denied, not_executed(&why)),
            Failure::WriteRate => overloaded(WRITE_RATE, limits::WRITE_RATE_RETRY_AFTER),
            Failure::Unauthenticated => Self::new(Reason::Unauthenticated, UNAUTHENTICATED),
            Failure::TooMuch => room::too_much(),
            Failure::Refused(refused) => refused_problem(&refused),
            Failure::Ambiguous { detail, late } => ambiguous(&detail, late),
            Failure::NoLeader => Self::new(
                Reason::NoLeader,
                "no leader answered within the deadline, and the call was not executed: retry, or look at `helve status`",
            ),
            Failure::Lagging => overloaded(LAGGING, limits::OVERLOADED_RETRY_AFTER),
            Failure::Overloaded(bound) => room::at_bound(bound),
            Failure::Full(full) => room::full(full),
            Failure::Idle(time) => room::idle(time),
            Failure::Unrecorded => unrecorded(),
            Failure::UnrecordedByLeader => Self::new(Reason::AuditFailing, UNRECORDED_BY_LEADER),
            Failure::DiskFull => Self::new(
                Reason::DiskFull,
                "a disk is below its reserve, and the call was not executed: delete or take records, or free disk space",
            ),
            Failure::Stopping(why) => Self::new(
                Reason::Stopping,
                format!(
                    "this node does not serve, and the call was not executed: {why}; try another node"
                ),
            ),
            Failure::Lapsed { resume } => Self::new(
                Reason::ListLapsed,
                "the list took too long: continue with `resume_token`, which reads a newer view",
            )
            .with("resume_token", BASE64.encode(&resume)),
            Failure::WatchTooOld { floor } => watch::too_old(floor),
            Failure::WatchLapsed { revision } => watch::lapsed(revision),
            Failure::NotNow(why) => Self {
                code: Code::FailedPrecondition,
                ..Self::new(Reason::BadRequest, why)
            },
            Failure::Open(error) => open_problem(&error),
            Failure::Switch(error) => switch_problem(&error),
            Failure::Membership(error) => Self::new(members::reason(&error), error.to_string()),
            Failure::ChangeGoesOn(change) => Self {
                code: Code::DeadlineExceeded,
                ..Self::new(
                    Reason::ChangeUnderWay,
                    format!(
                        "the deadline passed, and the change goes on: {change}; `helve member list` shows it, and the same call follows it"
                    ),
                )
            },
            Failure::NoNodeAsked(change) => Self {
                code: Code::DeadlineExceeded,
                ..Self::new(
                    Reason::NodeSilent,
                    format!(
                        "no node asked for its seat before the deadline, and nothing was changed ({change}): start it with that --id, the address in its --peers and an empty --data-dir, and repeat this"
                    ),
                )
            },
        }
    }
}

/// A value that is not handed out.
fn open_problem(error: &OpenError) -> Problem {
    match error {
        OpenError::NoKey { .. } => Problem::new(
            Reason::KeyMissing,
            format!(
                "{error}: try another node, a mutation under the same identity, and give this one the key"
            ),
        ),
        OpenError::Damaged { .. } | OpenError::Plain { .. } => Problem::new(
            Reason::Damaged,
            format!(
                "{error}: put the value back from elsewhere, and look for what changes this cluster's disks"
            ),
        ),
    }
}

/// Why values are not sealed otherwise.
fn switch_problem(error: &SwitchError) -> Problem {
    match error {
        SwitchError::Propose(ProposeError::Unknown(detail)) => ambiguous(detail, Lateness::InTime),
        SwitchError::Propose(ProposeError::Unrecorded) => Failure::UnrecordedByLeader.into(),
        SwitchError::Propose(_) | SwitchError::Entropy(_) => {
            Problem::new(Reason::NoLeader, format!("nothing was changed: {error}"))
        }
        SwitchError::NoKey(_)
        | SwitchError::NotEverywhere(_)
        | SwitchError::Differ(_)
        | SwitchError::GoesBack { .. }
        | SwitchError::Busy
        | SwitchError::Raced
        | SwitchError::SecretLost(_)
        | SwitchError::TooOld => Problem {
            code: Code::FailedPrecondition,
            ..Problem::new(Reason::BadRequest, error.to_string())
        },
    }
}

const LAGGING: &str = "this node lags behind the leader, and the call was not executed: try another node, or retry after the pause in `retry_after_ms`";
const CLEARING: &str = "the tenant is at a bound, rows of its own that have expired are still being removed, and the call was not executed: retry";
const WRITE_RATE: &str = "the tenant's quota of writes a second is used up, and the call was not executed: retry after the pause in `retry_after_ms`, or ask an operator for a higher quota";
const UNRECORDED_BY_LEADER: &str = "the leader cannot write its audit log, and the call was not executed: make room for it there, or hand over with `helve leader transfer`, and retry";
const UNAUTHENTICATED: &str = "the call bears no valid token, and was not executed: send one as `authorization: Bearer hlv_...` that has neither expired nor been revoked (--token-file); without one, show a client certificate whose name was granted a role";

fn not_executed(why: &str) -> String {
    format!("the call was not executed: {why}")
}

fn unrecorded() -> Problem {
    Problem::new(
        Reason::AuditFailing,
        "this node cannot write its audit log, and the call was not executed: try another node; the node's own log says what is wrong",
    )
}

fn overloaded(message: &str, pause: Duration) -> Problem {
    let problem = Problem::new(Reason::Overloaded, message);
    Problem {
        retry_after: Some(pause),
        ..problem.with("retry_after_ms", pause.as_millis().to_string())
    }
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        Problem::from(failure).into_status()
    }
}

/// A status of the peer service, where the code does not follow from the reason alone.
pub(crate) fn status(code: Code, reason: Reason, message: &str) -> Status {
    Problem {
        code,
        ..Problem::new(reason, message)
    }
    .into_status()
}

/// A message that no service has seen.
pub(crate) fn too_large(message: &str) -> Status {
    Problem::new(Reason::TooLarge, message).into_status()
}

/// A message that cannot be decoded, and that no service has seen.
pub(crate) fn undecodable(message: &str) -> Status {
    Problem::new(Reason::BadRequest, message).into_status()
}

/// The code that goes with a reason.
fn code(reason: Reason) -> Code {
    match reason {
        Reason::ReplayMismatch
        | Reason::TooLarge
        | Reason::BadId
        | Reason::BadKey
        | Reason::BadName
        | Reason::BadLifetime
        | Reason::BadRequest => Code::InvalidArgument,
        Reason::Conflict
        | Reason::Claimed
        | Reason::StaleCall
        | Reason::TooEarly
        | Reason::SessionExpired
        | Reason::RequestTooOld
        | Reason::WrongCluster
        | Reason::WrongNode
        | Reason::FormatNewer
        | Reason::NotLeading
        | Reason::ChangeUnderWay
        | Reason::SeatTaken
        | Reason::AlreadyVoter
        | Reason::StaysLearner
        | Reason::QuorumAtRisk
        | Reason::NodeSilent => Code::FailedPrecondition,
        Reason::NoMember | Reason::NoTenant => Code::NotFound,
        Reason::Quota | Reason::Overloaded | Reason::DiskFull => Code::ResourceExhausted,
        Reason::NoLeader
        | Reason::Stopping
        | Reason::Ambiguous
        | Reason::AuditFailing
        | Reason::KeyMissing => Code::Unavailable,
        Reason::Damaged => Code::DataLoss,
        Reason::ListLapsed | Reason::WatchLapsed => Code::Aborted,
        Reason::WatchTooOld => Code::OutOfRange,
        Reason::Unauthenticated => Code::Unauthenticated,
        Reason::Denied => Code::PermissionDenied,
        // `Reason` may grow; a test fails for one that has no line here.
        _ => Code::Unknown,
    }
}

fn ambiguous(detail: &str, late: Lateness) -> Problem {
    let message =
        format!("the call may or may not take effect: {detail}; retry under the same identity");
    let problem = Problem::new(Reason::Ambiguous, message);
    match late {
        Lateness::DeadlinePassed => Problem {
            code: Code::DeadlineExceeded,
            ..problem
        },
        Lateness::InTime => problem,
    }
}

/// What a refusal of the machine means.
fn refused_problem(refused: &Refused) -> Problem {
    match refused.refusal() {
        Refusal::Conflict => Problem::new(
            Reason::Conflict,
            "`if_revision` does not hold, and nothing was written: read again, decide again",
        )
        .with("revision", refused.revision.to_string())
        .with("operation", refused.operation.to_string()),
        Refusal::ReplayMismatch => Problem::new(
            Reason::ReplayMismatch,
            "the identity was used for another request, and this one was not executed: never reuse an identity",
        ),
        Refusal::StaleCall => Problem::new(
            Reason::StaleCall,
            "the call's number is below the session's floor, so its outcome is forgotten; it was not executed now",
        ),
        Refusal::TooEarly => Problem::new(
            Reason::TooEarly,
            "the call's number is beyond the session's window, or its request id is from the future; it was not executed: finish earlier calls first, or check the clock",
        ),
        Refusal::SessionExpired => Problem::new(
            Reason::SessionExpired,
            "the replay session is gone: open a new one; if this call was sent before, its outcome cannot be known",
        ),
        Refusal::RequestTooOld => Problem::new(
            Reason::RequestTooOld,
            "the request id is older than the outcomes that are kept; it was not executed now",
        ),
        Refusal::Quota => Problem::new(
            Reason::Quota,
            "the tenant's quota is used up, and nothing was written: delete or take records",
        ),
        Refusal::Clearing => overloaded(CLEARING, limits::OVERLOADED_RETRY_AFTER),
        Refusal::BadLifetime => Problem::new(
            Reason::BadLifetime,
            "the deadline does not fit 64 bits of milliseconds, and nothing was written: ask for a shorter lifetime",
        ),
        Refusal::TooLarge => Problem::new(
            Reason::TooLarge,
            "the values that the transaction would take do not fit one reply, and nothing was taken: take fewer at a time",
        )
        .with("operation", refused.operation.to_string()),
        Refusal::Malformed => Problem::new(
            Reason::BadRequest,
            "the command is malformed, and nothing was written: the node that took it let it pass, so report this",
        ),
        Refusal::FeatureLevel => Problem::new(
            Reason::FormatNewer,
            "the operation needs a feature level that the cluster does not have yet, and nothing was written: upgrade every node, then retry",
        ),
        Refusal::Claimed => Problem::new(
            Reason::Claimed,
            "the record is a claim, which only Claim and Delete change, or Claim names a handle that is none; nothing was written: use another id or store",
        ),
        Refusal::NoTenant => Problem::new(
            Reason::NoTenant,
            "there is no such tenant, and nothing was done: make it with `helve tenant create`",
        ),
        Refusal::TokenExists => Problem::new(
            Reason::Conflict,
            "the token was made before, for something else, or was revoked: make another secret, or grant another certificate name (a revoked one is free again after a day)",
        ),
        Refusal::Sealing => Problem::new(
            Reason::Stopping,
            "the cluster seals values under another key by now, and nothing was written: retry",
        ),
        Refusal::Unspecified => Problem::new(
            Reason::FormatNewer,
            "the cluster refused in a way that this node does not know: upgrade this node",
        ),
    }
}
