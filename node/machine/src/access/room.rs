//! Room for a tenant that is at a bound. Rows that have expired do not count against it, whether they were removed already or not: so
//! before it is refused, some of its own are removed, and QUOTA is said only once none that could help is left. A storm of deadlines
//! costs others nothing by it, and the tenant itself no more than a bounded number of rows for each of its commands.

use helve_proto::command::v1::UsageRow;

use super::excess::excess;
use crate::{
    context::{Call, Lack},
    expiry,
    fault::Fault,
    layout::{Due, DueRow, Shelf},
    planted::{self, Plant},
    replay::{
        Slot,
        ids::{self, Ids},
        listed::{self, Idlest},
        requests, sessions,
    },
    tombstone,
    usage::Counter,
    view::{View, after},
};

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// There is room now.
    Made,
    /// There is none, and nothing has expired that could make some.
    None,
    /// There is none yet, and more rows may have expired than were removed.
    More,
}

/// How much may still be done for one command.
struct Budget {
    rows: u32,
    looks: u32,
    sessions: Sessions,
}

impl Budget {
    /// Whether the command must leave the rest to the next one. Each loop over rows asks this at
    /// its head.
    fn is_spent<V: View>(&self, call: &Call<'_, V>) -> Result<bool, Fault> {
        Ok(self.rows == 0 || call.batch.has_read_enough(call.space.group_id)?)
    }

    /// Takes off the rows that a turn of a loop removed, and at least one: no loop turns for ever.
    fn spend(&mut self, removed: u32) {
        self.rows = self.rows.saturating_sub(removed.max(1));
    }
}

/// What may become of idle sessions that are still open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sessions {
    Stay,
    MayEnd,
}

/// Removes rows of the call's tenant that have expired until it lacks nothing. Once none is left, what is kept for retries of the call's
/// principal goes, down to what must be left, then the tenant's tombstones, and then sessions of the principal that have been idle.
pub(crate) fn make<V: View>(
    call: &mut Call<'_, V>,
    slot: &Slot,
    lack: Lack,
) -> Result<Room, Fault> {
    make_by(call, slot, lack, Sessions::MayEnd)
}

/// The same for one more outcome: no session that is open goes for it.
pub(crate) fn make_for_outcome<V: View>(
    call: &mut Call<'_, V>,
    slot: &Slot,
    lack: Lack,
) -> Result<Room, Fault> {
    make_by(call, slot, lack, Sessions::Stay)
}

fn make_by<V: View>(
    call: &mut Call<'_, V>,
    slot: &Slot,
    lack: Lack,
    sessions: Sessions,
) -> Result<Room, Fault> {
    if planted::is(Plant::ServeExpired) {
        return Ok(Room::None);
    }
    let bounds = call.batch.bounds();
    let mut budget = Budget {
        rows: bounds.room_rows_max,
        looks: bounds.room_looks_max,
        sessions,
    };
    let wanted = Wanted::new(call, lack)?;
    let mut is_all = true;
    for shelf in wanted.shelves() {
        is_all &= clear(call, *shelf, &wanted, &mut budget)?;
        if wanted.is_met(call)? {
            return Ok(Room::Made);
        }
    }
    if wanted.wants_bytes() {
        is_all &= clear_requests(call, &mut budget)?;
        is_all &= clear_tombstones(call, &mut budget)?;
    }
    if is_all && call.is_mended()? {
        is_all &= shrink(call, slot, &wanted, &mut budget)?;
    }
    Ok(if wanted.is_met(call)? {
        Room::Made
    } else if is_all {
        Room::None
    } else {
        Room::More
    })
}

/// What must be left in use at most.
enum Wanted {
    Usage(UsageRow),
    Session,
}

impl Wanted {
    fn new<V: View>(call: &Call<'_, V>, lack: Lack) -> Result<Self, Fault> {
        let Lack::Usage(lack) = lack else {
            return Ok(Self::Session);
        };
        let used = call.batch.usage(call.space, Counter::Tenant)?;
        let left = |used: u64, lack: u64| match lack {
            0 => u64::MAX,
            _ => used.saturating_sub(lack),
        };
        Ok(Self::Usage(UsageRow {
            rows: left(used.rows, lack.rows),
            bytes: left(used.bytes, lack.bytes),
        }))
    }

    fn is_met<V: View>(&self, call: &Call<'_, V>) -> Result<bool, Fault> {
        Ok(match self {
            Self::Usage(left) => {
                let used = call.batch.usage(call.space, Counter::Tenant)?;
                used.rows <= left.rows && used.bytes <= left.bytes
            }
            Self::Session => listed::has_place(call)?,
        })
    }

    /// Where rows may be that help. Sessions bring their outcomes' bytes.
    fn shelves(&self) -> &'static [Shelf] {
        match self {
            Self::Session => &[Shelf::Sessions],
            Self::Usage(_) if self.wants_bytes() => {
                &[Shelf::Records, Shelf::Sessions, Shelf::Requests]
            }
            Self::Usage(_) => &[Shelf::Records],
        }
    }

    fn wants_bytes(&self) -> bool {
        matches!(self, Self::Usage(left) if left.bytes < u64::MAX)
    }
}

/// Removes the tenant's due rows of a kind, the earliest first. True if none is left.
fn clear<V: View>(
    call: &mut Call<'_, V>,
    shelf: Shelf,
    wanted: &Wanted,
    budget: &mut Budget,
) -> Result<bool, Fault> {
    let (space, group) = (call.space, call.space.group());
    let mut from_ms = call.batch.tenant_deadlines_from(space, shelf)?;
    from_ms = from_ms.max(call.batch.deadlines_from(group)?);
    let (_, end) = group.deadlines(0, call.clock_ms);
    let mut from = group.deadlines_of(from_ms, shelf.first(), space.tenant);
    let mut is_all = false;
    // Once enough is read, a session may be removed in part: then its row of the index is the first that is left.
    while budget.looks > 0 && !budget.is_spent(call)? && !wanted.is_met(call)? {
        budget.looks -= 1;
        let Some((key, _)) = call.batch.range(&from, &end, 1)?.pop() else {
            from_ms = call.clock_ms.saturating_add(1);
            is_all = true;
            break;
        };
        let row = group.parse_deadline(&key);
        from_ms = row.at_ms;
        if row.tenant == space.tenant && shelf.holds(&row.due) {
            budget.spend(expiry::remove(call, &row, budget.rows)?);
            from = after(&key);
        } else {
            let (start_ms, start) = next(call, shelf, &row, &key);
            from_ms = start_ms;
            // The time of a row that cannot be read may not be the one that it is found at.
            from = start.max(after(&key));
        }
    }
    // What is removed meanwhile leaves no deadline before it: a tombstone's comes a day later, and a summary's moves on.
    call.batch
        .set_tenant_deadlines_from(space, shelf, from_ms)?;
    Ok(is_all)
}

/// Where the tenant's next row of a kind may be behind this one, which is another's.
fn next<V: View>(call: &Call<'_, V>, shelf: Shelf, row: &DueRow, key: &[u8]) -> (u64, Vec<u8>) {
    let start = |at_ms, kind| {
        let group = call.space.group();
        (at_ms, group.deadlines_of(at_ms, kind, call.space.tenant))
    };
    let mut at_once = shelf.kinds().map(|kind| start(row.at_ms, kind));
    let later = || start(row.at_ms.saturating_add(1), shelf.first());
    at_once
        .find(|(_, start)| &start[..] > key)
        .unwrap_or_else(later)
}

/// Removes the tenant's due outcomes of request ids. True if none is left.
fn clear_requests<V: View>(call: &mut Call<'_, V>, budget: &mut Budget) -> Result<bool, Fault> {
    let (space, clock_ms) = (call.space, call.clock_ms);
    let ids = Ids::of_tenant(space);
    let is_due = |due_ms: Option<u64>| due_ms.is_some_and(|at_ms| at_ms <= clock_ms);
    if !budget.is_spent(call)?
        && let Some(at_ms) = ids::due_ms(call.batch, &ids)?
        && at_ms <= clock_ms
    {
        let row = DueRow {
            at_ms,
            tenant: space.tenant.to_owned(),
            due: Due::Requests,
        };
        budget.spend(expiry::remove(call, &row, budget.rows)?);
    }
    Ok(!is_due(ids::due_ms(call.batch, &ids)?))
}

/// Removes tombstones of the tenant that are told no more. True if none is left.
fn clear_tombstones<V: View>(call: &mut Call<'_, V>, budget: &mut Budget) -> Result<bool, Fault> {
    let (space, clock_ms) = (call.space, call.clock_ms);
    if !call.is_mended()? {
        return Ok(true);
    }
    if budget.rows > 0 {
        let removed = tombstone::sweep_if_due(call.batch, space, clock_ms, budget.rows)?;
        budget.rows = budget.rows.saturating_sub(removed);
    }
    let due_ms = tombstone::due_ms(call.batch, space)?;
    Ok(due_ms.is_none_or(|at_ms| at_ms > clock_ms))
}

/// Takes a tenant back within its quota of bytes after an outcome was kept: what adds nothing is never refused, but leaves one.
pub(crate) fn keep_within<V: View>(call: &mut Call<'_, V>, slot: &Slot) -> Result<(), Fault> {
    if matches!(slot, Slot::Nowhere) {
        return Ok(());
    }
    if let Some(lack) = excess(call)? {
        make_for_outcome(call, slot, lack)?;
    }
    Ok(())
}

/// Removes what is left of calls and records that ended. True if nothing that could help is left.
/// Outcomes of megabytes may have to be read for their lengths. Once that is enough, a session is
/// removed in part. It stays the idlest, and the next command goes on with it.
fn shrink<V: View>(
    call: &mut Call<'_, V>,
    slot: &Slot,
    wanted: &Wanted,
    budget: &mut Budget,
) -> Result<bool, Fault> {
    // Nothing is forgotten for what would not fit a tenant that has nothing.
    if matches!(wanted, Wanted::Usage(left) if left.bytes == 0) {
        return Ok(true);
    }
    let sent_ms = match slot {
        Slot::Request { request_id } => ids::sent_at(request_id).unwrap_or_default(),
        Slot::Nowhere | Slot::Session { .. } => u64::MAX,
    };
    while wanted.wants_bytes() && !wanted.is_met(call)? {
        if budget.is_spent(call)? {
            return Ok(false);
        }
        let is_forgotten = match slot {
            Slot::Session { session_id, seq } => sessions::forget_oldest(call, session_id, *seq)?,
            Slot::Nowhere | Slot::Request { .. } => false,
        };
        let is_forgotten = is_forgotten
            || requests::forget_oldest(call, sent_ms)?
            || tombstone::forget_oldest(call.batch, call.space)?;
        if !is_forgotten {
            break;
        }
        budget.spend(1);
    }
    let would_help = wanted.wants_bytes() || matches!(wanted, Wanted::Session);
    while budget.sessions == Sessions::MayEnd && would_help && !wanted.is_met(call)? {
        if budget.is_spent(call)? {
            return Ok(false);
        }
        match listed::expire_idlest(call)? {
            Idlest::None => break,
            Idlest::Unsure => return Ok(false),
            Idlest::Due(row) => budget.spend(expiry::remove(call, &row, budget.rows)?),
        }
    }
    Ok(true)
}
