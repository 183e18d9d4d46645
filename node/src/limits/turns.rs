//! Bounds of the turns that tenants take where commands wait.

/// Where commands wait to be proposed or forwarded, tenants take turns of this many bytes. A larger command takes several turns.
pub const TURN_BYTES: usize = 64 << 10;

/// What a command weighs in turns and batches, beside its bytes: a small one has its price in each stage, too.
pub const COMMAND_WEIGHT_BYTES: usize = 512;

/// Bytes of commands that a leader puts together into one batch; a single larger one goes alone.
pub const EXECUTE_BYTES_MAX: usize = 4 << 20;
