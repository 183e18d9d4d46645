//! One of the ways in which a record's history may have been, and what agrees with it.

use std::collections::BTreeMap;

use helve_client::v1::RecordInfo;

use super::told::Heard;
use crate::model::{Act, Cell, Name, Row, Said, Span};

/// Revisions from here on are of writes that nobody has seen.
pub(super) const UNSEEN: u64 = 1 << 62;

/// One way in which it may have been.
#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) cell: Cell,
    /// The floats that took effect, in the order of their numbers.
    pub(super) used: Vec<Used>,
}

/// A float that took effect behind one index, up to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Used {
    pub(super) deed: usize,
    pub(super) after: u64,
    pub(super) until: u64,
}

/// Floats that must have taken effect, and where.
pub(super) type Forced = BTreeMap<usize, (u64, u64)>;

impl World {
    pub(super) fn has_used(&self, deed: usize) -> bool {
        self.used.iter().any(|used| used.deed == deed)
    }

    pub(super) fn used_within(&self, other: &Self) -> bool {
        self.used.iter().all(|used| other.has_used(used.deed))
    }
}

/// Whether what the model says of a part may be told so.
pub(super) fn agrees(name: &Name, act: &Act, said: &Said, heard: &Heard<'_>) -> bool {
    match (said, heard) {
        (Said::Done { .. }, Heard::Ready | Heard::Shown) => true,
        (Said::NotLive(said), Heard::NotLive(heard)) => said == heard,
        (
            Said::Done { existed, row },
            Heard::Done {
                existed: told,
                info,
                value,
            },
        ) => {
            let is_row = |row: &Row| info.is_some_and(|info| row.may_be_told(name, info));
            let is_value = |row: &Row| match value {
                Some(value) => **value == row.value,
                None => row.value.is_empty(),
            };
            told.is_none_or(|told| told == *existed)
                && row.as_ref().is_none_or(is_row)
                && (!matches!(act, Act::Take { .. }) || row.as_ref().is_some_and(is_value))
        }
        _ => false,
    }
}

/// The cell, now that its row's times were told.
pub(super) fn told(cell: Cell, info: &RecordInfo) -> Cell {
    match cell {
        Cell::Written(row) => Cell::Written(Row {
            created_ms: Span::at(info.created_at_ms),
            updated_ms: Span::at(info.updated_at_ms),
            expires_ms: info.expires_at_ms.map(Span::at),
            idle_deadline_ms: info.idle_deadline_ms.map(Span::at),
            ..row
        }),
        cell => cell,
    }
}
