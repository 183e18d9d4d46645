//! How many of the last events had a property: an average that moves with each round of them.

use std::sync::atomic::{AtomicU32, Ordering};

/// The share that is reported.
const ALL: u32 = 1 << 16;
/// One over the weight of a round.
const ROUNDS: u32 = 8;

/// A share, of the last rounds. Several may note at once: what one loses the next makes up for.
#[derive(Debug)]
pub(crate) struct RecentRatio(AtomicU32);

impl RecentRatio {
    pub(crate) const fn all() -> Self {
        Self(AtomicU32::new(ALL))
    }

    pub(crate) const fn none() -> Self {
        Self(AtomicU32::new(0))
    }

    /// How many of a round's had it.
    pub(crate) fn note(&self, had: usize, round: usize) {
        let Some(share) = (had.min(round) * ALL as usize).checked_div(round) else {
            return;
        };
        let before = self.0.load(Ordering::Relaxed);
        let share = u32::try_from(share).unwrap_or(ALL);
        self.0
            .store(before - before / ROUNDS + share / ROUNDS, Ordering::Relaxed);
    }

    pub(crate) fn is_at_least_half(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= ALL / 2
    }

    /// Of how many one has it, at most: a small number if nearly all have.
    pub(crate) fn one_in(&self) -> usize {
        (ALL / self.0.load(Ordering::Relaxed).max(1)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_follows_what_is_noted_and_an_empty_round_changes_nothing() {
        let share = RecentRatio::none();
        share.note(1, 0);
        assert_eq!(share.one_in(), ALL as usize);
        for _ in 0..100 {
            share.note(4, 16);
        }
        assert_eq!(share.one_in(), 4);
        for _ in 0..100 {
            share.note(20, 16);
        }
        assert!(share.is_at_least_half());
        assert_eq!(share.one_in(), 1);
        for _ in 0..100 {
            share.note(0, 16);
        }
        assert!(share.one_in() > 1000, "{}", share.one_in());
    }
}
