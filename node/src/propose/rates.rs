//! How many writes a second each tenant may have proposed.
//!
//! The leader counts, since all writes of a tenant meet there, whichever node they came through: so the quota is the cluster's. A new
//! leader begins with full buckets, which lets a tenant write for a second more.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use helve_machine::quotas;
use tokio::time::Instant;

use crate::{limits::GROUP_ID, storage::state_db::StateDb};

/// How long a quota that was read counts.
const FRESH: Duration = Duration::from_secs(1);

/// The buckets of all tenants that write.
pub(super) struct Rates {
    state: Arc<StateDb>,
    buckets: Mutex<BTreeMap<String, Bucket>>,
}

/// What a tenant may still write now. It holds a second's worth at most.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// Writes a second; 0: no bound.
    quota: u64,
    read_at: Instant,
    filled_at: Instant,
    /// Thousandths of writes: a bucket that is asked often must not lose what is less than one.
    milli: u64,
}

impl Rates {
    /// Quotas as these rows have them.
    pub(super) fn new(state: Arc<StateDb>) -> Self {
        Self {
            state,
            buckets: Mutex::default(),
        }
    }

    /// Whether the tenant may write once more now. Tenants are bounded in number, and so are buckets.
    pub(super) fn admits(&self, tenant: &str, now: Instant) -> bool {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if !buckets.contains_key(tenant) {
            buckets.insert(tenant.to_owned(), Bucket::full(self.quota(tenant, 0), now));
        }
        let Some(bucket) = buckets.get_mut(tenant) else {
            return true;
        };
        if now.duration_since(bucket.read_at) >= FRESH {
            bucket.read_at = now;
            bucket.change(self.quota(tenant, bucket.quota));
        }
        bucket.take(now)
    }

    /// Writes a second; what was known before if memory does not hold the row, since a leader's batch waits for no disk.
    fn quota(&self, tenant: &str, known: u64) -> u64 {
        let read = self
            .state
            .read_cached(|view| quotas(view, GROUP_ID, tenant));
        read.map_or(known, |quotas| quotas.writes_per_second)
    }
}

impl Bucket {
    fn full(quota: u64, now: Instant) -> Self {
        Self {
            quota,
            read_at: now,
            filled_at: now,
            milli: quota.saturating_mul(1000),
        }
    }

    /// A new quota begins with a full bucket.
    fn change(&mut self, quota: u64) {
        if quota != self.quota {
            self.quota = quota;
            self.milli = quota.saturating_mul(1000);
        }
    }

    fn take(&mut self, now: Instant) -> bool {
        if self.quota == 0 {
            return true;
        }
        // A thousandth of the quota for each millisecond, in thousandths.
        let passed = now.duration_since(self.filled_at);
        let passed_ms = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        self.filled_at += Duration::from_millis(passed_ms);
        let full = self.quota.saturating_mul(1000);
        let filled = self
            .milli
            .saturating_add(self.quota.saturating_mul(passed_ms));
        self.milli = filled.min(full);
        match self.milli.checked_sub(1000) {
            Some(rest) => {
                self.milli = rest;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_a_seconds_worth_at_once_and_then_the_quota() {
        let start = Instant::now();
        let mut bucket = Bucket::full(10, start);
        let mut taken = |at_ms| {
            let now = start + Duration::from_millis(at_ms);
            (0..100).filter(|_| bucket.take(now)).count()
        };
        assert_eq!([taken(0), taken(99), taken(100), taken(450)], [10, 0, 1, 3]);
        assert_eq!([taken(500), taken(3_600_000)], [1, 10]);
    }

    #[test]
    fn a_bucket_without_a_quota_never_ends_and_a_new_quota_counts_at_once() {
        let now = Instant::now();
        let mut bucket = Bucket::full(0, now);
        assert!((0..10_000).all(|_| bucket.take(now)));
        bucket.change(2);
        assert_eq!((0..10).filter(|_| bucket.take(now)).count(), 2);
    }
}
