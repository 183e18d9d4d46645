//! Replay sessions: calls numbered by their caller, whose outcomes are kept until the caller has them.

use bytes::Bytes;
use helve_proto::{
    command::v1::{Outcome, Refusal, SessionRow},
    v1::{OpenSessionReply, OpenSessionRequest, SessionCall},
};

use super::{
    listed, measured, noted,
    outcomes::{Admission, Slot, delete_outcome, kept},
};
use crate::{
    access::excess::excess,
    batch::Batch,
    context::{Call, Stop},
    fault::Fault,
    layout::Space,
    level,
    limits::{IDENTITY_BYTES, SESSION_IDLE_TTL_MS, SESSION_SLACK_MS},
    usage::{Counter, Delta},
    view::View,
};

/// Outcomes that are read at once. They may hold taken values.
const OUTCOME_ROWS: u32 = 16;

/// Opens a session, or answers that it is open.
pub(crate) fn open<V: View>(
    call: &mut Call<'_, V>,
    request: &OpenSessionRequest,
) -> Result<OpenSessionReply, Stop> {
    let session_id = &request.session_id;
    if session_id.len() != IDENTITY_BYTES {
        return Err(Stop::refused(Refusal::Malformed));
    }
    let key = call.space.session(session_id);
    match call.batch.session(&key)? {
        Some(mut row) if row.deadline_ms > call.clock_ms => {
            if row.principal != call.principal {
                return Err(Stop::refused(Refusal::SessionExpired));
            }
            let old_deadline = row.deadline_ms;
            extend(&mut row, call.clock_ms)?;
            listed::move_deadline(call, session_id, &mut row, Some(old_deadline))?;
            call.batch.set_session(key, Some(row));
        }
        stale => {
            // An expired session is gone, whether it has been removed already or not.
            if let Some(old) = stale {
                let (space, deadline_ms) = (call.space, old.deadline_ms);
                sweep(call.batch, space, session_id, deadline_ms, u32::MAX)?;
                if call.batch.session(&key)?.is_some() {
                    return Err(Stop::refused(Refusal::Clearing));
                }
            }
            listed::expect_place(call)?;
            let mut row = SessionRow {
                principal: call.principal.to_owned(),
                floor: 1,
                noted_from: u64::from(notes_calls(call)?),
                measured_from: u64::from(call.is_mended()?),
                ..SessionRow::default()
            };
            extend(&mut row, call.clock_ms)?;
            listed::move_deadline(call, session_id, &mut row, None)?;
            let delta = Delta { rows: 1, bytes: 0 };
            call.batch
                .count(call.space, Counter::Sessions, delta, || key.clone())?;
            call.batch.set_session(key, Some(row));
        }
    }
    Ok(OpenSessionReply {
        header: Some(call.header()),
        idle_ttl_ms: SESSION_IDLE_TTL_MS,
        window_calls_max: call.batch.bounds().session_window_calls_max,
    })
}

pub(super) fn admit<V: View>(
    call: &mut Call<'_, V>,
    session_call: &SessionCall,
    fingerprint: &Bytes,
) -> Result<Admission, Stop> {
    let session_id = &session_call.session_id;
    let key = call.space.session(session_id);
    let stored = call.batch.session(&key)?;
    let mut row = stored
        .filter(|row| row.deadline_ms > call.clock_ms && row.principal == call.principal)
        .ok_or_else(|| Stop::refused(Refusal::SessionExpired))?;
    let (old_floor, old_deadline) = (row.floor, row.deadline_ms);
    let floor = old_floor.max(session_call.first_incomplete);
    extend(&mut row, call.clock_ms)?;
    if !noted::has_begun(&row) && notes_calls(call)? {
        noted::begin(&mut row, call.batch.bounds().session_window_calls_max);
    }
    if !measured::has_begun(&row) && call.is_mended()? {
        measured::begin(&mut row, call.batch.bounds().session_window_calls_max);
    }
    let floor = forget(call, session_id, &row, floor)?;
    measured::drop_below(&mut row, floor);
    noted::raise_floor(&mut row, floor);

    let seq = session_call.seq;
    let answer = answer(call, &row, session_call, fingerprint);
    let is_noted = noted::has_begun(&row) && matches!(answer, Ok(None));
    if is_noted {
        noted::note(&mut row, seq);
    }
    if is_noted || (floor, row.deadline_ms) != (old_floor, old_deadline) {
        listed::move_deadline(call, session_id, &mut row, Some(old_deadline))?;
        call.batch.set_session(key, Some(row));
    }
    if let Some(outcome) = answer? {
        return Ok(Admission::Answer(Box::new(outcome)));
    }
    expect_room(call, session_id)?;
    Ok(Admission::Execute(Slot::Session {
        session_id: session_id.clone(),
        seq,
    }))
}

/// Where the tenant is over its quota of bytes, older outcomes of the session go before a new one comes. Calls whose numbers fall
/// could not be forgotten after it.
fn expect_room<V: View>(call: &mut Call<'_, V>, session_id: &Bytes) -> Result<(), Stop> {
    let Some(lack) = excess(call)? else {
        return Ok(());
    };
    let row = call.batch.session(&call.space.session(session_id))?;
    let kept_min = call.batch.bounds().session_outcomes_min;
    let is_spare = row.is_some_and(|row| {
        measured::is_whole(&row) && measured::kept(&row).nth(kept_min).is_some()
    });
    if is_spare {
        return Err(Stop::Short(lack));
    }
    Ok(())
}

/// What a call came to that was executed before; nothing if it is new.
fn answer<V: View>(
    call: &Call<'_, V>,
    row: &SessionRow,
    session_call: &SessionCall,
    fingerprint: &Bytes,
) -> Result<Option<Outcome>, Stop> {
    let seq = session_call.seq;
    if seq < row.floor {
        return Err(Stop::refused(Refusal::StaleCall));
    }
    if seq - row.floor >= call.batch.bounds().session_window_calls_max {
        return Err(Stop::refused(Refusal::TooEarly));
    }
    if !noted::may_have_outcome(row, seq) {
        return Ok(None);
    }
    let key = call.space.session_outcome(&session_call.session_id, seq);
    kept(call.batch, &key, fingerprint)
}

/// Removes an expired session's outcomes and then the session, at most `rows_max` rows, and no more once the command has read enough;
/// says how many.
pub(crate) fn sweep<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    session_id: &Bytes,
    deadline_ms: u64,
    rows_max: u32,
) -> Result<u32, Fault> {
    let (removed, is_all) = match batch.session(&space.session(session_id))? {
        Some(row) if measured::is_whole(&row) => {
            sweep_measured(batch, space, session_id, row, rows_max)?
        }
        row => sweep_unmeasured(batch, space, session_id, row, rows_max)?,
    };
    if removed == rows_max || !is_all {
        return Ok(removed);
    }
    let delta = Delta { rows: -1, bytes: 0 };
    let key = space.session(session_id);
    batch.count(space, Counter::Sessions, delta, || key.clone())?;
    listed::drop(batch, space, session_id, deadline_ms)?;
    batch.set_session(key, None);
    Ok(removed + 1)
}

/// Removes outcomes whose bytes are known, at most `rows_max`, without reading them. Says how many, and whether none is left.
fn sweep_measured<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    session_id: &Bytes,
    mut row: SessionRow,
    rows_max: u32,
) -> Result<(u32, bool), Fault> {
    let kept: Vec<_> = measured::kept(&row).take(rows_max as usize).collect();
    let mut removed = 0;
    for (seq, bytes) in kept {
        let key = space.session_outcome(session_id, seq);
        delete_outcome(batch, space, key, bytes as usize)?;
        measured::note(&mut row, seq, 0);
        removed += 1;
    }
    let is_all = measured::kept(&row).next().is_none();
    batch.set_session(space.session(session_id), Some(row));
    Ok((removed, is_all))
}

/// Removes outcomes that were kept before their bytes were noted, at most `rows_max`, and those that
/// came later. Says how many, and whether none is left.
fn sweep_unmeasured<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    session_id: &Bytes,
    row: Option<SessionRow>,
    rows_max: u32,
) -> Result<(u32, bool), Fault> {
    let span = space.session_outcomes(session_id);
    let mut measured = row.filter(measured::has_begun);
    let (mut removed, mut is_all) = (0, false);
    'pages: while removed < rows_max {
        let page_rows = (rows_max - removed).min(OUTCOME_ROWS);
        let page = batch.range(&span.prefix, &span.end, page_rows as usize)?;
        is_all = page.is_empty();
        if is_all {
            break;
        }
        for (key, value) in page {
            if batch.has_read_enough(space.group_id)? {
                break 'pages;
            }
            batch.note_read(value.len());
            if let (Some(row), Some(seq)) = (&mut measured, key.last_chunk()) {
                measured::note(row, u64::from_be_bytes(*seq), 0);
            }
            delete_outcome(batch, space, key, value.len())?;
            removed += 1;
        }
    }
    if removed > 0 && measured.is_some() {
        batch.set_session(space.session(session_id), measured);
    }
    Ok((removed, is_all))
}

/// Forgets the outcomes from the row's floor up to the new one, and says where the floor is then. A window's worth is all that can be
/// there. Outcomes that were kept before their bytes were noted must be read: once that is enough, later calls go on.
fn forget<V: View>(
    call: &mut Call<'_, V>,
    session_id: &Bytes,
    row: &SessionRow,
    floor: u64,
) -> Result<u64, Fault> {
    let (space, batch) = (call.space, &mut *call.batch);
    let window_calls = batch.bounds().session_window_calls_max;
    let end = floor.min(row.floor.saturating_add(window_calls));
    for seq in (row.floor..end).filter(|&seq| noted::may_have_outcome(row, seq)) {
        let key = space.session_outcome(session_id, seq);
        let bytes = match measured::bytes(row, seq) {
            Some(0) => continue,
            Some(bytes) => Some(bytes as usize),
            None if batch.has_read_enough(space.group_id)? => return Ok(seq),
            None => batch.get(&key)?.map(|value| value.len()),
        };
        // A look costs about as much as a removal.
        batch.note_removed(1);
        if let Some(bytes) = bytes {
            if measured::bytes(row, seq).is_none() {
                batch.note_read(bytes);
            }
            delete_outcome(batch, space, key, bytes)?;
        }
    }
    Ok(floor)
}

/// Forgets the oldest outcome of a session, if it is of a call before this one and more are kept than must be. True if it did.
pub(crate) fn forget_oldest<V: View>(
    call: &mut Call<'_, V>,
    session_id: &Bytes,
    before_seq: u64,
) -> Result<bool, Fault> {
    let key = call.space.session(session_id);
    let stored = call.batch.session(&key)?;
    let Some(mut row) = stored.filter(measured::is_whole) else {
        return Ok(false);
    };
    let kept_min = call.batch.bounds().session_outcomes_min;
    let first = measured::kept(&row).next();
    let is_spare = measured::kept(&row).nth(kept_min).is_some();
    let Some((seq, bytes)) = first.filter(|(seq, _)| is_spare && *seq < before_seq) else {
        return Ok(false);
    };
    let outcome = call.space.session_outcome(session_id, seq);
    delete_outcome(call.batch, call.space, outcome, bytes as usize)?;
    call.batch.note_removed(1);
    measured::drop_below(&mut row, seq + 1);
    noted::raise_floor(&mut row, seq + 1);
    call.batch.set_session(key, Some(row));
    Ok(true)
}

/// Whether every version that may write this group's sessions notes their calls.
fn notes_calls<V: View>(call: &Call<'_, V>) -> Result<bool, Fault> {
    Ok(level::feature_level(call.batch, call.space.group_id)? >= level::NOTED_CALLS)
}

/// Restarts the idle time, if that moves the deadline by enough to be worth a write.
fn extend(row: &mut SessionRow, clock_ms: u64) -> Result<(), Stop> {
    let deadline_ms = clock_ms
        .checked_add(SESSION_IDLE_TTL_MS + SESSION_SLACK_MS)
        .ok_or_else(|| Stop::refused(Refusal::BadLifetime))?;
    if deadline_ms > row.deadline_ms.saturating_add(SESSION_SLACK_MS) {
        row.deadline_ms = deadline_ms;
    }
    Ok(())
}
