//! A wrong count of tombstones is worked out again bit by bit: a tenant may have a million, and no
//! entry of the log may take that long.
//!
//! The recount goes through the tombstones in their order. Meanwhile one that comes or goes where
//! it has passed changes its sum, and one that is still to come is seen there. So it ends with the
//! true count, whatever happens in between.

use bytes::Bytes;
use helve_proto::command::v1::{RecountRow, TombstonesRow};

use super::{SUMMARY, due, oldest, set_summary, summary};
use crate::{
    batch::Batch,
    clock::clock,
    fault::Fault,
    layout::{Due, Space},
    limits::SCAN_INDEX_ROWS,
    repair::Repair,
    view::{View, after},
};

/// What the deadline index names a recount that goes on. No other recount has it.
const NAME: Bytes = Bytes::from_static(&[8]);

/// Whether a row of the deadline index with this name is about a recount of tombstones that goes
/// on.
pub(crate) fn is_recounted_as(name: &Bytes) -> bool {
    *name == NAME
}

/// Counts a tombstone that comes or goes, by its key in their order.
pub(super) fn note(summary: &mut TombstonesRow, order: &[u8], change: i64) {
    summary.rows = summary.rows.wrapping_add_signed(change);
    if let Some(recount) = &mut summary.recount
        && *order < *recount.next
    {
        recount.rows = recount.rows.wrapping_add_signed(change);
    }
}

/// More tombstones went than were counted.
pub(super) fn is_below_zero(summary: &TombstonesRow) -> bool {
    summary.rows.cast_signed() < 0
}

/// What the summary says, never less than nothing, nor than what a recount has found so far.
pub(super) fn said(summary: &TombstonesRow) -> u64 {
    let found = summary.recount.as_ref().map_or(0, |recount| recount.rows);
    let counted = if is_below_zero(summary) {
        0
    } else {
        summary.rows
    };
    counted.max(found)
}

/// Has the tombstones counted, unless that goes on already. The caller writes the summary.
#[cold]
pub(super) fn begin<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    summary: &mut TombstonesRow,
) -> Result<(), Fault> {
    if summary.recount.is_none() {
        summary.recount = Some(RecountRow::default());
        let now = Some(clock(batch, space.group_id)?);
        batch.move_deadline(space, &Due::Recount(NAME), None, now)?;
    }
    Ok(())
}

/// A look at their order found no tombstone from the summary's time on: a summary that counts any is
/// wrong, or its time is too late. A recount that goes on finds that out.
pub(super) fn none_is_left<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    summary: &mut TombstonesRow,
) -> Result<(), Fault> {
    if summary.recount.is_some() || summary.rows == 0 {
        return Ok(());
    }
    if oldest(batch, space, None)?.is_some() {
        return begin(batch, space, summary);
    }
    note_repair(batch, space, summary.rows, 0);
    summary.rows = 0;
    Ok(())
}

/// Whether a tenant has tombstones, or a summary says so.
pub(crate) fn is_any(view: &impl View, space: Space<'_>) -> Result<bool, Fault> {
    Ok(summary(view, space)? != TombstonesRow::default() || oldest(view, space, None)?.is_some())
}

/// Has a tenant's tombstones counted, whether or not the summary looks right: a row of the deadline
/// index asks for it.
pub(crate) fn schedule<V: View>(batch: &mut Batch<V>, space: Space<'_>) -> Result<(), Fault> {
    if !is_any(batch, space)? {
        return Ok(());
    }
    let old = summary(batch, space)?;
    let mut new = old.clone();
    begin(batch, space, &mut new)?;
    set_summary(batch, space, &old, &new)
}

/// Takes a recount further, by a bounded number of rows and bytes, and says by how many rows. At
/// the end the summary says what was found, and the recount's row of the deadline index goes.
pub(crate) fn step<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    (at_ms, clock_ms): (u64, u64),
) -> Result<u32, Fault> {
    let old = summary(batch, space)?;
    let mut new = old.clone();
    let Some(mut recount) = new.recount.take() else {
        batch.delete_deadline(space, at_ms, &Due::Recount(NAME));
        return Ok(1);
    };
    let (read, is_done) = count(batch, space, &mut recount)?;
    if is_done {
        batch.delete_deadline(space, at_ms, &Due::Recount(NAME));
        new.rows = recount.rows;
        let due_ms = oldest(batch, space, None)?.map(|oldest| due(oldest.at_ms));
        // One that is right stays: its row of the deadline index may be next.
        if !is_due_right(old.due_ms, due_ms) {
            new.due_ms = due_ms;
        }
        if (new.rows, new.due_ms) != (old.rows, old.due_ms) {
            note_repair(batch, space, old.rows, new.rows);
        }
    } else {
        // What became due meanwhile goes first.
        batch.move_deadline(space, &Due::Recount(NAME), Some(at_ms), Some(clock_ms))?;
        new.recount = Some(recount);
    }
    set_summary(batch, space, &old, &new)?;
    Ok(read.max(1))
}

/// Counts tombstones, and says how many, and whether none is left.
fn count<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    recount: &mut RecountRow,
) -> Result<(u32, bool), Fault> {
    let rows_max = batch.bounds().tick_rows_max;
    let span = space.tombstone_orders();
    let mut read = 0;
    loop {
        if read >= rows_max || batch.has_read_enough(space.group_id)? {
            return Ok((read, false));
        }
        let from = (&recount.next[..]).max(&span.prefix);
        let page_rows = ((rows_max - read) as usize).min(SCAN_INDEX_ROWS);
        let page = batch.range(from, &span.end, page_rows)?;
        if page.is_empty() {
            return Ok((read, true));
        }
        for (key, mark) in page {
            if batch.has_read_enough(space.group_id)? {
                return Ok((read, false));
            }
            batch.note_read(key.len() + mark.len());
            recount.rows = recount.rows.wrapping_add(1);
            recount.next = after(&key).into();
            read += 1;
        }
    }
}

/// The summary may say an earlier time, also where there is no tombstone: a sweep finds that out.
/// It may say none only if there is none.
fn is_due_right(said_ms: Option<u64>, due_ms: Option<u64>) -> bool {
    due_ms.is_none_or(|due_ms| said_ms.is_some_and(|said_ms| said_ms <= due_ms))
}

fn note_repair<V: View>(batch: &mut Batch<V>, space: Space<'_>, was: u64, is: u64) {
    batch.note_repair(Repair {
        what: SUMMARY,
        tenant: space.tenant.to_owned(),
        was,
        is,
    });
}
