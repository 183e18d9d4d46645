//! How much a tenant, a store and an owner hold. Changes are added up in the batch and written once, when it is finished.

use bytes::Bytes;
use helve_proto::command::v1::UsageRow;

use crate::{
    batch::{Batch, View},
    fault::Fault,
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

/// The usage row as it stands in the view.
pub(crate) fn stored(view: &impl View, key: &[u8]) -> Result<UsageRow, Fault> {
    Ok(row::read(view, TABLE, key)?.unwrap_or_default())
}

/// What is in use, this batch's changes included.
pub(crate) fn current<V: View>(batch: &Batch<V>, key: &[u8]) -> Result<UsageRow, Fault> {
    plus(batch, key, batch.pending_usage(key))
}

/// The row after a change; `None` if nothing is left.
pub(crate) fn sum(view: &impl View, key: &[u8], delta: Delta) -> Result<Option<Bytes>, Fault> {
    let row = plus(view, key, delta)?;
    Ok((row != UsageRow::default()).then(|| row::encode(&row)))
}

fn plus(view: &impl View, key: &[u8], delta: Delta) -> Result<UsageRow, Fault> {
    let old = stored(view, key)?;
    Ok(UsageRow {
        rows: add(old.rows, delta.rows)?,
        bytes: add(old.bytes, delta.bytes)?,
    })
}

fn add(old: u64, change: i64) -> Result<u64, Fault> {
    old.checked_add_signed(change)
        .ok_or(Fault::Corrupt("more is freed than was in use"))
}
