//! Bounds of the client. Those that stores and state tools outside this crate share with it are public.

use std::time::Duration;

/// How long a call may take, retries included, unless the caller sets a deadline.
pub const DEADLINE: Duration = Duration::from_secs(5);
/// The longest deadline of a call: longer ones are cut to it, since they might not fit an
/// [`Instant`](tokio::time::Instant).
pub const DEADLINE_MAX: Duration = Duration::from_secs(24 * 3600);
/// Bytes of a whole list, as encoded; for a state tool on another store, bytes of the values.
pub const LIST_BYTES_MAX: usize = 256 << 20;
/// Bytes of changes that a host in this process keeps for watches.
#[cfg(feature = "memory")]
pub(crate) const WATCH_WINDOW_BYTES: usize = 4 << 20;
/// Changes in one part of a watch of a host in this process.
#[cfg(feature = "memory")]
pub(crate) const WATCH_PART_CHANGES_MAX: usize = 256;
