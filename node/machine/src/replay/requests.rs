//! Request ids: calls whose identity bears the time of their first send. Their outcomes are kept for ten minutes.
//!
//! Ids sort by time, so the first rows of the table are the oldest. A floor only rises, and an id below it is refused. From level
//! [`level::MENDED`] on each principal has a table, a bound and a floor of its own, which never passes the clock: no principal can
//! shorten the time for which another one's retries are answered.

use bytes::Bytes;
use helve_proto::command::v1::{OutcomeRow, Refusal, RequestsRow};

use super::{
    ids::{self, Ids, due, sent_at},
    outcomes::{Admission, Slot, delete_outcome, kept, put_outcome},
};
use crate::{
    access::excess::excess,
    batch::Batch,
    context::{Call, Stop},
    fault::Fault,
    layout::principal_path,
    level,
    limits::{REQUEST_AHEAD_MS_MAX, REQUEST_TTL_MS},
    view::View,
};

pub(super) fn admit<V: View>(
    call: &mut Call<'_, V>,
    request_id: &Bytes,
    fingerprint: &Bytes,
) -> Result<Admission, Stop> {
    let sent_ms = sent_at(request_id).ok_or_else(|| Stop::refused(Refusal::Malformed))?;
    let of_tenant = Ids::of_tenant(call.space);
    let before = ids::summary(call.batch, &of_tenant)?;
    let mut floor_ms = floor(&before, call.clock_ms);
    let own = if call.is_mended()? {
        Some(Ids::of_principal(
            call.space,
            principal_path(call.principal)?,
        ))
    } else {
        None
    };
    if let Some(own) = &own {
        floor_ms = floor_ms.max(ids::summary(call.batch, own)?.floor_ms);
    }
    if sent_ms < floor_ms {
        return Err(Stop::refused(Refusal::RequestTooOld));
    }
    if sent_ms > call.clock_ms.saturating_add(REQUEST_AHEAD_MS_MAX) {
        return Err(Stop::refused(Refusal::TooEarly));
    }
    if let Some(own) = &own {
        if let Some(outcome) = kept(call.batch, &own.outcome(request_id), fingerprint)? {
            return Ok(Admission::Answer(Box::new(outcome)));
        }
        expect_room(call, own)?;
        make_place(call, own, sent_ms)?;
    }
    // Also one that was kept before the level was raised.
    let kept = if own.is_none() || before.rows > 0 {
        kept(call.batch, &of_tenant.outcome(request_id), fingerprint)?
    } else {
        None
    };
    Ok(match kept {
        Some(outcome) => Admission::Answer(Box::new(outcome)),
        None => Admission::Execute(Slot::Request {
            request_id: request_id.clone(),
        }),
    })
}

/// Where the tenant is over its quota of bytes, older outcomes of the principal go before a new one comes. Ids of one time could not
/// be forgotten after it, since the floor would refuse the call itself.
fn expect_room<V: View>(call: &mut Call<'_, V>, own: &Ids<'_>) -> Result<(), Stop> {
    let kept = ids::summary(call.batch, own)?.rows;
    if kept <= call.batch.bounds().principal_requests_min {
        return Ok(());
    }
    match excess(call)? {
        Some(lack) => Err(Stop::Short(lack)),
        None => Ok(()),
    }
}

/// At the principal's bound its oldest outcome goes before a call is executed. Where that one is ahead of the clock, the call is
/// refused: without its outcome a retry would be executed again, and a floor above the clock would refuse calls sent now.
fn make_place<V: View>(call: &mut Call<'_, V>, own: &Ids<'_>, sent_ms: u64) -> Result<(), Stop> {
    let old = ids::summary(call.batch, own)?;
    if old.rows < call.batch.bounds().principal_requests_max {
        return Ok(());
    }
    let Some((oldest_ms, key, value)) = ids::oldest(call.batch, own, old.due_ms)? else {
        let mut new = old.clone();
        ids::begin_recount(call.batch, own, &mut new)?;
        return Ok(ids::set_summary(call.batch, own, &old, &new)?);
    };
    if oldest_ms >= call.clock_ms {
        return Err(Stop::refused(Refusal::Quota));
    }
    if sent_ms <= oldest_ms {
        return Err(Stop::refused(Refusal::RequestTooOld));
    }
    Ok(forget(call.batch, own, &old, (oldest_ms, key, value))?)
}

/// Removes the oldest outcome, and refuses its id from now on.
fn forget<V: View>(
    batch: &mut Batch<V>,
    ids: &Ids<'_>,
    old: &RequestsRow,
    (oldest_ms, key, value): (u64, Bytes, Bytes),
) -> Result<(), Fault> {
    let rows = old.rows.saturating_sub(1);
    let mut new = RequestsRow {
        rows,
        floor_ms: old.floor_ms.max(oldest_ms + 1),
        due_ms: (rows > 0).then(|| due(oldest_ms)),
        recount: old.recount.clone(),
    };
    ids::note(&mut new, &key, -1);
    batch.note_read(value.len());
    delete_outcome(batch, ids.space(), key, value.len())?;
    batch.note_removed(1);
    ids::set_summary(batch, ids, old, &new)
}

/// Forgets the oldest outcome of the call's principal, if it is older than this and more are kept than must be. True if it did.
pub(crate) fn forget_oldest<V: View>(
    call: &mut Call<'_, V>,
    before_ms: u64,
) -> Result<bool, Fault> {
    let Ok(principal) = principal_path(call.principal) else {
        return Ok(false);
    };
    let own = Ids::of_principal(call.space, principal);
    let old = ids::summary(call.batch, &own)?;
    if old.rows <= call.batch.bounds().principal_requests_min {
        return Ok(false);
    }
    match ids::oldest(call.batch, &own, old.due_ms)? {
        Some(oldest) if oldest.0 < before_ms.min(call.clock_ms) => {
            forget(call.batch, &own, &old, oldest)?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Keeps an outcome. Below [`level::MENDED`] the oldest goes at the tenant's bound, and the floor rises above it.
pub(super) fn keep<V: View>(
    call: &mut Call<'_, V>,
    request_id: &Bytes,
    row: &OutcomeRow,
) -> Result<(), Fault> {
    let is_mended = call.is_mended()?;
    let space = call.space;
    let ids = match principal_path(call.principal) {
        Ok(principal) if is_mended => Ids::of_principal(space, principal),
        _ => Ids::of_tenant(space),
    };
    let batch = &mut *call.batch;
    let sent_ms = sent_at(request_id).ok_or(Fault::Corrupt("a request id was not checked"))?;
    let old = ids::summary(batch, &ids)?;
    let mut new = old.clone();
    new.due_ms = Some(
        new.due_ms
            .map_or(due(sent_ms), |due_ms| due_ms.min(due(sent_ms))),
    );
    let key = ids.outcome(request_id);
    ids::note(&mut new, &key, 1);
    put_outcome(batch, space, key, row)?;
    new.rows += 1;
    if !is_mended && new.rows > batch.bounds().requests_max {
        // One was put just now.
        if let Some((oldest_ms, key, value)) = ids::oldest(batch, &ids, new.due_ms)? {
            ids::note(&mut new, &key, -1);
            delete_outcome(batch, space, key, value.len())?;
            new.rows -= 1;
            new.floor_ms = new.floor_ms.max(oldest_ms + 1);
            new.due_ms = Some(due(oldest_ms));
        }
    }
    ids::set_summary(batch, &ids, &old, &new)
}

/// Removes outcomes that are due, at most `rows_max`; says how many. Then the oldest that is left is the next to be due.
pub(crate) fn sweep<V: View>(
    batch: &mut Batch<V>,
    ids: &Ids<'_>,
    clock_ms: u64,
    rows_max: u32,
) -> Result<u32, Fault> {
    let old = ids::summary(batch, ids)?;
    let mut new = old.clone();
    new.floor_ms = floor(&old, clock_ms);
    let mut removed = 0;
    new.due_ms = loop {
        let Some((sent_ms, key, value)) = ids::oldest(batch, ids, new.due_ms)? else {
            break None;
        };
        if sent_ms >= new.floor_ms
            || removed == rows_max
            || batch.has_read_enough(ids.space().group_id)?
        {
            break Some(due(sent_ms));
        }
        batch.note_read(value.len());
        ids::note(&mut new, &key, -1);
        delete_outcome(batch, ids.space(), key, value.len())?;
        match new.rows.checked_sub(1) {
            Some(rows) => new.rows = rows,
            // Older versions stop here, so no replica has gone on from here otherwise.
            None => ids::begin_recount(batch, ids, &mut new)?,
        }
        new.due_ms = Some(due(sent_ms));
        removed += 1;
    };
    if level::feature_level(batch, ids.space().group_id)? >= level::MENDED
        && (new.rows > 0) != new.due_ms.is_some()
    {
        ids::begin_recount(batch, ids, &mut new)?;
    }
    ids::set_summary(batch, ids, &old, &new)?;
    Ok(removed)
}

/// Ids sent before it are refused.
fn floor(summary: &RequestsRow, clock_ms: u64) -> u64 {
    summary
        .floor_ms
        .max(clock_ms.saturating_sub(REQUEST_TTL_MS))
}
