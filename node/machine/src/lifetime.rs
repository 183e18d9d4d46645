//! How long a record lives.

use helve_proto::{
    command::v1::{RecordRow, Refusal},
    v1::{Lifetime, lifetime::Absolute},
};

use crate::{
    context::Stop,
    planted::{self, Plant},
};

/// Sets a row's lifetime as a write at this time asks. `present` is the live row that the write replaces.
pub(crate) fn set(
    row: &mut RecordRow,
    lifetime: Option<&Lifetime>,
    present: Option<&RecordRow>,
    clock_ms: u64,
) -> Result<(), Stop> {
    let too_far = || Stop::refused(Refusal::BadLifetime);
    let absolute = lifetime.and_then(|lifetime| lifetime.absolute);
    let asked_idle_ms = lifetime.and_then(|lifetime| lifetime.idle_ttl_ms);
    let mut kept_idle_ms = None;
    row.expires_at_ms = match absolute {
        None | Some(Absolute::Default(_) | Absolute::Never(_)) => None,
        Some(Absolute::AfterMs(0)) => return Err(too_far()),
        Some(Absolute::AfterMs(ttl_ms)) if planted::is(Plant::EarlyExpiry) => {
            Some(clock_ms.checked_add(ttl_ms / 2).ok_or_else(too_far)?)
        }
        Some(Absolute::AfterMs(ttl_ms)) => Some(clock_ms.checked_add(ttl_ms).ok_or_else(too_far)?),
        Some(Absolute::Keep(_)) => {
            kept_idle_ms = present.and_then(|row| row.idle_ttl_ms);
            present.and_then(|row| row.expires_at_ms)
        }
    };
    row.idle_ttl_ms = asked_idle_ms.or(kept_idle_ms);
    row.idle_deadline_ms = match row.idle_ttl_ms {
        None => None,
        Some(0) => return Err(too_far()),
        Some(ttl_ms) => Some(idle_deadline(clock_ms, ttl_ms).ok_or_else(too_far)?),
    };
    Ok(())
}

/// When a record that is renewed now expires unless it is renewed again: 1.1 idle times from now, so that a get has to commit a
/// renewal only once a tenth has gone. The tenth is at least one millisecond: right after a renewal, more than one idle time is
/// left.
pub(crate) fn idle_deadline(clock_ms: u64, idle_ttl_ms: u64) -> Option<u64> {
    clock_ms
        .checked_add(idle_ttl_ms)?
        .checked_add(idle_ttl_ms.div_ceil(10))
}

/// At and after it the record is expired; `None`: never.
pub(crate) fn deadline(row: &RecordRow) -> Option<u64> {
    match (row.expires_at_ms, row.idle_deadline_ms) {
        (Some(absolute_ms), Some(idle_ms)) => Some(absolute_ms.min(idle_ms)),
        (absolute_ms, idle_ms) => absolute_ms.or(idle_ms),
    }
}

/// The deadline, if it has come.
pub(crate) fn expired_at(row: &RecordRow, clock_ms: u64) -> Option<u64> {
    let has_come = |deadline_ms: &u64| *deadline_ms <= clock_ms;
    deadline(row).filter(|deadline_ms| has_come(deadline_ms) && !planted::is(Plant::ServeExpired))
}

/// Whether a read at this time has to commit a renewal first: at most one idle time is left, and renewing would help.
pub(crate) fn needs_renewal(row: &RecordRow, stamp_ms: u64) -> bool {
    let (Some(ttl_ms), Some(idle_ms)) = (row.idle_ttl_ms, row.idle_deadline_ms) else {
        return false;
    };
    let ends_anyway = row
        .expires_at_ms
        .is_some_and(|absolute_ms| absolute_ms <= idle_ms);
    !ends_anyway && idle_ms.saturating_sub(stamp_ms) <= ttl_ms
}
