//! A time that was seen, and how far times are apart.

use std::time::{Duration, Instant};

/// How far, at most, a new leader's stamp may be from the cluster's own estimate of time: a wall further off is not followed.
pub const SKEW_MAX: Duration = Duration::from_secs(10);

pub(super) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// How far the first time is ahead of the second, in milliseconds; negative: behind.
pub(super) fn signed(one_ms: u64, other_ms: u64) -> i64 {
    let distance = i64::try_from(one_ms.abs_diff(other_ms)).unwrap_or(i64::MAX);
    if one_ms >= other_ms {
        distance
    } else {
        -distance
    }
}

/// A time in milliseconds, and when it was true.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sighting {
    pub(super) at: Instant,
    pub(super) time_ms: u64,
}

impl Sighting {
    pub(super) fn extrapolated(self, now: Instant) -> u64 {
        self.time_ms
            .saturating_add(ms(now.saturating_duration_since(self.at)))
    }
}
