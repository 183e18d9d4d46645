//! What is left of a handle that expired or was taken, so that its owner hears which; and of a claim's leases, for the next one.
//!
//! A second table holds them in the order of time. Only the oldest is in the deadline index, one row a tenant.

mod recount;

use bytes::Bytes;
use helve_proto::command::v1::{TombstoneRow, TombstonesRow};

pub(crate) use self::recount::{is_any, is_recounted_as, schedule, step};
use crate::{
    batch::Batch,
    fault::Fault,
    layout::{Due, Space},
    level,
    limits::{TOMBSTONE_BYTES, TOMBSTONE_TTL_MS},
    repair::Repair,
    row,
    usage::{Counter, Delta},
    view::View,
};

const TABLE: &str = "tombstones";
const SUMMARY: &str = "tombstone summaries";

/// What a row of the order holds whose tombstone counts among the tenant's bytes: not one that was left below [`level::MENDED`].
pub(crate) const CHARGED: Bytes = Bytes::from_static(&[1]);

/// A tombstone as the order stores it.
struct Ordered {
    /// The key of its row of the order.
    order: Bytes,
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
    let mut new = old.clone();
    let is_mended = level::feature_level(batch, space.group_id)? >= level::MENDED;
    if recount::said(&new) >= batch.bounds().tombstones_max {
        match oldest(batch, space, new.due_ms)? {
            Some(oldest) => {
                delete(batch, space, &oldest, &mut new)?;
                new.due_ms = Some(due(oldest.at_ms));
            }
            None if is_mended => recount::none_is_left(batch, space, &mut new)?,
            None => {}
        }
    }
    let mark = if is_mended { CHARGED } else { Bytes::new() };
    let due_ms = due(tombstone.at_ms);
    new.due_ms = Some(
        new.due_ms
            .map_or(due_ms, |earlier_ms| earlier_ms.min(due_ms)),
    );
    batch.put(space.tombstone(path), row::encode(tombstone));
    let order = space.tombstone_order(tombstone.at_ms, path);
    count(batch, space, delta(path, &mark), &order)?;
    recount::note(&mut new, &order, 1);
    batch.put(order, mark);
    set_summary(batch, space, &old, &new)
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
    let mut new = old.clone();
    let order = space.tombstone_order(there.at_ms, path);
    let mark = batch.get(&order)?;
    let is_ordered = mark.is_some();
    let there = Ordered {
        order,
        at_ms: there.at_ms,
        path: Bytes::copy_from_slice(path),
        mark: mark.unwrap_or_default(),
    };
    delete(batch, space, &there, &mut new)?;
    if is_mended && !is_ordered {
        mend(batch, space, &there, Some(there.at_ms), &mut new)?;
    }
    // The last one that was counted is gone: if there are others, they would never be removed.
    if new.rows == 0 && is_mended && oldest(batch, space, new.due_ms)?.is_some() {
        recount::begin(batch, space, &mut new)?;
    }
    if new.recount.is_none() {
        new.due_ms = new.due_ms.filter(|_| new.rows > 0);
    }
    set_summary(batch, space, &old, &new)
}

/// Removes tombstones that are due, at most `rows_max`; says how many. Then the oldest that is left is the next to be due.
pub(crate) fn sweep<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    clock_ms: u64,
    rows_max: u32,
) -> Result<u32, Fault> {
    let old = summary(batch, space)?;
    let mut new = old.clone();
    let mut removed = 0;
    new.due_ms = loop {
        let Some(oldest) = oldest(batch, space, new.due_ms)? else {
            break None;
        };
        let due_ms = due(oldest.at_ms);
        if due_ms > clock_ms || removed == rows_max {
            break Some(due_ms);
        }
        delete(batch, space, &oldest, &mut new)?;
        new.due_ms = Some(due_ms);
        removed += 1;
    };
    if level::feature_level(batch, space.group_id)? >= level::MENDED {
        match new.due_ms {
            Some(_) if new.rows == 0 => recount::begin(batch, space, &mut new)?,
            Some(_) => {}
            None => recount::none_is_left(batch, space, &mut new)?,
        }
    }
    set_summary(batch, space, &old, &new)?;
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

/// Removes the oldest tombstone of a tenant, if it has more than must be left. True if it did.
pub(crate) fn forget_oldest<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
) -> Result<bool, Fault> {
    let old = summary(batch, space)?;
    if recount::said(&old) <= batch.bounds().tombstones_min {
        return Ok(false);
    }
    let mut new = old.clone();
    match oldest(batch, space, new.due_ms)? {
        Some(oldest) => {
            delete(batch, space, &oldest, &mut new)?;
            let may_be_more = new.rows > 0 || new.recount.is_some();
            new.due_ms = may_be_more.then(|| due(oldest.at_ms));
            batch.note_removed(1);
        }
        None => {
            new.due_ms = None;
            recount::none_is_left(batch, space, &mut new)?;
        }
    }
    set_summary(batch, space, &old, &new)?;
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
    old: &TombstonesRow,
    new: &TombstonesRow,
) -> Result<(), Fault> {
    batch.move_deadline(space, &Due::Tombstones, old.due_ms, new.due_ms)?;
    // With a time but no tombstone it waits for the sweep that finds so. Older levels keep no such row.
    let is_kept = new.rows > 0
        || new.recount.is_some()
        || new.due_ms.is_some() && level::feature_level(batch, space.group_id)? >= level::MENDED;
    if !is_kept {
        batch.delete(space.tombstone_summary());
    } else {
        batch.put(space.tombstone_summary(), row::encode(new));
    }
    Ok(())
}

/// When the oldest tombstone was left, and its path. That none is due before `due_ms` spares the look at those long removed. A row of
/// the order that names none is the oldest.
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
    let own = key[span.prefix.len()..].split_first_chunk::<8>();
    let (at_ms, path) = own.map_or((0, Bytes::new()), |(at_ms, path)| {
        (u64::from_be_bytes(*at_ms), key.slice_ref(path))
    });
    Ok(Some(Ordered {
        order: key,
        at_ms,
        path,
        mark,
    }))
}

/// Removes a tombstone, and counts it in the summary. One that counted none of those that are there is worked out again: older
/// versions stop there, so no replica has gone on from there otherwise.
fn delete<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    tombstone: &Ordered,
    summary: &mut TombstonesRow,
) -> Result<(), Fault> {
    let Ordered {
        order,
        at_ms,
        path,
        mark,
    } = tombstone;
    count(
        batch,
        space,
        Delta::default().minus(delta(path, mark)),
        order,
    )?;
    recount::note(summary, order, -1);
    batch.delete(order.clone());
    // As older versions do, which look for no other time.
    let at = if level::feature_level(batch, space.group_id)? >= level::MENDED {
        read(batch, space, path)?.map(|row| row.at_ms)
    } else {
        Some(*at_ms)
    };
    if at == Some(*at_ms) {
        batch.delete(space.tombstone(path));
    } else {
        mend(batch, space, tombstone, at, summary)?;
    }
    if recount::is_below_zero(summary) {
        recount::begin(batch, space, summary)?;
    }
    Ok(())
}

/// Puts right what a row of the order says that is gone, and that was not the row of its tombstone,
/// which is of this time (`None`: there is none). The order is counted again.
#[cold]
fn mend<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    Ordered {
        at_ms, path, mark, ..
    }: &Ordered,
    at: Option<u64>,
    summary: &mut TombstonesRow,
) -> Result<(), Fault> {
    batch.recount(space, Counter::Tenant)?;
    recount::begin(batch, space, summary)?;
    if let Some(own_ms) = at
        && own_ms != *at_ms
        && let own = space.tombstone_order(own_ms, path)
        && batch.get(&own)?.is_none()
    {
        if own_ms < *at_ms {
            // It is older than the row said, whose turn it was.
            batch.delete(space.tombstone(path));
        } else {
            count(batch, space, delta(path, mark), &own)?;
            recount::note(summary, &own, 1);
            batch.put(own, mark.clone());
        }
    }
    batch.note_repair(Repair {
        what: "tombstone order",
        tenant: space.tenant.to_owned(),
        was: *at_ms,
        is: at.unwrap_or_default(),
    });
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
mod tests;
