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

/// How long files without a manifest are kept when a backup is deleted: the next backup goes on with
/// what an interrupted one brought.
pub const BACKUP_UNFINISHED_MIN: Duration = BACKUP_TIME_MAX;

/// How long a backup to a bucket may last, with its end behind the node's part.
pub const BUCKET_BACKUP_MAX: Duration = Duration::from_secs(25 * 3_600);

/// How long the mark of a backup in a bucket keeps others from deleting there. It is longer than a
/// backup lasts by more than clocks differ: S3 refuses those that are 15 minutes off.
pub const BUCKET_BACKUP_MARK_MAX: Duration = Duration::from_secs(26 * 3_600);

/// How long a deletion in a bucket may last.
pub const BUCKET_DELETE_MAX: Duration = Duration::from_secs(3_600);

/// How long the mark of a deletion in a bucket keeps others from writing there, for the same reason.
pub const BUCKET_DELETE_MARK_MAX: Duration = Duration::from_secs(2 * 3_600);

/// How long a store may take for one attempt at a request: 5 MiB of a part within.
pub const BUCKET_ATTEMPT_MAX: Duration = Duration::from_secs(12);

/// How long a store may take for a request with all its attempts: less than [`BACKUP_STALL_MAX`], so
/// that the store is blamed, and not the caller.
pub const BUCKET_CALL_MAX: Duration = Duration::from_secs(25);

/// Attempts at a request behind the first one.
pub const BUCKET_RETRIES_MAX: usize = 3;

/// Bytes of a part of a file, and so what a backup to a bucket holds in memory: the least that S3
/// takes. Files of more than [`BUCKET_PARTS_MAX`] such parts have larger ones.
pub const BUCKET_PART_BYTES: usize = 5 << 20;

/// Parts of a file: the most that S3 takes.
pub const BUCKET_PARTS_MAX: u64 = 10_000;

/// Objects that a command lists; a place with more is refused.
pub const BUCKET_OBJECTS_MAX: usize = 1_000_000;

/// Bytes of manifests that a command holds when it reads all of a place; one with more is refused.
pub const BUCKET_MANIFESTS_BYTES_MAX: u64 = 512 << 20;

/// Bytes of a store's answer that is held whole, such as a page of a listing: 1,000 keys at most.
/// What is in an object is handed on piece by piece.
pub const BUCKET_ANSWER_BYTES_MAX: usize = 8 << 20;

/// Bytes of entries after which a segment of the archived log is closed. Until then it is in memory.
pub const SEGMENT_BYTES: usize = 16 << 20;

/// Bytes of a segment that are read at once: a larger object is none. The last message may begin just
/// below [`SEGMENT_BYTES`].
pub const SEGMENT_FILE_BYTES_MAX: u64 = 32 << 20;
