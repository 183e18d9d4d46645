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
    if new.rows >= TOMBSTONES_MAX
        && let Some((at_ms, path)) = oldest(batch, space, new.due_ms)?
    {
        delete(batch, space, at_ms, &path);
        new.rows -= 1;
        new.due_ms = Some(at_ms.saturating_add(TOMBSTONE_TTL_MS));
    }
    new.rows += 1;
    let due_ms = tombstone.at_ms.saturating_add(TOMBSTONE_TTL_MS);
    new.due_ms = Some(
        new.due_ms
            .map_or(due_ms, |earlier_ms| earlier_ms.min(due_ms)),
    );
    batch.put(space.tombstone(path), row::encode(tombstone));
    batch.put(space.tombstone_order(tombstone.at_ms, path), Bytes::new());
    set_summary(batch, space, old, new)
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
    delete(batch, space, tombstone.at_ms, path);
    set_summary(batch, space, old, new)
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
        let Some((at_ms, path)) = oldest(batch, space, new.due_ms)? else {
            break None;
        };
        let due_ms = at_ms.saturating_add(TOMBSTONE_TTL_MS);
        if due_ms > clock_ms || removed == rows_max {
            break Some(due_ms);
        }
        delete(batch, space, at_ms, &path);
        new.due_ms = Some(due_ms);
        new.rows = new
            .rows
            .checked_sub(1)
            .ok_or(Fault::Corrupt("a tombstone was not counted"))?;
        removed += 1;
    };
    set_summary(batch, space, old, new)?;
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
) -> Result<(), Fault> {
    batch.move_deadline(space, &Due::Tombstones, old.due_ms, new.due_ms)?;
    match new.rows {
        0 => batch.delete(space.tombstone_summary()),
        _ => batch.put(space.tombstone_summary(), row::encode(&new)),
    }
    Ok(())
}

/// When the oldest tombstone was left, and its path. That none is due before `due_ms` spares the look at those long removed.
fn oldest(
    view: &impl View,
    space: Space<'_>,
    due_ms: Option<u64>,
) -> Result<Option<(u64, Bytes)>, Fault> {
    let span = space.tombstone_orders();
    let from_ms = due_ms.map_or(0, |due_ms| due_ms.saturating_sub(TOMBSTONE_TTL_MS));
    let from = space.tombstone_order(from_ms, &[]);
    let Some((key, _)) = view.range(&from, &span.end, 1)?.pop() else {
        return Ok(None);
    };
    let (at_ms, path) = key[span.prefix.len()..]
        .split_first_chunk::<8>()
        .ok_or(Fault::Corrupt("a row of the tombstone order is malformed"))?;
    Ok(Some((u64::from_be_bytes(*at_ms), key.slice_ref(path))))
}

fn delete<V: View>(batch: &mut Batch<V>, space: Space<'_>, at_ms: u64, path: &[u8]) {
    batch.delete(space.tombstone(path));
    batch.delete(space.tombstone_order(at_ms, path));
}

#[cfg(test)]
mod tests {
    use helve_proto::v1::HandleStatus;

    use super::{
        Batch, Bytes, Fault, Space, TOMBSTONE_TTL_MS, TOMBSTONES_MAX, TombstoneRow, TombstonesRow,
        View, add, read, set_summary, summary,
    };

    struct NoRows;

    impl View for NoRows {
        fn get(&self, _: &[u8]) -> Result<Option<Bytes>, Fault> {
            Ok(None)
        }

        fn range(&self, _: &[u8], _: &[u8], _: usize) -> Result<Vec<(Bytes, Bytes)>, Fault> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn at_the_bound_the_oldest_tombstone_goes_first() {
        let space = Space {
            group_id: 1,
            tenant: "default",
        };
        let mut batch = Batch::new(NoRows);
        let leave = |batch: &mut Batch<NoRows>, at_ms: u64, path: &[u8]| {
            let row = TombstoneRow {
                status: HandleStatus::Taken.into(),
                at_ms,
            };
            add(batch, space, path, &row).unwrap();
        };
        leave(&mut batch, 20, b"second");
        leave(&mut batch, 10, b"first");
        let old = summary(&batch, space).unwrap();
        let full = TombstonesRow {
            rows: TOMBSTONES_MAX,
            ..old
        };
        set_summary(&mut batch, space, old, full).unwrap();
        leave(&mut batch, 30, b"third");

        assert!(read(&batch, space, b"first").unwrap().is_none());
        assert!(read(&batch, space, b"second").unwrap().is_some());
        assert!(read(&batch, space, b"third").unwrap().is_some());
        let left = summary(&batch, space).unwrap();
        assert_eq!(left.rows, TOMBSTONES_MAX);
        assert!(
            left.due_ms
                .is_some_and(|due_ms| due_ms <= 20 + TOMBSTONE_TTL_MS)
        );
    }
}
