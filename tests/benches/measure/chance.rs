//! Chance, the same in every run.

use std::cell::RefCell;

use rand::{RngExt, SeedableRng as _, rngs::SmallRng};

thread_local! {
    // Everything is restarted, so that nothing of an earlier run is left.
    static RNG: RefCell<SmallRng> = RefCell::new(SmallRng::seed_from_u64(1));
}

/// Random bytes.
pub(crate) fn bytes<const N: usize>() -> [u8; N] {
    RNG.with_borrow_mut(RngExt::random)
}

/// A number below `end`.
pub(crate) fn below(end: usize) -> usize {
    RNG.with_borrow_mut(|rng| rng.random_range(0..end))
}
