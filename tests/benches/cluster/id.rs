//! Chance: ids for products that draw none, as long and as random as those that Helve mints, and turns among what is there.

use std::cell::RefCell;

use data_encoding::BASE32_NOPAD;
use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng};

thread_local! {
    // All products are started anew, so that no id of an earlier run is there.
    static RNG: RefCell<SmallRng> = RefCell::new(SmallRng::seed_from_u64(1));
}

/// 128 random bits, in base32.
pub(crate) fn new_id() -> String {
    BASE32_NOPAD.encode(&RNG.with_borrow_mut(|rng| rng.random::<[u8; 16]>()))
}

/// A number below `end`.
pub(crate) fn below(end: usize) -> usize {
    RNG.with_borrow_mut(|rng| rng.random_range(0..end))
}
