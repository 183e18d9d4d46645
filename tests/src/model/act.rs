//! What an operation on one record returns, and what it leaves.

use bytes::Bytes;
use helve_client::v1::{HandleStatus, Lifetime, lifetime::Absolute};

use super::cell::{Cell, Name, Row, Span, idle_deadline};

/// Where in the log something is done.
#[derive(Debug, Clone, Copy)]
pub struct At {
    /// The log index: the revision of what is written there.
    pub index: u64,
    /// The replicated clock there.
    pub clock: Span,
}

impl At {
    /// A place that is known.
    #[must_use]
    pub fn new(index: u64, clock_ms: u64) -> Self {
        Self {
            index,
            clock: Span::at(clock_ms),
        }
    }
}

/// Which write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// Of a new handle.
    Mint,
    /// Of a handle.
    Put,
    /// Of a key.
    Store,
}

/// An operation on one record.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// Writes a value.
    Write {
        /// Which write.
        write: Write,
        /// The value.
        value: Bytes,
        /// How long it lives.
        lifetime: Option<Lifetime>,
        /// The condition.
        if_revision: Option<u64>,
    },
    /// Takes a handle.
    Take {
        /// The condition.
        if_revision: Option<u64>,
    },
    /// Renews a handle.
    Renew {
        /// How long it lives from now on.
        lifetime: Option<Lifetime>,
        /// The condition.
        if_revision: Option<u64>,
    },
    /// Deletes a handle.
    Delete {
        /// The condition.
        if_revision: Option<u64>,
    },
    /// Deletes a key.
    DeleteKey {
        /// The condition.
        if_revision: Option<u64>,
    },
}

impl Act {
    /// The condition: the revision that the record must have, 0 if none may live.
    #[must_use]
    pub fn if_revision(&self) -> Option<u64> {
        match self {
            Self::Write { if_revision, .. }
            | Self::Take { if_revision }
            | Self::Renew { if_revision, .. }
            | Self::Delete { if_revision }
            | Self::DeleteKey { if_revision } => *if_revision,
        }
    }

    /// The value that it writes.
    #[must_use]
    pub fn written(&self) -> Option<&Bytes> {
        match self {
            Self::Write { value, .. } => Some(value),
            _ => None,
        }
    }

    /// Whether what it acts on, where nothing lives, makes it fail with that status.
    fn stops_at(&self, status: HandleStatus) -> bool {
        match self {
            Self::Write {
                write: Write::Put, ..
            } => {
                matches!(status, HandleStatus::Expired | HandleStatus::Taken)
            }
            Self::Take { .. } | Self::Renew { .. } | Self::Delete { .. } => {
                status != HandleStatus::Live
            }
            Self::Write { .. } | Self::DeleteKey { .. } => false,
        }
    }
}

/// The result of an act.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// It took effect.
    Done {
        /// Whether the record lived before.
        existed: bool,
        /// The row as it was written or renewed; of a take, as it was; of deletes, nothing.
        row: Option<Row>,
    },
    /// It did not: the handle does not live.
    NotLive(HandleStatus),
    /// It did not: the record has this revision, 0 if nothing lives there.
    Conflict(u64),
}

/// What the act may come to on this cell, and what it then leaves: one thing if all is known.
#[must_use]
pub fn step(cell: &Cell, name: &Name, act: &Act, at: At) -> Vec<(Said, Cell)> {
    let statuses = cell.statuses(name, at.clock);
    let once = |status: &HandleStatus| once(cell, act, at, *status);
    statuses.iter().map(once).collect()
}

fn once(cell: &Cell, act: &Act, at: At, status: HandleStatus) -> (Said, Cell) {
    let live = cell.row().filter(|_| status == HandleStatus::Live);
    let revision = live.map_or(0, |row| row.revision);
    if act.stops_at(status) {
        return (Said::NotLive(status), cell.clone());
    }
    let is_taken_id = matches!(
        act,
        Act::Write {
            write: Write::Mint,
            ..
        }
    ) && status != HandleStatus::Unknown;
    if is_taken_id
        || act
            .if_revision()
            .is_some_and(|expected| expected != revision)
    {
        return (Said::Conflict(revision), cell.clone());
    }
    let done = |row: Option<Row>| Said::Done {
        existed: live.is_some(),
        row,
    };
    match act {
        Act::Write {
            value, lifetime, ..
        } => {
            let row = Row {
                value: value.clone(),
                revision: at.index,
                created_ms: live.map_or(at.clock, |row| row.created_ms),
                updated_ms: at.clock,
                expires_ms: None,
                idle_ttl_ms: None,
                idle_deadline_ms: None,
            };
            let row = lasting(row, lifetime.as_ref(), live, at.clock);
            (done(Some(row.clone())), Cell::Written(row))
        }
        Act::Renew { lifetime, .. } => {
            let row = live.expect("a renewal stops where nothing lives").clone();
            let row = lasting(row, lifetime.as_ref(), live, at.clock);
            (done(Some(row.clone())), Cell::Written(row))
        }
        Act::Take { .. } => (done(live.cloned()), Cell::Taken(at.clock)),
        Act::Delete { .. } => (done(None), Cell::Empty),
        Act::DeleteKey { .. } => (done(None), Cell::Empty),
    }
}

/// The row with the lifetime that a write at this time gives it.
fn lasting(row: Row, lifetime: Option<&Lifetime>, live: Option<&Row>, now: Span) -> Row {
    let asked = lifetime.and_then(|lifetime| lifetime.absolute);
    let kept = live.filter(|_| matches!(asked, Some(Absolute::Keep(_))));
    let expires_ms = match asked {
        Some(Absolute::AfterMs(ms)) => Some(now.plus(ms)),
        _ => kept.and_then(|row| row.expires_ms),
    };
    let idle_ttl_ms = lifetime
        .and_then(|lifetime| lifetime.idle_ttl_ms)
        .or(kept.and_then(|row| row.idle_ttl_ms));
    Row {
        expires_ms,
        idle_ttl_ms,
        idle_deadline_ms: idle_ttl_ms.map(|ttl_ms| idle_deadline(now, ttl_ms)),
        ..row
    }
}
