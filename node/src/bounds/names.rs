//! The names of bounds that are no owner's budget: the label `bound` of their metrics, and the
//! metadata `bound` of refusals.

/// Replies that callers leave unread.
pub(crate) const UNREAD_ANSWER_BYTES: &str = "unread-answer-bytes";

/// Health watches.
pub(crate) const HEALTH_WATCHES: &str = "health-watches";

/// Changes that are kept for watches.
pub(crate) const WATCH_WINDOW_BYTES: &str = "watch-window-bytes";

/// Backups that a node sends.
pub(crate) const BACKUPS: &str = "backups";

/// Reads of many rows.
pub(crate) const LONG_READS: &str = "long-reads";

/// Reads that wait for a round of the read index.
pub(crate) const ROUND_READS: &str = "round-reads";

/// Reads that wait for the disk.
pub(crate) const DISK_READS: &str = "disk-reads";

/// Commands that wait to be proposed or forwarded.
pub(crate) const QUEUED_COMMANDS: &str = "queued-commands";

/// Entries that wait for the log's disk.
pub(crate) const LOG_QUEUED_BYTES: &str = "log-queued-bytes";

/// Calls of the console.
pub(crate) const CONSOLE_CALLS: &str = "console-calls";

/// Digests of all rows, which have no metric.
pub(crate) const DIGESTS: &str = "digests";

/// Rows that a count looks at, which have no metric.
pub(crate) const COUNT_ROWS: &str = "count-rows";
