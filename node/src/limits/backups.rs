//! What a backup may take up.

use std::time::Duration;

/// Backups that one node sends at once; over it, callers hear OVERLOADED.
pub const BACKUPS_MAX: usize = 1;

/// How long one backup may last, since it keeps files of the state that were compacted meanwhile.
pub const BACKUP_TIME_MAX: Duration = Duration::from_secs(24 * 3_600);

/// How long a node may take to take the snapshot of a backup: the first one reads all files.
pub const BACKUP_SNAPSHOT_TIME_MAX: Duration = Duration::from_secs(2 * 3_600);

/// How long the caller of a backup may read nothing; then it ends.
pub const BACKUP_STALL_MAX: Duration = Duration::from_secs(30);

/// The longest time in which a node that makes a backup says nothing.
pub const BACKUP_SIGN_OF_LIFE: Duration = Duration::from_secs(1);

/// Files that a caller may say it holds; all others are sent again.
pub const BACKUP_HELD_MAX: usize = 100_000;
