//! One line in the log for many of the same: a flood from outside must not become one of the log.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The same is logged this often at most.
const EVERY: Duration = Duration::from_secs(5);

/// Counts what happened since it was last logged.
#[derive(Debug, Default)]
pub struct LogThrottle(Mutex<Unlogged>);

#[derive(Debug, Default)]
struct Unlogged {
    logged_at: Option<Instant>,
    count: u64,
}

impl LogThrottle {
    /// Nothing has happened yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(Unlogged {
            logged_at: None,
            count: 0,
        }))
    }

    /// Counts one more. Returns how many there are if they are to be logged now, which is every five seconds at most.
    pub fn count(&self, now: Instant) -> Option<u64> {
        let mut unlogged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        unlogged.count += 1;
        if unlogged
            .logged_at
            .is_some_and(|logged_at| now < logged_at + EVERY)
        {
            return None;
        }
        unlogged.logged_at = Some(now);
        Some(std::mem::take(&mut unlogged.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_told_in_one_line_that_counts_it() {
        let log_throttle = LogThrottle::default();
        let now = Instant::now();
        assert_eq!(log_throttle.count(now), Some(1));
        assert_eq!(log_throttle.count(now), None);
        assert_eq!(log_throttle.count(now + EVERY), Some(2));
    }
}
