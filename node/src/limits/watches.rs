//! What watches may take up.

use std::time::Duration;

/// Bytes of changes that a node keeps for callers that watch, unless `--watch-window` says otherwise: about a hundred thousand.
pub const WATCH_WINDOW_BYTES: usize = 32 << 20;

/// Changes in one part of a watch.
pub const WATCH_PART_CHANGES_MAX: usize = 256;

/// Bytes of one part of a watch. Its room is taken before it is made.
pub const WATCH_PART_BYTES_MAX: usize = 64 << 10;

/// Of these, for all but the changes: the cluster's name, and the address of the leader.
pub const WATCH_PART_HEAD_BYTES_MAX: usize = 4 << 10;

/// How long a watch without changes goes without a part. Each such part is as new as a read.
pub const WATCH_PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// How long the caller of a watch may read nothing; then it ends with `WATCH_LAPSED` and the revision to go on after.
pub const WATCH_STALL_MAX: Duration = Duration::from_secs(30);

/// The shortest time between two parts, so that a busy log wakes a watch for many changes at once.
pub const WATCH_PART_INTERVAL: Duration = Duration::from_millis(2);
