//! What the deadline index names, and what any key names.

use bytes::Bytes;

use super::{Kind, Target};

/// What a deadline row is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Due {
    Record(Target),
    Session(Bytes),
    /// The tenant's oldest tombstone.
    Tombstones,
    /// The tenant's oldest request outcome.
    Requests,
    /// A token that expires, or was revoked.
    Token(Bytes),
}

impl Due {
    pub(super) fn parts(&self) -> (u8, &[u8]) {
        match self {
            Self::Record(Target {
                kind: Kind::Handle,
                path,
            }) => (1, path),
            Self::Record(Target {
                kind: Kind::Key,
                path,
            }) => (2, path),
            Self::Session(id) => (3, id),
            Self::Tombstones => (4, &[]),
            Self::Requests => (5, &[]),
            Self::Token(hash) => (6, hash),
        }
    }

    pub(super) fn from_parts(kind: u8, path: Bytes) -> Option<Self> {
        Some(match kind {
            1 => Self::Record(Target {
                kind: Kind::Handle,
                path,
            }),
            2 => Self::Record(Target {
                kind: Kind::Key,
                path,
            }),
            3 => Self::Session(path),
            4 => Self::Tombstones,
            5 => Self::Requests,
            6 => Self::Token(path),
            _ => return None,
        })
    }
}

/// Which row a key names.
#[derive(Debug)]
pub(crate) enum Place {
    Record(Target),
    Deadline,
    DeadlinesFrom,
    Tombstone(Bytes),
    TombstoneOrder,
    TombstoneSummary,
    Session(Bytes),
    SessionOutcome,
    RequestOutcome(Bytes),
    RequestSummary,
    Usage,
    Token(Bytes),
    TokenOfTenant,
    Other,
}

/// A deadline row, read back.
#[derive(Debug)]
pub(crate) struct DueRow {
    pub(crate) at_ms: u64,
    pub(crate) tenant: String,
    pub(crate) due: Due,
}
