//! Time: how the clock advances, and the removal of what is due. Whether a due row has been removed yet is never to be seen in an
//! answer; removing is housekeeping.

use bytes::Bytes;
use helve_proto::{
    command::v1::{NumberRow, Tick, Ticked, TombstoneRow, Touch, Touched, touch::Record},
    v1::{ChangeKind, HandleStatus},
};

use crate::{
    access::tokens,
    batch::Batch,
    clock::clock,
    context::{Call, Stop},
    fault::Fault,
    layout::{Due, DueRow, Group, Kind, Shelf, Space, Target},
    lease, level, lifetime,
    limits::{DEADLINES_LOOKED_OVER_MS, SWEEP_OVERDUE_MS},
    planted::{self, Plant},
    record::{self, Stored},
    repair::Repair,
    replay::{
        self,
        ids::{self, Ids},
    },
    row, tombstone,
    usage::{self, Counter},
    view::View,
};

/// Due rows that are looked up at once.
const SWEEP_CHUNK: u32 = 64;

/// Takes a stamp into the clock, which never falls, and returns the clock. At the start of each day,
/// looks for rows of the deadline index before the time that it is said to begin at.
pub(crate) fn advance<V: View>(
    batch: &mut Batch<V>,
    group_id: u32,
    stamp_ms: u64,
) -> Result<u64, Fault> {
    let clock_ms = clock(batch, group_id)?;
    if stamp_ms <= clock_ms {
        return Ok(clock_ms);
    }
    batch.put(
        Group(group_id).clock(),
        row::encode(&NumberRow { value: stamp_ms }),
    );
    if stamp_ms / DEADLINES_LOOKED_OVER_MS != clock_ms / DEADLINES_LOOKED_OVER_MS
        && level::feature_level(batch, group_id)? >= level::MENDED
    {
        batch.mend_deadlines_from(Group(group_id))?;
    }
    Ok(stamp_ms)
}

pub(crate) fn tick<V: View>(call: &mut Call<'_, V>, tick: Tick) -> Result<Ticked, Fault> {
    let rows_max = tick.rows_max.min(call.batch.bounds().tick_rows_max);
    let removed_rows = sweep(call, call.clock_ms, rows_max)?;
    let more = !due_rows(call, call.clock_ms, 1)?.is_empty();
    Ok(Ticked { removed_rows, more })
}

/// Restarts the idle time of a record that lives and has one.
pub(crate) fn touch<V: View>(call: &mut Call<'_, V>, touch: &Touch) -> Result<Touched, Stop> {
    let target = match &touch.record {
        Some(Record::Handle(handle)) => Target::handle(&handle.store, &handle.owner, &handle.id)?,
        Some(Record::Key(key)) => Target::key(&key.owner, &key.key)?,
        None => return Ok(Touched {}),
    };
    let seen = record::see(call.batch, call.space, &target, call.clock_ms)?;
    if let Some(row) = seen.live()
        && let Some(ttl_ms) = row.idle_ttl_ms
    {
        let renewed_ms = lifetime::idle_deadline(call.clock_ms, ttl_ms).unwrap_or(u64::MAX);
        if Some(renewed_ms) > row.idle_deadline_ms {
            let mut row = row.clone();
            row.idle_deadline_ms = Some(renewed_ms);
            record::write(call.batch, call.space, &target, &seen, &row)?;
        }
    }
    Ok(Touched {})
}

/// By when a row must have been due for a command to remove it beside what the command is for, a Tick aside; `None` if no row was.
pub(crate) fn swept_beside<V: View>(
    batch: &mut Batch<V>,
    group_id: u32,
    clock_ms: u64,
) -> Result<Option<u64>, Fault> {
    let from_ms = batch.deadlines_from(Group(group_id))?;
    if from_ms > clock_ms {
        return Ok(None);
    }
    let is_left_to_ticks = level::feature_level(batch, group_id)? >= level::LEFT_TO_TICKS;
    let long_ms = if is_left_to_ticks {
        SWEEP_OVERDUE_MS
    } else {
        0
    };
    let by_ms = clock_ms.saturating_sub(long_ms);
    Ok((from_ms <= by_ms).then_some(by_ms))
}

/// Removes rows that were due by this time, the earliest first, at most `rows_max`; says how many.
pub(crate) fn sweep<V: View>(
    call: &mut Call<'_, V>,
    by_ms: u64,
    rows_max: u32,
) -> Result<u32, Fault> {
    let (mut removed, group_id) = (0, call.space.group_id);
    while removed < rows_max && !call.batch.has_read_enough(group_id)? {
        let due = due_rows(call, by_ms, (rows_max - removed).min(SWEEP_CHUNK))?;
        if due.is_empty() {
            break;
        }
        for row in due {
            if removed >= rows_max || call.batch.has_read_enough(group_id)? {
                break;
            }
            removed += remove(call, &row, rows_max - removed)?;
        }
    }
    Ok(removed)
}

/// The earliest rows that were due by this time, at most `rows_max`.
fn due_rows<V: View>(
    call: &mut Call<'_, V>,
    by_ms: u64,
    rows_max: u32,
) -> Result<Vec<DueRow>, Fault> {
    let group = call.space.group();
    let from_ms = call.batch.deadlines_from(group)?;
    if from_ms > by_ms || planted::is(Plant::ServeExpired) {
        return Ok(Vec::new());
    }
    let keys = call.batch.first_deadlines(group, rows_max as usize)?;
    let mut due = Vec::with_capacity(keys.len());
    for key in &keys {
        due.push(group.parse_deadline(key));
    }
    let first_ms = due.first().map_or(u64::MAX, |row| row.at_ms);
    call.batch.set_deadlines_from(group, first_ms)?;
    due.retain(|row| row.at_ms <= by_ms);
    Ok(due)
}

/// The keys of the records among the earliest rows that were due by this time, of which at most `rows_max` are looked at.
pub(crate) fn due_records<V: View>(
    batch: &mut Batch<V>,
    group_id: u32,
    by_ms: u64,
    rows_max: usize,
) -> Result<Vec<Bytes>, Fault> {
    let group = Group(group_id);
    let mut records = Vec::new();
    if batch.deadlines_from(group)? > by_ms {
        return Ok(records);
    }
    for key in batch.first_deadlines(group, rows_max)? {
        let row = group.parse_deadline(&key);
        if row.at_ms > by_ms {
            break;
        }
        if let Due::Record(target) = &row.due {
            let space = Space {
                group_id,
                tenant: &row.tenant,
            };
            records.push(space.record(target));
        }
    }
    Ok(records)
}

/// Removes what a row of the index names, at least one row and at most `rows_max`; says how many. A
/// recount reads as many rows as a Tick may remove at most, or rows that are added behind it would
/// keep it from ending.
pub(crate) fn remove<V: View>(
    call: &mut Call<'_, V>,
    row: &DueRow,
    rows_max: u32,
) -> Result<u32, Fault> {
    if let Some(shelf) = Shelf::of(&row.due) {
        let space = Space {
            group_id: call.space.group_id,
            tenant: &row.tenant,
        };
        call.batch
            .mend_tenant_deadlines_from(space, shelf, row.at_ms)?;
    }
    // Counts a session of which nothing could be removed as one row, so that every loop ends.
    let removed = remove_named(call, row, rows_max)?.max(1);
    call.batch.note_removed(removed);
    Ok(removed)
}

fn remove_named<V: View>(
    call: &mut Call<'_, V>,
    row: &DueRow,
    rows_max: u32,
) -> Result<u32, Fault> {
    let space = Space {
        group_id: call.space.group_id,
        tenant: &row.tenant,
    };
    match &row.due {
        Due::Record(target) => {
            remove_record(call, space, row, target)?;
            return Ok(1);
        }
        Due::Recount(name) if name.is_empty() => {
            call.batch.delete_deadline(space, row.at_ms, &row.due);
            tombstone::schedule(call.batch, space)?;
            call.batch.recount(space, Counter::Tenant)?;
            call.batch.recount(space, Counter::Sessions)?;
            return Ok(1);
        }
        Due::Recount(name) => {
            let times = (row.at_ms, call.clock_ms);
            if tombstone::is_recounted_as(name) {
                return tombstone::step(call.batch, space, times);
            }
            if let Some(ids) = Ids::recounted_as(space, name) {
                return ids::step(call.batch, &ids, times);
            }
            return match Counter::named(name) {
                Some(counter) => usage::step(call.batch, space, times, counter),
                None => remove_unknown(call, space, row),
            };
        }
        Due::Unreadable(_) => return remove_unknown(call, space, row),
        _ => {}
    }
    let deadline_ms = deadline_of(call, space, &row.due)?;
    // Older versions stop at a token that is not there, and work on what else the index names without a look.
    let is_mended = call.is_mended()? || matches!(row.due, Due::Token(_)) && deadline_ms.is_none();
    if is_mended && deadline_ms != Some(row.at_ms) {
        mend_deadline(call.batch, space, row, deadline_ms)?;
        return Ok(1);
    }
    match &row.due {
        Due::Record(_) | Due::Recount(_) | Due::Unreadable(_) => Ok(0),
        Due::Session(session_id) => {
            replay::sessions::sweep(call.batch, space, session_id, row.at_ms, rows_max)
        }
        // The index may name a time at which none is due any more: then it moves, which counts as one.
        Due::Tombstones => Ok(tombstone::sweep(call.batch, space, call.clock_ms, rows_max)?.max(1)),
        Due::Token(hash) => {
            tokens::sweep(call, hash)?;
            Ok(1)
        }
        Due::Requests => sweep_requests(call, &Ids::of_tenant(space), rows_max),
        Due::PrincipalRequests(principal) => {
            let ids = Ids::of_principal(space, principal.clone());
            sweep_requests(call, &ids, rows_max)
        }
    }
}

/// Drops a row of the index that names nothing which this version knows. Versions that know more
/// may know it.
#[cold]
fn remove_unknown<V: View>(
    call: &mut Call<'_, V>,
    space: Space<'_>,
    row: &DueRow,
) -> Result<u32, Fault> {
    let level = level::feature_level(call.batch, space.group_id)?;
    if level > call.supported {
        return Err(Fault::FeatureLevel {
            needed: level,
            known: call.supported,
        });
    }
    mend_deadline(call.batch, space, row, None)?;
    Ok(1)
}

fn sweep_requests<V: View>(
    call: &mut Call<'_, V>,
    ids: &Ids<'_>,
    rows_max: u32,
) -> Result<u32, Fault> {
    Ok(replay::requests::sweep(call.batch, ids, call.clock_ms, rows_max)?.max(1))
}

/// When what a row of the index names is due, as its own row says; `None`: never, or it is not there.
fn deadline_of<V: View>(
    call: &Call<'_, V>,
    space: Space<'_>,
    due: &Due,
) -> Result<Option<u64>, Fault> {
    let batch = &*call.batch;
    Ok(match due {
        Due::Record(target) => match batch.get(&space.record(target))? {
            Some(bytes) => lifetime::deadline(&record::decode(&bytes)?),
            None => None,
        },
        Due::Session(session_id) => {
            let session = batch.session(&space.session(session_id))?;
            session.map(|row| row.deadline_ms)
        }
        Due::Recount(_) | Due::Unreadable(_) => None,
        Due::Tombstones => tombstone::due_ms(batch, space)?,
        Due::Requests => ids::due_ms(batch, &Ids::of_tenant(space))?,
        Due::PrincipalRequests(principal) => {
            ids::due_ms(batch, &Ids::of_principal(space, principal.clone()))?
        }
        Due::Token(hash) => {
            let token = tokens::stored(batch, space.group(), hash)?;
            token.as_ref().and_then(tokens::gone_at)
        }
    })
}

/// Drops a row of the index which differs from the deadline of what it names, and sees to it that the true one is in the index. Where
/// older versions stop at such a row, no replica has gone on otherwise.
#[cold]
fn mend_deadline<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    row: &DueRow,
    deadline_ms: Option<u64>,
) -> Result<(), Fault> {
    batch.delete_deadline(space, row.at_ms, &row.due);
    if let Some(at_ms) = deadline_ms {
        let key = space.group().deadline(at_ms, space.tenant, &row.due);
        if batch.get(&key)?.is_none() {
            batch.move_deadline(space, &row.due, None, Some(at_ms))?;
        }
    }
    batch.note_repair(Repair {
        what: "deadlines",
        tenant: space.tenant.to_owned(),
        was: row.at_ms,
        is: deadline_ms.unwrap_or_default(),
    });
    Ok(())
}

fn remove_record<V: View>(
    call: &mut Call<'_, V>,
    space: Space<'_>,
    due: &DueRow,
    target: &Target,
) -> Result<(), Fault> {
    let at_ms = due.at_ms;
    let Some(bytes) = call.batch.get(&space.record(target))? else {
        return mend_deadline(call.batch, space, due, None);
    };
    let row = record::decode(&bytes)?;
    let deadline_ms = lifetime::deadline(&row);
    if deadline_ms != Some(at_ms) {
        return mend_deadline(call.batch, space, due, deadline_ms);
    }
    let stored = Stored {
        row,
        bytes: bytes.len(),
    };
    record::remove(
        call.batch,
        space,
        target,
        Some(&stored),
        ChangeKind::Expired,
    )?;
    if target.kind == Kind::Handle && record::is_told(at_ms, call.clock_ms) {
        let tombstone = TombstoneRow {
            status: HandleStatus::Expired.into(),
            at_ms,
            lease: lease::expired(&stored.row, at_ms),
        };
        tombstone::add(call.batch, space, &target.path, &tombstone)?;
    }
    Ok(())
}
