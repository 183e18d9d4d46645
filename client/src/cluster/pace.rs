//! What the tries of a call may do, and how they follow each other.

use std::time::Duration;

/// Whether a try that had no answer may have changed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It reads, or what it does may be done twice.
    Harmless,
    /// It may have: the call must be repeated under its identity, and if that fails its outcome is ambiguous.
    Lasting,
}

/// How tries follow each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// How long the first try waits for its node; each further one twice as long.
    pub(crate) attempt_timeout: Duration,
    /// The pause before the second try, at most; each further one is twice as long.
    pub(crate) backoff_first: Duration,
    pub(crate) backoff_max: Duration,
    /// How many tries a call has, if time is left.
    pub(crate) tries_max: u32,
}
