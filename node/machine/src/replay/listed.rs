//! Sessions by their principals. From level [`MENDED`](crate::level::MENDED) on each session is
//! listed: it counts among its principal's, and among its tenant's bytes, and is in an order in which
//! the principal's idlest comes first. One that was opened before is listed when a call next moves
//! its deadline.

use bytes::Bytes;
use helve_proto::command::v1::{Refusal, SessionRow, UsageRow};

use crate::{
    batch::Batch,
    context::{Call, Lack, Stop},
    fault::Fault,
    layout::{Due, DueRow, Space, principal_path},
    limits::{SESSION_BYTES, SESSION_EVICTED_IDLE_MS, SESSION_IDLE_TTL_MS},
    repair::Repair,
    usage::{Counter, Delta},
    view::View,
};

/// Refuses a further session of the call's principal where there is no place for it.
pub(super) fn expect_place<V: View>(call: &mut Call<'_, V>) -> Result<(), Stop> {
    if !call.is_mended()? {
        let open = call.batch.usage(call.space, Counter::Sessions)?.rows;
        return if open < call.batch.bounds().sessions_max {
            Ok(())
        } else {
            Err(Stop::refused(Refusal::Quota))
        };
    }
    if !has_place(call)? {
        return Err(Stop::Short(Lack::Session));
    }
    let quota = call.batch.quotas(call.space)?.bytes;
    let used = call.batch.usage(call.space, Counter::Tenant)?.bytes;
    let excess = used.saturating_add(SESSION_BYTES).saturating_sub(quota);
    if quota > 0 && excess > 0 && own(call)? >= call.batch.bounds().principal_sessions_min {
        return Err(Stop::Short(Lack::Usage(UsageRow {
            rows: 0,
            bytes: excess,
        })));
    }
    Ok(())
}

/// Whether the numbers of sessions allow a further one of the call's principal. A few it may have whatever others of its tenant have.
pub(crate) fn has_place<V: View>(call: &Call<'_, V>) -> Result<bool, Fault> {
    let (own, bounds) = (own(call)?, call.batch.bounds());
    let open = call.batch.usage(call.space, Counter::Sessions)?.rows;
    let is_tenant_full = open >= bounds.sessions_max && own >= bounds.principal_sessions_min;
    Ok(own < bounds.principal_sessions_max && !is_tenant_full)
}

/// How many sessions the call's principal has; no number allows one more of a principal that fits no key.
fn own<V: View>(call: &Call<'_, V>) -> Result<u64, Fault> {
    let Ok(principal) = principal_path(call.principal) else {
        return Ok(u64::MAX);
    };
    Ok(call
        .batch
        .usage(call.space, Counter::Principal(&principal))?
        .rows)
}

/// What was found at the beginning of a principal's order.
pub(crate) enum Idlest {
    /// No session that has been idle for long enough.
    None,
    /// A row that no session has. The principal's sessions are counted again, and until that is done
    /// none of them goes.
    Unsure,
    /// A session that is due now.
    Due(DueRow),
}

/// Makes the idlest session of the call's principal due now, if it has been idle for long enough;
/// it is to be removed then.
pub(crate) fn expire_idlest<V: View>(call: &mut Call<'_, V>) -> Result<Idlest, Fault> {
    let Ok(principal) = principal_path(call.principal) else {
        return Ok(Idlest::None);
    };
    let space = call.space;
    let counter = Counter::Principal(&principal);
    if call.batch.recount_of(space, counter)?.is_some() {
        return Ok(Idlest::Unsure);
    }
    let span = space.session_orders(&principal);
    // A deadline is at least the idle time after the last call.
    let idle_since_ms = call.clock_ms.saturating_sub(SESSION_EVICTED_IDLE_MS);
    let last_ms = idle_since_ms.saturating_add(SESSION_IDLE_TTL_MS);
    let end = space.session_order(&principal, last_ms.saturating_add(1), &[]);
    let Some((order, _)) = call.batch.range(&span.prefix, &end, 1)?.pop() else {
        return Ok(Idlest::None);
    };
    let path = order[span.prefix.len()..].split_first_chunk::<8>();
    let session_id = path.map_or_else(Bytes::new, |(_, id)| order.slice_ref(id));
    let key = space.session(&session_id);
    let row = call.batch.session(&key)?;
    let Some(mut row) =
        row.filter(|row| order_of(space, &session_id, row).as_ref() == Some(&order))
    else {
        mend_order(call.batch, space, &principal, &order, &session_id)?;
        return Ok(Idlest::Unsure);
    };
    let old = row.deadline_ms;
    row.deadline_ms = old.min(call.clock_ms);
    move_deadline(call, &session_id, &mut row, Some(old))?;
    let at_ms = row.deadline_ms;
    call.batch.set_session(key, Some(row));
    Ok(Idlest::Due(DueRow {
        at_ms,
        tenant: space.tenant.to_owned(),
        due: Due::Session(session_id),
    }))
}

/// The row of the order that a session has.
fn order_of(space: Space<'_>, session_id: &[u8], row: &SessionRow) -> Option<Bytes> {
    let principal = principal_path(&row.principal).ok().filter(|_| row.listed)?;
    Some(space.session_order(&principal, row.deadline_ms, session_id))
}

/// Drops a row of the order that no session has. If it names a session whose own row is not there,
/// that one is put. The counters that count such rows are worked out again.
#[cold]
fn mend_order<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    principal: &[u8],
    order: &Bytes,
    session_id: &Bytes,
) -> Result<(), Fault> {
    batch.delete(order.clone());
    batch.recount(space, Counter::Principal(principal))?;
    batch.recount(space, Counter::Tenant)?;
    let row = batch.session(&space.session(session_id))?;
    if let Some(row) = &row
        && let Ok(principal) = principal_path(&row.principal)
        && let Some(own) = order_of(space, session_id, row)
        && batch.get(&own)?.is_none()
    {
        batch.put(own, Bytes::new());
        batch.recount(space, Counter::Principal(&principal))?;
    }
    let said = order[space.session_orders(principal).prefix.len()..].first_chunk::<8>();
    batch.note_removed(1);
    batch.note_repair(Repair {
        what: "session order",
        tenant: space.tenant.to_owned(),
        was: said.map_or(0, |said| u64::from_be_bytes(*said)),
        is: row.map_or(0, |row| row.deadline_ms),
    });
    Ok(())
}

/// Has the index and the order follow a session's deadline, which was `old`, and lists the session if it is not listed yet.
pub(super) fn move_deadline<V: View>(
    call: &mut Call<'_, V>,
    session_id: &Bytes,
    row: &mut SessionRow,
    old: Option<u64>,
) -> Result<(), Fault> {
    let (space, new) = (call.space, row.deadline_ms);
    if old == Some(new) {
        return Ok(());
    }
    if let Ok(principal) = principal_path(&row.principal)
        && call.is_mended()?
    {
        let order = space.session_order(&principal, new, session_id);
        count(call.batch, space, &principal, (1, &order))?;
        if let Some(old) = old.filter(|_| row.listed) {
            let order = space.session_order(&principal, old, session_id);
            count(call.batch, space, &principal, (-1, &order))?;
            call.batch.delete(order);
        }
        call.batch.put(order, Bytes::new());
        row.listed = true;
    }
    let due = Due::Session(session_id.clone());
    call.batch.move_deadline(space, &due, old, Some(new))
}

/// Takes a session that is to be removed out of the index and the order.
pub(super) fn drop<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    session_id: &Bytes,
    deadline_ms: u64,
) -> Result<(), Fault> {
    let row = batch.session(&space.session(session_id))?;
    if let Some(row) = row.filter(|row| row.listed)
        && let Ok(principal) = principal_path(&row.principal)
    {
        let order = space.session_order(&principal, row.deadline_ms, session_id);
        count(batch, space, &principal, (-1, &order))?;
        batch.delete(order);
    }
    batch.delete_deadline(space, deadline_ms, &Due::Session(session_id.clone()));
    Ok(())
}

/// What a listed session adds to its tenant's usage, and to its principal's.
pub(crate) const TENANTS: Delta = Delta {
    rows: 0,
    bytes: SESSION_BYTES.cast_signed(),
};
/// See [`TENANTS`].
pub(crate) const OWN: Delta = Delta { rows: 1, bytes: 0 };

/// Counts a row of the order that comes (1) or goes (-1).
fn count<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    principal: &[u8],
    (change, order): (i64, &Bytes),
) -> Result<(), Fault> {
    let of = |delta: Delta| Delta {
        rows: delta.rows * change,
        bytes: delta.bytes * change,
    };
    let key = || order.clone();
    batch.count(space, Counter::Principal(principal), of(OWN), key)?;
    batch.count(space, Counter::Tenant, of(TENANTS), key)
}
