//! One line in the log for many of the same: a flood from outside must not become one of the log.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The same is logged this often at most.
const EVERY: Duration = Duration::from_secs(5);

/// Counts what happened since it was last logged.
#[derive(Debug, Default)]
pub struct Complaint(Mutex<Unspoken>);

#[derive(Debug, Default)]
struct Unspoken {
    spoken: Option<Instant>,
    count: u64,
}

impl Complaint {
    /// Nothing has happened yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(Unspoken {
            spoken: None,
            count: 0,
        }))
    }

    /// Counts one more. Returns how many there are if they are to be logged now, which is every five seconds at most.
    pub fn count(&self, now: Instant) -> Option<u64> {
        let mut unspoken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        unspoken.count += 1;
        if unspoken.spoken.is_some_and(|spoken| now < spoken + EVERY) {
            return None;
        }
        unspoken.spoken = Some(now);
        Some(std::mem::take(&mut unspoken.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_told_in_one_line_that_counts_it() {
        let complaint = Complaint::default();
        let now = Instant::now();
        assert_eq!(complaint.count(now), Some(1));
        assert_eq!(complaint.count(now), None);
        assert_eq!(complaint.count(now + EVERY), Some(2));
    }
}
