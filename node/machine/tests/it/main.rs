//! The machine over rows in memory: stories, properties, and planted bugs.

#![expect(
    clippy::unwrap_used,
    reason = "these are tests; the lint knows test functions alone"
)]

mod host;
mod story;

// A planted bug is seen by the whole process, so with the feature nothing else runs beside it.
#[cfg(feature = "planted")]
mod planted;

#[cfg(not(feature = "planted"))]
mod access;
#[cfg(not(feature = "planted"))]
mod bad_input;
#[cfg(not(feature = "planted"))]
mod bounded;
#[cfg(not(feature = "planted"))]
mod changes;
mod checks;
#[cfg(not(feature = "planted"))]
mod claims;
#[cfg(not(feature = "planted"))]
mod drift;
#[cfg(not(feature = "planted"))]
mod evicted;
#[cfg(not(feature = "planted"))]
mod idle;
#[cfg(not(feature = "planted"))]
mod made_up;
#[cfg(not(feature = "planted"))]
mod mended;
#[cfg(not(feature = "planted"))]
mod over_quota;
#[cfg(not(feature = "planted"))]
mod owners;
#[cfg(not(feature = "planted"))]
mod pages;
#[cfg(not(feature = "planted"))]
mod properties;
#[cfg(not(feature = "planted"))]
mod replay;
#[cfg(not(feature = "planted"))]
mod replayed;
#[cfg(not(feature = "planted"))]
mod room;
#[cfg(not(feature = "planted"))]
#[expect(
    clippy::disallowed_methods,
    reason = "seeds are files, which the machine does not read"
)]
#[path = "../../../../client/src/seeds.rs"]
mod seeds;
#[cfg(not(feature = "planted"))]
mod shares;
#[cfg(not(feature = "planted"))]
mod steps;
#[cfg(not(feature = "planted"))]
mod stories;
#[cfg(not(feature = "planted"))]
mod tombstones;
#[cfg(not(feature = "planted"))]
mod unmade;
