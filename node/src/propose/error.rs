//! Why a command has no outcome.

use std::sync::Arc;

use crate::stamp;

/// Why a command has no outcome.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ProposeError {
    /// No leader within the deadline. Nothing happened.
    #[error("no leader within the deadline: check that a majority of the nodes runs and can talk")]
    NoLeader,
    /// Too many commands are under way, for the bound of this name. Nothing happened.
    #[error("too many writes are under way ({0}): retry after a pause")]
    Overloaded(&'static str),
    /// The disk is below its reserve. Nothing happened.
    #[error(
        "the disk is below its reserve: free space or delete handles; deletes and takes still work"
    )]
    DiskFull,
    /// The tenant writes more in this second than its quota allows. Nothing happened.
    #[error("the tenant's quota of writes a second is used up: retry after a pause")]
    WriteRate,
    /// The node is stopping. Nothing happened.
    #[error("this node is stopping: use another one")]
    Stopping,
    /// The leader cannot write its audit log, which must have a line of it. Nothing happened.
    #[error(
        "the leader cannot write its audit log: make room for it, or hand over with `helve leader transfer`"
    )]
    Unrecorded,
    /// The outcome is not known.
    #[error("the outcome is not known: retry under the same identity ({0})")]
    Unknown(String),
    /// Entropy failed, so the node could not open a replay session of its own. Nothing happened.
    #[error(transparent)]
    Entropy(#[from] Arc<stamp::EntropyError>),
}
