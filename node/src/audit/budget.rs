//! What the files may take within the time for which they are kept: a tenant that would write more has its calls counted in one line a
//! period, so that no other tenant's history is thrown away for it.
//!
//! Half of the budget may be written at once, and it decays by as much again within the time: so in no such time more is written than
//! the budget. Of that half a tenant may have three times what is left free for all others, and a part is kept for operators.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::event::OPERATORS;
use crate::limits::{AUDIT_OPERATORS_PART, AUDIT_SHARE};

/// Bytes that were written, the less the longer ago.
#[derive(Debug, Clone, Copy)]
struct Level {
    bytes: u64,
    at: Instant,
}

/// What all tenants together and each of them wrote.
#[derive(Debug)]
pub(super) struct Budget {
    /// What may be written at once.
    bytes: u64,
    /// How long files are kept; zero: nothing is bounded.
    kept_for: Duration,
    all: Level,
    tenants: BTreeMap<String, Level>,
}

impl Level {
    fn decay(&mut self, kept_for: Duration, now: Instant) {
        let passed_ms = now.saturating_duration_since(self.at).as_millis();
        let gone = u128::from(self.bytes) * passed_ms / kept_for.as_millis().max(1);
        // What is less than a byte counts later.
        if gone > 0 {
            let gone = u64::try_from(gone).unwrap_or(u64::MAX);
            self.bytes = self.bytes.saturating_sub(gone);
            self.at = now;
        }
    }
}

impl Budget {
    /// For files of this many bytes that are kept this long, and hold this many bytes now.
    pub(super) fn new(bytes: u64, kept_for: Duration, written: u64, now: Instant) -> Self {
        let bytes = bytes / 2;
        Self {
            bytes,
            kept_for,
            all: Level {
                bytes: written.min(bytes),
                at: now,
            },
            tenants: BTreeMap::new(),
        }
    }

    /// Whether a tenant's line of this many bytes has room; then it is counted.
    pub(super) fn admits(&mut self, tenant: &str, bytes: u64, now: Instant) -> bool {
        if self.kept_for.is_zero() {
            return true;
        }
        self.all.decay(self.kept_for, now);
        let new = Level { bytes: 0, at: now };
        let mut own = self.tenants.get(tenant).copied().unwrap_or(new);
        own.decay(self.kept_for, now);
        let kept = match tenant {
            OPERATORS => 0,
            _ => self.bytes / AUDIT_OPERATORS_PART as u64,
        };
        let free = self.bytes.saturating_sub(self.all.bytes + kept);
        let has_room = own.bytes.saturating_add(bytes) <= free.saturating_mul(AUDIT_SHARE);
        if has_room {
            self.all.bytes = self.all.bytes.saturating_add(bytes);
            own.bytes = own.bytes.saturating_add(bytes);
            self.tenants.insert(tenant.to_owned(), own);
        }
        has_room
    }

    /// Counts bytes that are written in any case.
    pub(super) fn add(&mut self, bytes: u64) {
        self.all.bytes = self.all.bytes.saturating_add(bytes);
    }

    /// Forgets tenants that wrote nothing for long.
    pub(super) fn forget(&mut self, now: Instant) {
        let kept_for = self.kept_for;
        self.tenants.retain(|_, level| {
            level.decay(kept_for, now);
            level.bytes > 0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    #[test]
    fn a_tenant_that_floods_leaves_others_their_lines_and_keeps_within_the_budget() {
        const BUDGET: u64 = 2_000_000;
        let start = Instant::now();
        let mut budget = Budget::new(BUDGET, DAY, 0, start);
        let mut floods = Vec::new();
        for second in 0..3 * DAY.as_secs() {
            let now = start + Duration::from_secs(second);
            let lines = (0..3).filter(|_| budget.admits("mallory", 400, now));
            floods.push(lines.count() as u64 * 400);
            if second % 600 == 0 {
                assert!(budget.admits("ann", 400, now), "at {second} s");
            }
        }
        let day = usize::try_from(DAY.as_secs()).unwrap();
        for from in (0..2 * day).step_by(3_600) {
            let written: u64 = floods[from..from + day].iter().sum();
            assert!(written < BUDGET, "{written} within a day");
            assert!(written > BUDGET / 4, "{written} within a day");
        }
        budget.forget(start + 4 * DAY);
        assert!(budget.tenants.is_empty());
    }

    #[test]
    fn tenants_together_leave_operators_their_lines() {
        let now = Instant::now();
        let mut budget = Budget::new(2_000_000, DAY, 0, now);
        for tenant in 0..100 {
            while budget.admits(&tenant.to_string(), 400, now) {}
        }
        let lines = (0..100).filter(|_| budget.admits(OPERATORS, 400, now));
        assert_eq!(lines.count(), 100);
    }
}
