//! Request ids: calls whose identity bears the time of their first send. Their outcomes are kept for ten minutes.
//!
//! Ids sort by time, so the first rows of the table are the oldest. A tenant's floor only rises, and an id below it is refused.

use bytes::Bytes;
use helve_proto::command::v1::{OutcomeRow, RecountRow, Refusal, RequestsRow};

use super::{Admission, Slot, delete_outcome, kept, put_outcome};
use crate::{
    batch::{Batch, View, after},
    context::{Call, Stop},
    expiry,
    fault::Fault,
    layout::{Due, Space},
    level,
    limits::{IDENTITY_BYTES, REQUEST_AHEAD_MS_MAX, REQUEST_TTL_MS},
    repair::Repair,
    row,
};

const SUMMARY: &str = "request summaries";
/// The name of a recount of outcomes in the deadline index: no counter of rows in use has it.
pub(crate) const RECOUNT: &[u8] = &[5];

/// The time that a UUIDv7 bears, in milliseconds since the Unix epoch; `None` if it is none.
pub(crate) fn sent_at(request_id: &[u8]) -> Option<u64> {
    let id: &[u8; IDENTITY_BYTES] = request_id.try_into().ok()?;
    let is_version_7 = id[6] >> 4 == 7 && id[8] >> 6 == 0b10;
    let time = [0, 0, id[0], id[1], id[2], id[3], id[4], id[5]];
    is_version_7.then(|| u64::from_be_bytes(time))
}

pub(super) fn admit<V: View>(
    call: &mut Call<'_, V>,
    request_id: &Bytes,
    fingerprint: &Bytes,
) -> Result<Admission, Stop> {
    let sent_ms = sent_at(request_id).ok_or_else(|| Stop::refused(Refusal::Malformed))?;
    let floor_ms = floor(&summary(call.batch, call.space)?, call.clock_ms);
    if sent_ms < floor_ms {
        return Err(Stop::refused(Refusal::RequestTooOld));
    }
    if sent_ms > call.clock_ms.saturating_add(REQUEST_AHEAD_MS_MAX) {
        return Err(Stop::refused(Refusal::TooEarly));
    }
    let key = call.space.request_outcome(request_id);
    Ok(match kept(call.batch, &key, fingerprint)? {
        Some(outcome) => Admission::Answer(outcome),
        None => Admission::Execute(Slot::Request {
            request_id: request_id.clone(),
        }),
    })
}

/// Keeps an outcome. At the tenant's bound the oldest goes, and the floor rises above it.
pub(super) fn keep<V: View>(
    call: &mut Call<'_, V>,
    request_id: &Bytes,
    row: &OutcomeRow,
) -> Result<(), Fault> {
    let (space, batch) = (call.space, &mut *call.batch);
    let sent_ms = sent_at(request_id).ok_or(Fault::Corrupt("a request id was not checked"))?;
    let old = summary(batch, space)?;
    let mut new = old.clone();
    new.due_ms = Some(
        new.due_ms
            .map_or(due(sent_ms), |due_ms| due_ms.min(due(sent_ms))),
    );
    let key = space.request_outcome(request_id);
    note(&mut new, &key, 1);
    put_outcome(batch, space, key, row)?;
    new.rows += 1;
    if new.rows > batch.bounds().requests_max {
        // One was put just now.
        if let Some((oldest_ms, key, value)) = oldest(batch, space, new.due_ms)? {
            note(&mut new, &key, -1);
            delete_outcome(batch, space, key, value.len())?;
            new.rows -= 1;
            new.floor_ms = new.floor_ms.max(oldest_ms + 1);
            new.due_ms = Some(due(oldest_ms));
        }
    }
    set_summary(batch, space, &old, &new)
}

/// Removes outcomes that are due, at most `rows_max`; says how many. Then the oldest that is left is the next to be due.
pub(crate) fn sweep<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    clock_ms: u64,
    rows_max: u32,
) -> Result<u32, Fault> {
    let old = summary(batch, space)?;
    let mut new = old.clone();
    new.floor_ms = floor(&old, clock_ms);
    let mut removed = 0;
    new.due_ms = loop {
        let Some((sent_ms, key, value)) = oldest(batch, space, new.due_ms)? else {
            break None;
        };
        if sent_ms >= new.floor_ms
            || removed == rows_max
            || batch.has_read_enough(space.group_id)?
        {
            break Some(due(sent_ms));
        }
        batch.note_read(value.len());
        note(&mut new, &key, -1);
        delete_outcome(batch, space, key, value.len())?;
        match new.rows.checked_sub(1) {
            Some(rows) => new.rows = rows,
            // Older versions stop here, so no replica has gone on from here otherwise.
            None => begin_recount(batch, space, &mut new)?,
        }
        new.due_ms = Some(due(sent_ms));
        removed += 1;
    };
    if level::feature_level(batch, space.group_id)? >= level::MENDED
        && (new.rows > 0) != new.due_ms.is_some()
    {
        begin_recount(batch, space, &mut new)?;
    }
    set_summary(batch, space, &old, &new)?;
    Ok(removed)
}

/// Counts an outcome that comes or goes, if a recount has passed its key.
fn note(summary: &mut RequestsRow, key: &[u8], change: i64) {
    if let Some(recount) = &mut summary.recount
        && *key < *recount.next
    {
        recount.rows = recount.rows.wrapping_add_signed(change);
    }
}

/// Has the count worked out from the outcomes, which may hold megabytes: bit by bit.
#[cold]
fn begin_recount<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    summary: &mut RequestsRow,
) -> Result<(), Fault> {
    if summary.recount.is_none() {
        summary.recount = Some(RecountRow::default());
        let now = Some(expiry::clock(batch, space.group_id)?);
        batch.move_deadline(space, &recount_due(), None, now)?;
    }
    Ok(())
}

/// What the deadline index names a recount.
fn recount_due() -> Due {
    Due::Recount(Bytes::from_static(RECOUNT))
}

/// Takes the recount further, by a bounded number of rows and bytes, and says by how many rows. At the end the summary says what was
/// found.
pub(crate) fn step<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    (at_ms, clock_ms): (u64, u64),
) -> Result<u32, Fault> {
    let rows_max = batch.bounds().tick_rows_max;
    let old = summary(batch, space)?;
    let mut new = old.clone();
    let Some(mut recount) = new.recount.take() else {
        batch.delete_deadline(space, at_ms, &recount_due());
        return Ok(1);
    };
    let (span, mut read) = (space.request_outcomes(), 0);
    let is_done = loop {
        if read >= rows_max || batch.has_read_enough(space.group_id)? {
            break false;
        }
        let from = (&recount.next[..]).max(&span.prefix);
        let Some((key, value)) = batch.range(from, &span.end, 1)?.pop() else {
            break true;
        };
        batch.note_read(value.len());
        recount.rows = recount.rows.wrapping_add(1);
        recount.next = after(&key).into();
        read += 1;
    };
    if is_done {
        batch.delete_deadline(space, at_ms, &recount_due());
        new.rows = recount.rows;
        let oldest = oldest(batch, space, None)?;
        new.due_ms = oldest.map(|(sent_ms, ..)| due(sent_ms));
        batch.note_repair(Repair {
            what: SUMMARY,
            tenant: space.tenant.to_owned(),
            was: old.rows,
            is: new.rows,
        });
    } else {
        batch.move_deadline(space, &recount_due(), Some(at_ms), Some(clock_ms))?;
        new.recount = Some(recount);
    }
    set_summary(batch, space, &old, &new)?;
    Ok(read.max(1))
}

/// Ids sent before it are refused.
fn floor(summary: &RequestsRow, clock_ms: u64) -> u64 {
    summary
        .floor_ms
        .max(clock_ms.saturating_sub(REQUEST_TTL_MS))
}

/// The first time at which an id is below the floor.
pub(crate) fn due(sent_ms: u64) -> u64 {
    sent_ms + REQUEST_TTL_MS + 1
}

/// The oldest outcome: when its call was sent, its key and its value. That none is due before `due_ms` spares the look at those
/// long removed.
fn oldest(
    view: &impl View,
    space: Space<'_>,
    due_ms: Option<u64>,
) -> Result<Option<(u64, Bytes, Bytes)>, Fault> {
    let span = space.request_outcomes();
    let from_ms = due_ms.map_or(0, |due_ms| due_ms.saturating_sub(due(0)));
    // An id begins with its time, six bytes of it.
    let from = space.request_outcome(&from_ms.to_be_bytes()[2..]);
    let Some((key, value)) = view.range(&from, &span.end, 1)?.pop() else {
        return Ok(None);
    };
    let sent_ms = sent_at(&key[span.prefix.len()..])
        .ok_or(Fault::Corrupt("an outcome's request id is malformed"))?;
    Ok(Some((sent_ms, key, value)))
}

/// When the oldest outcome is due.
pub(crate) fn due_ms(view: &impl View, space: Space<'_>) -> Result<Option<u64>, Fault> {
    Ok(summary(view, space)?.due_ms)
}

fn summary(view: &impl View, space: Space<'_>) -> Result<RequestsRow, Fault> {
    Ok(row::read(view, SUMMARY, &space.request_summary())?.unwrap_or_default())
}

fn set_summary<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    old: &RequestsRow,
    new: &RequestsRow,
) -> Result<(), Fault> {
    if old == new {
        return Ok(());
    }
    batch.move_deadline(space, &Due::Requests, old.due_ms, new.due_ms)?;
    batch.put(space.request_summary(), row::encode(new));
    Ok(())
}
