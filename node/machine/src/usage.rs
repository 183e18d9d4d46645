//! How much a tenant, a store and an owner hold. Changes are added up in the batch and written once, when it is finished.

use bytes::Bytes;
use helve_proto::command::v1::UsageRow;

use crate::{
    batch::{Batch, View},
    fault::Fault,
    layout::{Kind, Space, Span},
    limits::SCAN_ROWS,
    row,
};

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
    Store(&'a [u8]),
    Owner(&'a [u8]),
}

impl Counter<'_> {
    pub(crate) fn key(self, space: Space<'_>) -> Bytes {
        match self {
            Self::Tenant => space.usage_tenant(),
            Self::Sessions => space.usage_sessions(),
            Self::Store(path) => space.usage_store(path),
            Self::Owner(path) => space.usage_owner(path),
        }
    }
}

/// A usage row and how it changes. Sums wrap around, so that they do not depend on how commands are batched; what is below zero
/// shows that rows were miscounted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) stored: UsageRow,
    pub(crate) change: Delta,
}

impl Counted {
    pub(crate) fn read(view: &impl View, key: &[u8]) -> Result<Self, Fault> {
        Ok(Self {
            stored: row::read(view, TABLE, key)?.unwrap_or_default(),
            change: Delta::default(),
        })
    }

    pub(crate) fn now(&self) -> UsageRow {
        UsageRow {
            rows: self.stored.rows.wrapping_add_signed(self.change.rows),
            bytes: self.stored.bytes.wrapping_add_signed(self.change.bytes),
        }
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
}

/// What a usage row says, never less than nothing.
pub(crate) fn sound(row: UsageRow) -> UsageRow {
    let sound = |number: u64| if number.cast_signed() < 0 { 0 } else { number };
    UsageRow {
        rows: sound(row.rows),
        bytes: sound(row.bytes),
    }
}

/// The usage row as it is in the view.
pub(crate) fn stored(view: &impl View, key: &[u8]) -> Result<UsageRow, Fault> {
    Ok(sound(Counted::read(view, key)?.now()))
}

/// Works a usage row out from the rows that it counts. Reads all of them.
pub(crate) fn recount<V: View>(
    batch: &Batch<V>,
    space: Space<'_>,
    counter: Counter<'_>,
) -> Result<UsageRow, Fault> {
    let mut sum = UsageRow::default();
    let mut add = |span: &Span, is_row: bool, key_from: usize| {
        each(batch, span, SCAN_ROWS, |key, value| {
            sum.rows += u64::from(is_row);
            sum.bytes += (key.len() - key_from + value.len()) as u64;
            Ok(())
        })
    };
    let start = |kind| space.records(kind, &[]).prefix.len();
    match counter {
        Counter::Tenant => {
            for kind in [Kind::Handle, Kind::Key] {
                add(&space.records(kind, &[]), true, start(kind))?;
            }
            add(&space.session_outcomes(&[]), false, 0)?;
            add(&space.request_outcomes(), false, 0)?;
        }
        Counter::Store(path) | Counter::Owner(path) => {
            add(
                &space.records(Kind::Handle, path),
                true,
                start(Kind::Handle),
            )?;
        }
        Counter::Sessions => sum.rows = batch.count_sessions(space)?,
    }
    Ok(sum)
}

/// Shows all rows of a span.
pub(crate) fn each(
    view: &impl View,
    span: &Span,
    page_rows: usize,
    mut show: impl FnMut(&Bytes, &Bytes) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut from = span.prefix.clone();
    loop {
        let rows = view.range(&from, &span.end, page_rows)?;
        for (key, value) in &rows {
            show(key, value)?;
        }
        match rows.last() {
            Some((last, _)) if rows.len() == page_rows => from = [last, &[0][..]].concat(),
            _ => return Ok(()),
        }
    }
}
