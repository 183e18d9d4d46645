//! What is left of a handle that expired or was taken, so that its owner hears which.
//!
//! A second table holds them in the order of time. The oldest alone stands in the deadline index, one row a tenant.

use bytes::Bytes;
use helve_proto::command::v1::{TombstoneRow, TombstonesRow};

use crate::{
    batch::{Batch, View},
    fault::Fault,
    layout::{Due, Space},
    limits::{TOMBSTONE_TTL_MS, TOMBSTONES_MAX},
    row,
};

const TABLE: &str = "tombstones";
const SUMMARY: &str = "tombstone summaries";

pub(crate) fn read(
    view: &impl View,
    space: Space<'_>,
    path: &[u8],
) -> Result<Option<TombstoneRow>, Fault> {
    row::read(view, TABLE, &space.tombstone(path))
}

/// Adds a tombstone where there is none. At the tenant's bound the oldest goes first.
pub(crate) fn add<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    path: &[u8],
    tombstone: &TombstoneRow,
) -> Result<(), Fault> {
    let old = summary(batch, space)?;
    let mut new = old;
    if new.rows >= TOMBSTONES_MAX && drop_oldest(batch, space)? {
        new.rows -= 1;
    }
    new.rows += 1;
    let due_ms = tombstone.at_ms.saturating_add(TOMBSTONE_TTL_MS);
    new.due_ms = Some(
        new.due_ms
            .map_or(due_ms, |earlier_ms| earlier_ms.min(due_ms)),
    );
    batch.put(space.tombstone(path), row::encode(tombstone));
    batch.put(space.tombstone_order(tombstone.at_ms, path), Bytes::new());
    set_summary(batch, space, old, new);
    Ok(())
}

pub(crate) fn remove<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    path: &[u8],
    tombstone: &TombstoneRow,
) -> Result<(), Fault> {
    let old = summary(batch, space)?;
    let rows = old
        .rows
        .checked_sub(1)
        .ok_or(Fault::Corrupt("a tombstone was not counted"))?;
    let new = TombstonesRow {
        rows,
        due_ms: old.due_ms.filter(|_| rows > 0),
    };
    batch.delete(space.tombstone(path));
    batch.delete(space.tombstone_order(tombstone.at_ms, path));
    set_summary(batch, space, old, new);
    Ok(())
}

/// Removes tombstones that are due, at most `rows_max`; says how many. Then the oldest that is left is the next to be due.
pub(crate) fn sweep<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    clock_ms: u64,
    rows_max: u32,
) -> Result<u32, Fault> {
    let old = summary(batch, space)?;
    let mut new = old;
    let mut removed = 0;
    new.due_ms = loop {
        let Some((at_ms, _)) = oldest(batch, space)? else {
            break None;
        };
        let due_ms = at_ms.saturating_add(TOMBSTONE_TTL_MS);
        if due_ms > clock_ms || removed == rows_max {
            break Some(due_ms);
        }
        drop_oldest(batch, space)?;
        new.rows = new
            .rows
            .checked_sub(1)
            .ok_or(Fault::Corrupt("a tombstone was not counted"))?;
        removed += 1;
    };
    set_summary(batch, space, old, new);
    Ok(removed)
}

fn summary(view: &impl View, space: Space<'_>) -> Result<TombstonesRow, Fault> {
    Ok(row::read(view, SUMMARY, &space.tombstone_summary())?.unwrap_or_default())
}

fn set_summary<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    old: TombstonesRow,
    new: TombstonesRow,
) {
    batch.move_deadline(space, &Due::Tombstones, old.due_ms, new.due_ms);
    match new.rows {
        0 => batch.delete(space.tombstone_summary()),
        _ => batch.put(space.tombstone_summary(), row::encode(&new)),
    }
}

/// When the oldest tombstone was left, and its path.
fn oldest(view: &impl View, space: Space<'_>) -> Result<Option<(u64, Bytes)>, Fault> {
    let span = space.tombstone_orders();
    let Some((key, _)) = view.range(&span.prefix, &span.end, 1)?.pop() else {
        return Ok(None);
    };
    let (at_ms, path) = key[span.prefix.len()..]
        .split_first_chunk::<8>()
        .ok_or(Fault::Corrupt("a row of the tombstone order is malformed"))?;
    Ok(Some((u64::from_be_bytes(*at_ms), key.slice_ref(path))))
}

fn drop_oldest<V: View>(batch: &mut Batch<V>, space: Space<'_>) -> Result<bool, Fault> {
    let Some((at_ms, path)) = oldest(batch, space)? else {
        return Ok(false);
    };
    batch.delete(space.tombstone(&path));
    batch.delete(space.tombstone_order(at_ms, &path));
    Ok(true)
}
