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
    /// A count of the tenant's that is wrong, and is worked out again: what it counts, by its name.
    /// Without one: its tombstones, what it uses and its sessions are to be counted, since older
    /// levels may have miscounted them.
    Recount(Bytes),
    /// The oldest request outcome of a principal.
    PrincipalRequests(Bytes),
    /// Nothing that this version knows: the whole key of the row. It is never written, only removed.
    Unreadable(Bytes),
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
            Self::Recount(name) => (7, name),
            Self::PrincipalRequests(principal) => (8, principal),
            Self::Unreadable(key) => (0, key),
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
            7 => Self::Recount(path),
            8 => Self::PrincipalRequests(path),
            _ => return None,
        })
    }
}

/// A part of the deadline index that is looked through by itself for one tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shelf {
    /// Handles and keys.
    Records,
    /// Replay sessions.
    Sessions,
    /// Request ids of principals.
    Requests,
}

impl Shelf {
    /// The numbers of its kinds in the index's keys.
    pub(crate) fn kinds(self) -> std::ops::RangeInclusive<u8> {
        match self {
            Self::Records => 1..=2,
            Self::Sessions => 3..=3,
            Self::Requests => 8..=8,
        }
    }

    pub(crate) fn first(self) -> u8 {
        *self.kinds().start()
    }

    pub(crate) fn holds(self, due: &Due) -> bool {
        self.kinds().contains(&due.parts().0)
    }

    /// Of what a row is about; `None`: of none.
    pub(crate) fn of(due: &Due) -> Option<Self> {
        let mut all = [Self::Records, Self::Sessions, Self::Requests].into_iter();
        all.find(|shelf| shelf.holds(due))
    }
}

/// Which row a key names.
#[derive(Debug)]
pub(crate) enum Place {
    Record(Target),
    Deadline,
    DeadlinesFrom,
    TenantDeadlines,
    Tombstone(Bytes),
    /// Its tombstone's path.
    TombstoneOrder(Bytes),
    TombstoneSummary,
    Session(Bytes),
    SessionOrder,
    SessionOutcome,
    RequestOutcome(Bytes),
    RequestSummary,
    /// Of a principal: its part of the key, and the request id.
    PrincipalRequestOutcome(Bytes, Bytes),
    PrincipalRequestSummary(Bytes),
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
