//! Why a read has no answer.

use helve_machine::Fault;

use crate::{propose::ProposeError, storage::error::StorageError};

/// Why a read has no answer. A read may always be repeated.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// No leader within the deadline.
    #[error("no leader within the deadline: check that a majority of the nodes runs and can talk")]
    NoLeader,
    /// The leader answered, and this node has not applied in time what it must have.
    #[error("this node lags behind the leader: retry, or use another node")]
    Lagging,
    /// Too many reads are under way, for the bound of this name.
    #[error("too many reads are under way ({0}): retry after a pause")]
    Overloaded(&'static str),
    /// The node is stopping.
    #[error("this node is stopping: use another one")]
    Stopping,
    /// Time had to pass through the log first, and could not.
    #[error(transparent)]
    Propose(#[from] ProposeError),
    /// The values asked for do not fit one reply.
    #[error("the values asked for do not fit one reply: ask for fewer keys at a time")]
    TooLarge,
    /// What is stored cannot be read.
    #[error("this node's rows cannot be read: {0}")]
    Fault(#[from] Fault),
}

pub(super) fn is_not_cached(fault: &Fault) -> bool {
    let Fault::View(source) = fault else {
        return false;
    };
    matches!(
        source.downcast_ref::<StorageError>(),
        Some(StorageError::NotCached)
    )
}
