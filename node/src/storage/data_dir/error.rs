//! Why a node does not start from a data directory.

use std::{io, path::PathBuf};

use super::{super::durable_file::parent_of, FORMAT, IDENTITY_NAME};

/// Why a node does not start from a directory. The messages are for the operator who started it.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// Neither it nor the directory that it would be created in exists.
    #[error("--data-dir {}: {} does not exist; create it, or correct the path", .0.display(), parent_of(.0).display())]
    Missing(PathBuf),
    /// It cannot be written.
    #[error("--data-dir {}: it cannot be written: this user may not, or its file system is read-only; grant it, or choose another directory", .0.display())]
    ReadOnly(PathBuf),
    /// A file is there, or where a directory above it should be.
    #[error("--data-dir {}: it is a file, or lies in one; name a directory", .0.display())]
    NotADirectory(PathBuf),
    /// A symbolic link that leads nowhere.
    #[error("--data-dir {}: it is a link to a directory that does not exist; create that, mount its disk, or remove the link", .0.display())]
    Dangling(PathBuf),
    /// Another process runs on it.
    #[error("--data-dir {}: process {pid} is running on it; stop that one, or give this node a directory of its own", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The other process, as far as it can be told.
        pid: String,
    },
    /// It belongs to a node of another seat.
    #[error("--data-dir {}: it belongs to seat {found}, and this node was started as seat {wanted}; correct --id or --data-dir", path.display())]
    OtherSeat {
        /// The directory.
        path: PathBuf,
        /// Its seat.
        found: u64,
        /// The seat asked for.
        wanted: u64,
    },
    /// It belongs to a node of another cluster.
    #[error("--data-dir {}: it belongs to cluster {found}, and the peers to {wanted}; correct --peers, or give this node an empty --data-dir", path.display())]
    OtherCluster {
        /// The directory.
        path: PathBuf,
        /// Its cluster.
        found: String,
        /// The peers' cluster.
        wanted: String,
    },
    /// A newer build wrote it.
    #[error("--data-dir {}: a newer version wrote it (format {found}, this one reads up to {FORMAT}); start that version", path.display())]
    NewerFormat {
        /// The directory.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// No node has kept data in it.
    #[error("--data-dir {}: no Helve node has kept data there; name the directory of the node that survived", .0.display())]
    NoNode(PathBuf),
    /// A recovery was cut short.
    #[error("--data-dir {}: a recovery of this node was cut short; run `helve recover --data-dir {} --from-survivor` again", .0.display(), .0.display())]
    Recovering(PathBuf),
    /// A restore was cut short.
    #[error("--data-dir {}: a restore into it was cut short; empty it, and run `helve restore` again", .0.display())]
    Restoring(PathBuf),
    /// A backup is restored into an empty directory alone.
    #[error("--data-dir {}: it is not empty; choose an empty or a new directory, or empty this one if nothing in it is needed", .0.display())]
    NotEmpty(PathBuf),
    /// It is a directory of something else.
    #[error("--data-dir {}: it is not empty, and no Helve node wrote it; choose an empty or a new directory", .0.display())]
    NotOurs(PathBuf),
    /// The identity cannot be understood.
    #[error("--data-dir {}: {IDENTITY_NAME} is damaged ({detail}); restore it from a copy, or let this node join again with an empty --data-dir", path.display())]
    Damaged {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// The file system failed.
    #[error("--data-dir {}: {source}; see to the disk", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The operating system's word.
        source: io::Error,
    },
}
