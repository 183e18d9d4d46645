//! One attempt to have a command executed, and what may be said of the command after it.

use helve_proto::command::v1::{Command, Outcome, Refusal, outcome::Outcome as Kind};
use tokio::time::Instant;

use super::ProposeError;
use crate::raft::Answer;

/// A command, and until when somebody waits for it.
#[derive(Debug)]
pub struct Timed {
    /// The command. It passes through several queues, which would move all of it each time.
    pub command: Box<Command>,
    /// From then on it is not begun any more.
    pub deadline: Instant,
}

/// What became of one attempt to have a command executed.
#[derive(Debug)]
pub enum Attempt {
    /// It was executed, now or before.
    Outcome(Box<Outcome>),
    /// It was rejected before it was appended.
    Rejected(Rejection),
    /// It may or may not take effect.
    Unknown(String),
}

/// Why a command was not appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// The node does not lead, or no leader is known.
    NotLeading,
    /// Too many commands are under way.
    Overloaded,
    /// The leader's disk is below its reserve.
    DiskFull,
    /// The tenant's quota of writes a second is used up.
    WriteRate,
    /// The node is stopping.
    Stopping,
}

/// These refusals are never kept, so after an attempt whose fate is unknown they do not say that nothing was executed.
pub(super) fn settle(outcome: Outcome, unknown: Option<String>) -> Result<Outcome, ProposeError> {
    let forgotten = match &outcome.outcome {
        Some(Kind::Refused(refused)) => matches!(
            refused.refusal(),
            Refusal::SessionExpired
                | Refusal::StaleCall
                | Refusal::RequestTooOld
                | Refusal::TooEarly
        ),
        _ => false,
    };
    match unknown {
        Some(why) if forgotten => Err(ProposeError::Unknown(why)),
        _ => Ok(outcome),
    }
}

pub(super) fn final_rejection(rejection: Rejection) -> Option<ProposeError> {
    match rejection {
        Rejection::NotLeading => None,
        Rejection::Overloaded => Some(ProposeError::Overloaded),
        Rejection::DiskFull => Some(ProposeError::DiskFull),
        Rejection::WriteRate => Some(ProposeError::WriteRate),
        Rejection::Stopping => Some(ProposeError::Stopping),
    }
}

pub(super) fn of_answer(answer: Answer) -> Attempt {
    match answer {
        Answer::Outcome(outcome) => Attempt::Outcome(outcome),
        Answer::NotLeading => Attempt::Rejected(Rejection::NotLeading),
        Answer::Unknown(why) => Attempt::Unknown(why),
    }
}
