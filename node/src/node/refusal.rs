//! Why a node does not start, or must not go on where it is.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use super::background::Broken;
use crate::{
    apply::Unapplied,
    audit::OpenError,
    config::Refusal,
    membership::{forced::NotForced, misplaced::Misplaced},
    raft::Stopped,
    stamp::EntropyError,
    storage::{data_dir::DataDirError, error::StorageError},
    traces::ExportError,
};

/// Why a node did not start. Nothing was changed that a later start could not go on from.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory cannot be used.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// What the data directory holds cannot be used.
    #[error("--data-dir: {0}")]
    Storage(#[from] StorageError),
    /// The log of a member is gone: what it voted and stored is forgotten.
    #[error(
        "--data-dir {}: it belongs to a member of a cluster, but its log is gone; \
         empty the directory, and the node joins again", .0.display()
    )]
    LogGone(PathBuf),
    /// The audit log cannot be opened.
    #[error(transparent)]
    Audit(#[from] OpenError),
    /// Spans cannot be exported.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// A listed peer belongs to another cluster.
    #[error(
        "--data-dir {}: it belongs to cluster {ours}, but seat {seat} of --peers to {theirs}; \
         correct --peers or choose the directory of that cluster; if that cluster was recovered from a survivor, this node was left \
         behind: empty the directory, and the node joins again", .path.display()
    )]
    OtherCluster {
        /// The data directory.
        path: PathBuf,
        /// Its cluster.
        ours: String,
        /// The peer's seat.
        seat: u64,
        /// The peer's cluster.
        theirs: String,
    },
    /// The cluster uses what this version does not know.
    #[error(
        "--data-dir {}: its cluster is at feature level {needed}, and this version of helve ({version}) supports {supported}; \
         start the version that ran here last, or a newer one: a cluster's level is never lowered", .path.display(),
        version = env!("CARGO_PKG_VERSION")
    )]
    TooOld {
        /// The data directory.
        path: PathBuf,
        /// The cluster's level.
        needed: u32,
        /// The newest that this version supports.
        supported: u32,
    },
    /// `--force-bootstrap` must not make an empty cluster here.
    #[error(transparent)]
    NotForced(#[from] NotForced),
    /// What the flags ask for does not fit what the rows hold: keys that do not open them, or no tokens although there are some.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A port cannot be had.
    #[error("{flag} {address}: {error}; {}", next_port(error))]
    Listen {
        /// The flag that asked for it.
        flag: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the operating system said.
        error: io::Error,
    },
    /// The operating system refused a thread or a file.
    #[error("the operating system refused: {0}")]
    Io(#[from] io::Error),
    /// The operating system gave no entropy.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// A port could not be served any more while the node waited for its peers.
    #[error(transparent)]
    Broken(#[from] Broken),
    /// An entry of the log cannot be applied.
    #[error("--data-dir: {0}")]
    Unapplied(#[from] Unapplied),
    /// Consensus could not start from what the data directory holds.
    #[error("--data-dir: {0}")]
    Consensus(#[from] Stopped),
}

impl StartError {
    /// What is wrong with the place of the node that keeps its data here.
    pub(super) fn misplaced(path: &Path, misplaced: Misplaced) -> Self {
        let path = path.to_owned();
        match misplaced {
            Misplaced::OtherCluster { ours, seat, theirs } => Self::OtherCluster {
                path,
                ours,
                seat,
                theirs,
            },
            Misplaced::TooOld { needed, supported } => Self::TooOld {
                path,
                needed,
                supported,
            },
        }
    }
}

/// What to do about a port that cannot be had.
fn next_port(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "choose a port from 1024 on, or give this user the right to listen on lower ones"
        }
        io::ErrorKind::AddrNotAvailable => "give an address of this machine",
        _ => "stop what uses the port, or choose another one",
    }
}
