//! Bounds of the turns that tenants take where commands and reads wait, and of what they share there.

/// Where commands wait to be proposed or forwarded, tenants take turns of this many bytes. A larger command takes several turns.
pub const TURN_BYTES: usize = 64 << 10;

/// What a command weighs in turns and batches, beside its bytes: a small one has its price in each stage, too.
pub const COMMAND_WEIGHT_BYTES: usize = 512;

/// Bytes of commands that a leader puts together into one batch; a single larger one goes alone.
pub const EXECUTE_BYTES_MAX: usize = 4 << 20;

/// The tenant under which reads wait that belong to none: the node's own, and those of callers who are not known yet.
pub const NO_TENANT: &str = "";

/// Where a round of ReadIndex has more queries than are asked at once, tenants take turns of this many.
pub const READ_TURN_QUERIES: usize = 16;

/// Batches that a node may have at the leader beside [`PROPOSE_BATCHES_MAX`](super::PROPOSE_BATCHES_MAX), for tenants that have nothing
/// there. Each holds a turn, or one larger command. All batches fit [`FORWARD_QUEUE_MAX`](super::FORWARD_QUEUE_MAX).
pub const PROPOSE_BATCHES_BESIDE_MAX: usize = 8;

/// Messages with commands of one other node that a leader has under way at once. More than that node has batches, which are in about as
/// many messages: at this bound its tenants would wait for each other.
pub const FORWARDED_MESSAGES_MAX: usize = 16;

/// Threads that may read many rows from the disk at once. The other threads are for reads of few rows.
pub const DISK_READS_LONG_MAX: usize = super::DISK_READS_MAX - 4;

/// How many times what is left free for all others a tenant may have of the places where commands or reads wait.
pub const PLACES_SHARE: usize = 3;
