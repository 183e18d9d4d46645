//! How much a tenant, a store and an owner hold. Changes are added up in the batch and written once, when it is finished.

mod pending;
mod progress;
mod recount;

use bytes::Bytes;
use helve_proto::command::v1::{CountedRow, UsageRow};

pub(crate) use self::{pending::PendingUsage, progress::Recount, recount::step};
use crate::{fault::Fault, layout::Space, row, view::View};

const TABLE: &str = "usage";

/// A change of a usage row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Delta {
    pub(crate) rows: i64,
    pub(crate) bytes: i64,
}

impl Delta {
    /// From what a row took (`None`: there was none) to what it takes.
    pub(crate) fn between(old_bytes: Option<usize>, new_bytes: Option<usize>) -> Self {
        let count = |bytes: Option<usize>| i64::from(bytes.is_some());
        let size =
            |bytes: Option<usize>| i64::try_from(bytes.unwrap_or(0)).expect("a row fits memory");
        Self {
            rows: count(new_bytes) - count(old_bytes),
            bytes: size(new_bytes) - size(old_bytes),
        }
    }

    /// The same bytes, counted as no row.
    pub(crate) fn bytes_only(self) -> Self {
        Self { rows: 0, ..self }
    }

    /// Without another change.
    pub(crate) fn minus(self, other: Self) -> Self {
        Self {
            rows: self.rows - other.rows,
            bytes: self.bytes - other.bytes,
        }
    }

    /// A sum after this change.
    pub(crate) fn on(self, sum: UsageRow) -> UsageRow {
        UsageRow {
            rows: sum.rows.wrapping_add_signed(self.rows),
            bytes: sum.bytes.wrapping_add_signed(self.bytes),
        }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            rows: self.rows + other.rows,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// A usage row: whose rows and bytes it counts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Counter<'a> {
    Tenant,
    Sessions,
    /// A principal's sessions, by its part of a key.
    Principal(&'a [u8]),
    Store(&'a [u8]),
    Owner(&'a [u8]),
}

impl Counter<'_> {
    pub(crate) fn key(self, space: Space<'_>) -> Bytes {
        match self {
            Self::Tenant => space.usage().tenant(),
            Self::Sessions => space.usage().sessions(),
            Self::Principal(path) => space.usage().principal(path),
            Self::Store(path) => space.usage().store(path),
            Self::Owner(path) => space.usage().owner(path),
        }
    }

    /// Its name in the deadline index.
    pub(crate) fn name(self) -> Bytes {
        let (number, path): (u8, &[u8]) = match self {
            Self::Tenant => (1, &[]),
            Self::Sessions => (2, &[]),
            Self::Store(path) => (3, path),
            Self::Owner(path) => (4, path),
            Self::Principal(path) => (7, path),
        };
        [&[number], path].concat().into()
    }
}

impl<'a> Counter<'a> {
    /// The counter of this name; `None`: none has it.
    pub(crate) fn named(name: &'a [u8]) -> Option<Self> {
        match name.split_first() {
            Some((1, [])) => Some(Self::Tenant),
            Some((2, [])) => Some(Self::Sessions),
            Some((3, path)) => Some(Self::Store(path)),
            Some((4, path)) => Some(Self::Owner(path)),
            Some((7, path)) => Some(Self::Principal(path)),
            _ => None,
        }
    }
}

/// A usage row and how it changes. Sums wrap around, so that they do not depend on how commands are batched; what is below zero
/// shows that rows were miscounted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    stored: UsageRow,
    pub(crate) change: Delta,
    /// Boxed, since there is nearly never one.
    pub(crate) recount: Option<Box<Recount>>,
}

impl Counted {
    pub(crate) fn read(view: &impl View, key: &[u8]) -> Result<Self, Fault> {
        let row: CountedRow = row::read(view, TABLE, key)?.unwrap_or_default();
        let CountedRow {
            rows,
            bytes,
            recount,
        } = row;
        Ok(Self {
            stored: UsageRow { rows, bytes },
            change: Delta::default(),
            recount: recount.map(|recount| Box::new(recount.into())),
        })
    }

    /// The row to store; `None`: there is nothing to say.
    pub(crate) fn encoded(self) -> Option<Bytes> {
        let UsageRow { rows, bytes } = self.now();
        let row = CountedRow {
            rows,
            bytes,
            recount: self.recount.map(|recount| (*recount).into()),
        };
        (row != CountedRow::default()).then(|| row::encode(&row))
    }

    pub(crate) fn now(&self) -> UsageRow {
        self.change.on(self.stored)
    }

    pub(crate) fn set(&mut self, row: UsageRow) {
        self.change = Delta {
            rows: row.rows.wrapping_sub(self.stored.rows).cast_signed(),
            bytes: row.bytes.wrapping_sub(self.stored.bytes).cast_signed(),
        };
    }

    pub(crate) fn is_below_zero(&self) -> bool {
        let now = self.now();
        now.rows.cast_signed() < 0 || now.bytes.cast_signed() < 0
    }

    /// What the row says, never less than nothing, nor than what a recount has found so far.
    pub(crate) fn said(&self) -> UsageRow {
        let sound = |number: u64| if number.cast_signed() < 0 { 0 } else { number };
        let now = self.now();
        let found = self.recount.as_ref().map(|recount| recount.sum);
        let found = found.unwrap_or_default();
        UsageRow {
            rows: sound(now.rows).max(sound(found.rows)),
            bytes: sound(now.bytes).max(sound(found.bytes)),
        }
    }
}

/// The usage row as it is in the view.
pub(crate) fn stored(view: &impl View, key: &[u8]) -> Result<UsageRow, Fault> {
    Ok(Counted::read(view, key)?.said())
}
