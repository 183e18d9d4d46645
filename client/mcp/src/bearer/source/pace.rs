//! How often keys are read again, and for how long they are used otherwise.

use std::time::Duration;

/// Between two looks at a file. A key that was taken out of it works for no longer than that and
/// the time that reading takes.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a set is used at least: a server that says "always ask" is not asked all the time.
const FRESH_MIN: Duration = Duration::from_secs(60);
/// How long a set is used at most, whatever it says: until then a withdrawn key works.
const FRESH_MAX: Duration = Duration::from_secs(900);
/// Between two attempts to fetch a set, whatever the reason: tokens that name unknown keys, which
/// anybody can send, cause no more than this.
const FETCH_PAUSE: Duration = Duration::from_secs(30);
/// How long keys are used that cannot be read again. After it no token holds under them.
pub const KEYS_KEPT_MAX: Duration = Duration::from_secs(3600);
/// How often keys are read again, and how long they are used otherwise. Tests lower it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    pub(super) look_every: Duration,
    pub(super) fetch_pause: Duration,
    pub(super) kept_max: Duration,
    /// Bounds on how long a set is fresh.
    pub(super) fresh: (Duration, Duration),
}

impl Pace {
    pub(super) const USUAL: Self = Self {
        look_every: LOOK_EVERY,
        fetch_pause: FETCH_PAUSE,
        kept_max: KEYS_KEPT_MAX,
        fresh: (FRESH_MIN, FRESH_MAX),
    };
}
