//! What a call and its copy came to, to be compared.

use helve_client::{
    Error, ErrorKind,
    v1::{CallIdentity, exchange_answer::Answer, exchange_call::Call},
};
use helve_proto::Reason;

/// What became of a call, as far as a copy of it must agree.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Outcome {
    /// It was done, or met a condition that did not hold: what every copy is told, too.
    Known(Box<Known>),
    /// Unknown.
    Open,
    /// It was certainly not done, now.
    NotDone,
    /// It was not done: the cluster had been told that it would not come.
    Stale,
    /// An error that no copy may meet.
    Wrong(String),
}

/// What is replicated of an outcome.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "nearly all are answers")]
pub(super) enum Known {
    Answer(Answer),
    Conflict { revision: u64, operation: u32 },
}

impl Outcome {
    pub(super) fn of(answer: &Result<Answer, Error>) -> Self {
        let error = match answer {
            Ok(answer) => return Self::Known(Box::new(Known::Answer(without_view(answer)))),
            Err(error) => error,
        };
        match error.kind() {
            ErrorKind::Conflict {
                revision,
                operation,
            } => Self::Known(Box::new(Known::Conflict {
                revision,
                operation,
            })),
            ErrorKind::Ambiguous => Self::Open,
            ErrorKind::Unavailable | ErrorKind::Overloaded | ErrorKind::Full => Self::NotDone,
            ErrorKind::Forgotten if error.reason() == Some(Reason::StaleCall) => Self::Stale,
            ErrorKind::Forgotten => Self::NotDone,
            kind => Self::Wrong(format!("{kind:?}: {error}")),
        }
    }

    pub(super) fn is_known(&self) -> bool {
        matches!(self, Self::Known(_))
    }

    /// Whether a copy can do no harm that the caller was not told of: one of a call that was called not done would.
    pub(super) fn may_be_done(&self) -> bool {
        matches!(self, Self::Known(_) | Self::Open)
    }
}

/// What a caller may be told whose call and its copy came to these.
pub(super) fn more_certain(
    first: Result<Answer, Error>,
    copy: Result<Answer, Error>,
) -> Result<Answer, Error> {
    let rank = |answer: &Result<Answer, Error>| match Outcome::of(answer) {
        Outcome::Known(_) | Outcome::Wrong(_) => 0,
        Outcome::Open => 1,
        Outcome::Stale | Outcome::NotDone => 2,
    };
    if rank(&copy) < rank(&first) {
        copy
    } else {
        first
    }
}

macro_rules! mutations {
    ($($variant:ident),*) => {
        /// Where a mutation bears its identity; `None` for a read.
        pub(super) fn identity_mut(call: &mut Call) -> Option<&mut Option<CallIdentity>> {
            match call {
                $(Call::$variant(request) => Some(&mut request.identity),)*
                _ => None,
            }
        }

        /// The answer to a mutation without that which says when it was given.
        fn without_view(answer: &Answer) -> Answer {
            let mut answer = answer.clone();
            match &mut answer {
                $(Answer::$variant(reply) => reply.header = None,)*
                _ => {}
            }
            answer
        }
    };
}

mutations!(
    Mint, Put, Take, Renew, Delete, Claim, Store, DeleteKey, BatchStore, Transact
);
