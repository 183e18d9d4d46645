//! Why a call of the public services was not answered with a reply. `status.rs` maps it to gRPC.

use std::time::Duration;

use bytes::Bytes;
use helve_machine::{Fault, Violation};
use helve_proto::command::v1::Refused;
use tokio::time::Instant;

use super::budget::Full;
use crate::{
    bounds,
    digest::DigestError,
    membership::MembershipError,
    propose::ProposeError,
    raft::Stopped,
    read_index::ReadError,
    stamp::EntropyError,
    upgrade::hold::HoldError,
    vault::{OpenError, SealError, SwitchError},
};

/// A call that failed, by what its caller does next.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The request is wrong in itself.
    #[error("the request breaks a rule: {0}")]
    Invalid(Violation),
    /// The message around the request is wrong: its headers, or its batch.
    #[error("{0}")]
    Malformed(String),
    /// Not executed: the credential does not allow it.
    #[error("{0}")]
    Denied(String),
    /// Not executed: the tenant's quota of writes a second is used up.
    #[error("the tenant writes too much")]
    WriteRate,
    /// Not executed: a message did not come to its end within this time.
    #[error("a message took too long to arrive")]
    TooSlow(Duration),
    /// Not executed: the caller is not known.
    #[error("no valid credential")]
    Unauthenticated,
    /// The values asked for do not fit one reply.
    #[error("the values asked for do not fit one reply")]
    TooMuch,
    /// The machine refused the command, and says so to every retry.
    #[error("refused")]
    Refused(Refused),
    /// The command may or may not take effect.
    #[error("the outcome is not known: {detail}")]
    Ambiguous {
        /// What happened.
        detail: String,
        /// Whether the caller's deadline ran out.
        late: Lateness,
    },
    /// Not executed: no leader answered in time.
    #[error("no leader answered within the deadline")]
    NoLeader,
    /// Not executed: this node has not applied what the read must see.
    #[error("this node lags behind the leader")]
    Lagging,
    /// Not executed: too much is under way, for the bound of this name.
    #[error("too much is under way: {0}")]
    Overloaded(&'static str),
    /// Not executed: a budget is used up.
    #[error(transparent)]
    Full(#[from] Full),
    /// A stream ended that nothing came over for this long. Nothing of it was under way.
    #[error("a stream was idle")]
    Idle(Duration),
    /// Not executed: the call should be recorded, and cannot be.
    #[error("the audit log cannot be written")]
    Unrecorded,
    /// Not executed: the leader should record the call, too, and cannot.
    #[error("the leader's audit log cannot be written")]
    UnrecordedByLeader,
    /// Not executed: a disk is below its reserve.
    #[error("a disk is below its reserve")]
    DiskFull,
    /// Not executed: the node stops, or cannot go on.
    #[error("this node does not serve: {0}")]
    Stopping(String),
    /// The list took too long.
    #[error("the list lapsed")]
    Lapsed {
        /// Where to go on.
        resume: Bytes,
    },
    /// What follows a revision is not kept here.
    #[error("what follows the revision is gone")]
    WatchTooOld {
        /// Changes of later revisions than this one are kept here.
        floor: u64,
    },
    /// A watch ended whose caller did not read.
    #[error("the watch lapsed")]
    WatchLapsed {
        /// Watch after this one to go on.
        revision: u64,
    },
    /// Not executed: what an operator asked for is not possible now.
    #[error("{0}")]
    NotNow(String),
    /// A value does not open. Of a mutation: it was done.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The values of the cluster are not sealed otherwise: why.
    #[error(transparent)]
    Switch(SwitchError),
    /// A change of members, or of leaders, that is not possible now.
    #[error(transparent)]
    Membership(MembershipError),
    /// A change of members that goes on without its caller, whose deadline has passed.
    #[error("it goes on: {0}")]
    ChangeGoesOn(String),
    /// A change of members for which no node came before its caller's deadline. Nothing was changed.
    #[error("no node came: {0}")]
    NoNodeAsked(String),
}

/// Whether a deadline ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lateness {
    /// It did.
    DeadlinePassed,
    /// It did not.
    InTime,
}

impl Failure {
    /// What a proposer's error means to the caller whose deadline is this.
    pub(crate) fn of_propose(error: ProposeError, deadline: Instant) -> Self {
        match error {
            ProposeError::NoLeader => Self::NoLeader,
            ProposeError::Overloaded(bound) => Self::Overloaded(bound),
            ProposeError::DiskFull => Self::DiskFull,
            ProposeError::WriteRate => Self::WriteRate,
            ProposeError::Stopping => Self::Stopping("it is shutting down".into()),
            ProposeError::Unrecorded => Self::UnrecordedByLeader,
            ProposeError::Entropy(error) => Self::Stopping(error.to_string()),
            ProposeError::Unknown(detail) => Self::ambiguous(detail, deadline),
        }
    }

    /// That the outcome is not known, for this reason, to the caller whose deadline is this.
    pub(crate) fn ambiguous(detail: String, deadline: Instant) -> Self {
        let late = if Instant::now() >= deadline {
            Lateness::DeadlinePassed
        } else {
            Lateness::InTime
        };
        Self::Ambiguous { detail, late }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            // A read has no effect, so one that time had to pass for, in vain, was simply not executed.
            ReadError::NoLeader
            | ReadError::Propose(ProposeError::Unknown(_) | ProposeError::NoLeader) => {
                Self::NoLeader
            }
            ReadError::Lagging => Self::Lagging,
            ReadError::Overloaded(bound) | ReadError::Propose(ProposeError::Overloaded(bound)) => {
                Self::Overloaded(bound)
            }
            ReadError::Propose(ProposeError::DiskFull) => Self::DiskFull,
            ReadError::Propose(ProposeError::WriteRate) => Self::WriteRate,
            ReadError::Propose(ProposeError::Unrecorded) => Self::UnrecordedByLeader,
            ReadError::Stopping | ReadError::Propose(ProposeError::Stopping) => {
                Self::Stopping("it is shutting down".into())
            }
            ReadError::Propose(ProposeError::Entropy(error)) => Self::Stopping(error.to_string()),
            ReadError::TooLarge => Self::TooMuch,
            ReadError::Fault(fault) => fault.into(),
        }
    }
}

impl From<DigestError> for Failure {
    fn from(error: DigestError) -> Self {
        match error {
            DigestError::Busy => Self::Overloaded(bounds::DIGESTS),
            DigestError::TooSlow => Self::NotNow(error.to_string()),
            DigestError::Storage(_) | DigestError::Stopping => Self::Stopping(error.to_string()),
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Stopping(format!("its rows cannot be read: {fault}"))
    }
}

impl From<Violation> for Failure {
    fn from(violation: Violation) -> Self {
        Self::Invalid(violation)
    }
}

impl From<EntropyError> for Failure {
    fn from(error: EntropyError) -> Self {
        Self::Stopping(error.to_string())
    }
}

impl From<SealError> for Failure {
    fn from(error: SealError) -> Self {
        Self::Stopping(error.to_string())
    }
}

impl From<SwitchError> for Failure {
    fn from(error: SwitchError) -> Self {
        Self::Switch(error)
    }
}

impl From<HoldError> for Failure {
    fn from(error: HoldError) -> Self {
        match error {
            HoldError::Stopped(stopped) => stopped.into(),
            HoldError::NoTarget => Self::Malformed(error.to_string()),
            HoldError::Change(_) | HoldError::Raised { .. } | HoldError::Broken(_) => {
                Self::NotNow(error.to_string())
            }
        }
    }
}

impl From<MembershipError> for Failure {
    fn from(error: MembershipError) -> Self {
        match error {
            MembershipError::Stopped(stopped) => stopped.into(),
            error => Self::Membership(error),
        }
    }
}

impl From<Stopped> for Failure {
    fn from(stopped: Stopped) -> Self {
        Self::Stopping(stopped.to_string())
    }
}
