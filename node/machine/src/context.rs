//! What a command may know of where it is applied.

use bytes::Bytes;
use helve_proto::{
    command::v1::{Outcome, Refusal, Refused, UsageRow, outcome},
    v1::ReplyHeader,
};

use crate::{
    batch::Batch,
    fault::Fault,
    layout::{Space, Unfit},
    level,
    view::View,
};

/// All that a command may know of where it is applied.
#[derive(Debug, Clone, Copy)]
pub struct Context {
    /// The group whose log holds the command.
    pub group_id: u32,
    /// The log index of the command's entry: the revision of what it writes.
    pub index: u64,
}

/// One command on its way: its place in the log, and what it writes to.
pub(crate) struct Call<'a, V> {
    pub(crate) space: Space<'a>,
    pub(crate) principal: &'a str,
    /// The key under which the values of the command are sealed; empty: under none.
    pub(crate) sealed_under: &'a Bytes,
    pub(crate) index: u64,
    /// The replicated clock, this command's stamp included.
    pub(crate) clock_ms: u64,
    /// The feature level that this version supports.
    pub(crate) supported: u32,
    pub(crate) batch: &'a mut Batch<V>,
}

impl<V: View> Call<'_, V> {
    /// Whether the command is applied at [`level::MENDED`] or above.
    pub(crate) fn is_mended(&self) -> Result<bool, Fault> {
        Ok(level::feature_level(self.batch, self.space.group_id)? >= level::MENDED)
    }
}

impl<V> Call<'_, V> {
    pub(crate) fn header(&self) -> ReplyHeader {
        ReplyHeader {
            index: self.index,
            clock_ms: self.clock_ms,
            leader_hint: String::new(),
        }
    }

    pub(crate) fn refused(&self, refusal: Refusal, revision: u64, operation: u32) -> Outcome {
        Outcome {
            outcome: Some(outcome::Outcome::Refused(Refused {
                refusal: refusal.into(),
                header: Some(self.header()),
                revision,
                operation,
            })),
        }
    }
}

/// Why a command does not take effect.
#[derive(Debug)]
pub(crate) enum Stop {
    Refused {
        refusal: Refusal,
        /// Of a conflict: the record's revision, 0 if there is none.
        revision: u64,
        /// Of a transaction or batch: the operation at fault.
        operation: u32,
    },
    /// The tenant lacks room: refused with QUOTA, unless rows of its own that have expired make some.
    Short(Lack),
    Fault(Fault),
}

/// What a tenant lacks.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lack {
    /// Rows and bytes of its quotas.
    Usage(UsageRow),
    /// A replay session.
    Session,
}

impl Stop {
    pub(crate) fn refused(refusal: Refusal) -> Self {
        Self::Refused {
            refusal,
            revision: 0,
            operation: 0,
        }
    }

    pub(crate) fn conflict(revision: u64) -> Self {
        Self::Refused {
            refusal: Refusal::Conflict,
            revision,
            operation: 0,
        }
    }

    /// The same, said of this operation of a transaction or batch.
    pub(crate) fn at(self, index: usize) -> Self {
        match self {
            Self::Refused {
                refusal, revision, ..
            } => Self::Refused {
                refusal,
                revision,
                operation: u32::try_from(index).unwrap_or(u32::MAX),
            },
            other => other,
        }
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Unfit> for Stop {
    fn from(_: Unfit) -> Self {
        Self::refused(Refusal::Malformed)
    }
}
