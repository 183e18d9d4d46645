//! What is left of a handle that expired or was taken, so that its owner hears which.
//!
//! A second table holds them in the order of time. The oldest alone stands in the deadline index, one row a tenant.

use bytes::Bytes;
use helve_proto::command::v1::{TombstoneRow, TombstonesRow};

use crate::{
    batch::{Batch, View},
    fault::Fault,
    layout::{Due, Space},
    level,
    limits::{SCAN_INDEX_ROWS, TOMBSTONE_BYTES, TOMBSTONE_TTL_MS},
    repair::Repair,
    row,
    usage::{self, Counter, Delta},
};

const TABLE: &str = "tombstones";
const SUMMARY: &str = "tombstone summaries";

/// What a row of the order holds whose tombstone counts among the tenant's bytes: not one that was left below [`level::MENDED`].
pub(crate) const CHARGED: Bytes = Bytes::from_static(&[1]);

/// A tombstone as it stands in the order.
struct Ordered {
    at_ms: u64,
    path: Bytes,
    mark: Bytes,
}

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
    if new.rows >= batch.bounds().tombstones_max
        && let Some(oldest) = oldest(batch, space, new.due_ms)?
    {
        delete(batch, space, &oldest)?;
        count_down(batch, space, &mut new)?;
        new.due_ms = Some(due(oldest.at_ms));
    }
    new.rows += 1;
    let mark = if level::feature_level(batch, space.group_id)? >= level::MENDED {
        CHARGED
    } else {
        Bytes::new()
    };
    let due_ms = due(tombstone.at_ms);
    new.due_ms = Some(
        new.due_ms
            .map_or(due_ms, |earlier_ms| earlier_ms.min(due_ms)),
    );
    batch.put(space.tombstone(path), row::encode(tombstone));
    let order = space.tombstone_order(tombstone.at_ms, path);
    count(batch, space, delta(path, &mark), &order)?;
    batch.put(order, mark);
    set_summary(batch, space, old, new)
}

/// Removes the tombstone that was `seen` under a path, if it is still there: another part of the same transaction may have evicted
/// it since.
pub(crate) fn remove<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    path: &[u8],
    seen: &TombstoneRow,
) -> Result<(), Fault> {
    let is_mended = level::feature_level(batch, space.group_id)? >= level::MENDED;
    let there = if is_mended {
        read(batch, space, path)?
    } else {
        // As older versions do, which count it either way.
        Some(*seen)
    };
    let Some(there) = there else { return Ok(()) };
    let old = summary(batch, space)?;
    let mut new = old;
    let order = batch.get(&space.tombstone_order(there.at_ms, path))?;
    let there = Ordered {
        at_ms: there.at_ms,
        path: Bytes::copy_from_slice(path),
        mark: order.unwrap_or_default(),
    };
    delete(batch, space, &there)?;
    count_down(batch, space, &mut new)?;
    if new.rows == 0 && is_mended {
        expect_none(batch, space, &mut new)?;
    }
    new.due_ms = new.due_ms.filter(|_| new.rows > 0);
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
        let Some(oldest) = oldest(batch, space, new.due_ms)? else {
            break None;
        };
        let due_ms = due(oldest.at_ms);
        if due_ms > clock_ms || removed == rows_max {
            break Some(due_ms);
        }
        delete(batch, space, &oldest)?;
        count_down(batch, space, &mut new)?;
        new.due_ms = Some(due_ms);
        removed += 1;
    };
    if level::feature_level(batch, space.group_id)? >= level::MENDED
        && (new.rows > 0) != new.due_ms.is_some()
    {
        recount(batch, space, &mut new)?;
    }
    set_summary(batch, space, old, new)?;
    Ok(removed)
}

/// The same, if the summary says that any may be due.
pub(crate) fn sweep_if_due<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    clock_ms: u64,
    rows_max: u32,
) -> Result<u32, Fault> {
    if summary(batch, space)?
        .due_ms
        .is_none_or(|at_ms| at_ms > clock_ms)
    {
        return Ok(0);
    }
    let removed = sweep(batch, space, clock_ms, rows_max)?;
    batch.note_removed(removed);
    Ok(removed)
}

/// Counts a tombstone that was removed just now. A summary that counted none of those that are there is worked out again: older
/// versions stop there, so no replica has gone on from there otherwise.
fn count_down<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    summary: &mut TombstonesRow,
) -> Result<(), Fault> {
    match summary.rows.checked_sub(1) {
        Some(rows) => {
            summary.rows = rows;
            Ok(())
        }
        None => recount(batch, space, summary),
    }
}

/// The last tombstone that was counted is gone: if there are others, the count was too low, and they would never be removed.
fn expect_none<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    summary: &mut TombstonesRow,
) -> Result<(), Fault> {
    match oldest(batch, space, summary.due_ms)? {
        Some(_) => recount(batch, space, summary),
        None => Ok(()),
    }
}

/// Works the summary out from the tombstones in their order, of which there are at most as many as a tenant may have.
#[cold]
fn recount<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    summary: &mut TombstonesRow,
) -> Result<(), Fault> {
    let was = summary.rows;
    *summary = counted(batch, space)?;
    let rows = summary.rows;
    batch.note_repair(Repair {
        what: SUMMARY,
        tenant: space.tenant.to_owned(),
        was,
        is: rows,
    });
    Ok(())
}

/// Looks whether the summary agrees with the tombstones, and works it out again if it does not. Says how many there are.
pub(crate) fn verify<V: View>(batch: &mut Batch<V>, space: Space<'_>) -> Result<u64, Fault> {
    let old = summary(batch, space)?;
    let there = counted(batch, space)?;
    // The summary may say an earlier time, but none only if there is none.
    let is_due_right = match (old.due_ms, there.due_ms) {
        (Some(said_ms), Some(due_ms)) => said_ms <= due_ms,
        (said_ms, due_ms) => said_ms == due_ms,
    };
    if old.rows == there.rows && is_due_right {
        return Ok(there.rows);
    }
    let mut new = old;
    recount(batch, space, &mut new)?;
    set_summary(batch, space, old, new)?;
    Ok(there.rows)
}

/// The summary of the tombstones that are there.
fn counted<V: View>(batch: &Batch<V>, space: Space<'_>) -> Result<TombstonesRow, Fault> {
    let mut rows = 0;
    usage::each(batch, &space.tombstone_orders(), SCAN_INDEX_ROWS, |_, _| {
        rows += 1;
        Ok(())
    })?;
    Ok(TombstonesRow {
        rows,
        due_ms: oldest(batch, space, None)?.map(|oldest| due(oldest.at_ms)),
    })
}

/// Removes the oldest tombstone of a tenant, if it has more than must be left. True if it did.
pub(crate) fn forget_oldest<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
) -> Result<bool, Fault> {
    let old = summary(batch, space)?;
    if old.rows <= batch.bounds().tombstones_min {
        return Ok(false);
    }
    let mut new = old;
    match oldest(batch, space, new.due_ms)? {
        Some(oldest) => {
            delete(batch, space, &oldest)?;
            count_down(batch, space, &mut new)?;
            new.due_ms = (new.rows > 0).then(|| due(oldest.at_ms));
            batch.note_removed(1);
        }
        None => recount(batch, space, &mut new)?,
    }
    set_summary(batch, space, old, new)?;
    Ok(true)
}

fn due(at_ms: u64) -> u64 {
    at_ms.saturating_add(TOMBSTONE_TTL_MS)
}

/// When the oldest is due, or earlier.
pub(crate) fn due_ms(view: &impl View, space: Space<'_>) -> Result<Option<u64>, Fault> {
    Ok(summary(view, space)?.due_ms)
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
) -> Result<Option<Ordered>, Fault> {
    let span = space.tombstone_orders();
    let from_ms = due_ms.map_or(0, |due_ms| due_ms.saturating_sub(TOMBSTONE_TTL_MS));
    let from = space.tombstone_order(from_ms, &[]);
    let Some((key, mark)) = view.range(&from, &span.end, 1)?.pop() else {
        return Ok(None);
    };
    let (at_ms, path) = key[span.prefix.len()..]
        .split_first_chunk::<8>()
        .ok_or(Fault::Corrupt("a row of the tombstone order is malformed"))?;
    Ok(Some(Ordered {
        at_ms: u64::from_be_bytes(*at_ms),
        path: key.slice_ref(path),
        mark,
    }))
}

fn delete<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    tombstone: &Ordered,
) -> Result<(), Fault> {
    let Ordered { at_ms, path, mark } = tombstone;
    let order = space.tombstone_order(*at_ms, path);
    count(
        batch,
        space,
        Delta::default().minus(delta(path, mark)),
        &order,
    )?;
    batch.delete(space.tombstone(path));
    batch.delete(order);
    Ok(())
}

/// What the tombstone of a path adds to its tenant's usage, if its row of the order holds this.
pub(crate) fn delta(path: &[u8], mark: &Bytes) -> Delta {
    let bytes = if *mark == CHARGED {
        i64::try_from(path.len()).expect("a path fits memory") + TOMBSTONE_BYTES
    } else {
        0
    };
    Delta { rows: 0, bytes }
}

fn count<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    delta: Delta,
    order: &Bytes,
) -> Result<(), Fault> {
    if delta == Delta::default() {
        return Ok(());
    }
    batch.count(space, Counter::Tenant, delta, || order.clone())
}

#[cfg(test)]
mod tests {
    use helve_proto::v1::HandleStatus;

    use super::{
        Batch, Bytes, Fault, Space, TOMBSTONE_TTL_MS, TombstoneRow, View, add, read, summary,
    };
    use crate::limits::Bounds;

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
        let bounds = Bounds {
            tombstones_max: 2,
            ..Bounds::REPLICATED
        };
        let mut batch = Batch::bounded(NoRows, bounds);
        let leave = |batch: &mut Batch<NoRows>, at_ms: u64, path: &[u8]| {
            let row = TombstoneRow {
                status: HandleStatus::Taken.into(),
                at_ms,
            };
            add(batch, space, path, &row).unwrap();
        };
        leave(&mut batch, 20, b"second");
        leave(&mut batch, 10, b"first");
        leave(&mut batch, 30, b"third");

        assert!(read(&batch, space, b"first").unwrap().is_none());
        assert!(read(&batch, space, b"second").unwrap().is_some());
        assert!(read(&batch, space, b"third").unwrap().is_some());
        let left = summary(&batch, space).unwrap();
        assert_eq!(left.rows, 2);
        assert!(
            left.due_ms
                .is_some_and(|due_ms| due_ms <= 20 + TOMBSTONE_TTL_MS)
        );
    }
}
