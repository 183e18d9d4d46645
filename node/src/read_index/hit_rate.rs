//! Share of recent reads served from the block cache. Where it is nearly none, looking there first
//! costs more than it saves.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::storage::recent_ratio::RecentRatio;

/// How many rounds go past memory before one tries it again.
const TRIED_EVERY: u32 = 32;

/// Of the last rounds.
#[derive(Debug)]
pub(super) struct HitRate {
    hits: RecentRatio,
    past: AtomicU32,
}

impl Default for HitRate {
    fn default() -> Self {
        Self {
            hits: RecentRatio::all(),
            past: AtomicU32::new(0),
        }
    }
}

impl HitRate {
    /// Whether the next round should try memory.
    pub(super) fn is_worth_trying(&self) -> bool {
        self.hits.is_at_least_half()
            || self
                .past
                .fetch_add(1, Ordering::Relaxed)
                .is_multiple_of(TRIED_EVERY)
    }

    /// How many of a round's reads memory was enough for.
    pub(super) fn note(&self, hits: usize, reads: usize) {
        self.hits.note(hits, reads);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In how many of this many rounds memory was tried.
    fn tried(rate: &HitRate, rounds: u32, hits: usize) -> u32 {
        let mut tried = 0;
        for _ in 0..rounds {
            if rate.is_worth_trying() {
                rate.note(hits, 10);
                tried += 1;
            }
        }
        tried
    }

    #[test]
    fn memory_is_tried_as_long_as_it_is_enough_and_again_once_it_is() {
        let rate = HitRate::default();
        assert_eq!(tried(&rate, 1000, 10), 1000);
        let few = tried(&rate, 1000, 1);
        assert!((1..=50).contains(&few), "{few}");
        let again = tried(&rate, 1000, 10);
        assert!((700..1000).contains(&again), "{again}");
    }
}
