//! What the audit log takes up.

use std::time::Duration;

/// Bytes of lines of the audit log that may wait to become durable; over it, calls that should be recorded are refused or lack a line.
pub const AUDIT_QUEUE_BYTES_MAX: usize = 64 << 20;

/// Targets that one event of the audit log names; more are counted. As many as one call may have.
pub const AUDIT_TARGETS_MAX: usize = helve_machine::limits::TRANSACTION_OPERATIONS_MAX;

/// Bytes of the names in one event of the audit log; targets beyond are counted. As many as the names of the largest call.
pub const AUDIT_TARGET_BYTES_MAX: usize = AUDIT_TARGETS_MAX
    * (helve_machine::limits::OWNER_BYTES_MAX + helve_machine::limits::KEY_BYTES_MAX);

/// Bytes of one name in an event of the audit log; a longer one is cut. As many as the longest name that is accepted has.
pub const AUDIT_NAME_BYTES_MAX: usize = helve_machine::limits::KEY_BYTES_MAX;

/// Lines of the audit log that are written together.
pub const AUDIT_BATCH_LINES_MAX: usize = 1_024;

/// How long lines of the audit log are gathered before they are written.
pub const AUDIT_GATHER: Duration = Duration::from_millis(2);

/// The least time between two syncs of the audit log, which share the disk with the log of the cluster.
pub const AUDIT_SYNC_SPACING: Duration = Duration::from_millis(100);

/// How long after a failure the audit log is tried again.
pub const AUDIT_RETRY: Duration = Duration::from_millis(500);

/// How many times what is left free for all others a tenant may take of the audit log's queue, and of what its files may take within
/// the time for which they are kept.
pub const AUDIT_SHARE: u64 = super::PLACES_SHARE as u64;

/// The part of the audit log's queue and files that is kept for operators: one in this many bytes.
pub const AUDIT_OPERATORS_PART: usize = 16;

/// Targets of a line of the audit log, and bytes of them as they are written; the line says how many were left out.
pub const AUDIT_LINE_TARGETS_MAX: usize = 256;
/// See [`AUDIT_LINE_TARGETS_MAX`].
pub const AUDIT_LINE_TARGETS_BYTES_MAX: usize = 256 << 10;

/// How often calls that have no line of their own are told of in one line of each kind.
pub const AUDIT_PERIOD: Duration = Duration::from_secs(60);

/// Calls that were turned away, of one address, caller and reason, that have a line of their own in a period; the others are counted.
pub const AUDIT_DENIED_LINES_MAX: u64 = 16;
/// The same, of a node.
pub const AUDIT_DENIED_LINES_NODE_MAX: u64 = 256;
/// Kinds of calls that are counted by themselves in a period; all others are counted as one kind.
pub const AUDIT_KINDS_MAX: u64 = 256;
/// Targets of the line of a call that was turned away.
pub const AUDIT_DENIED_TARGETS_MAX: usize = 4;
