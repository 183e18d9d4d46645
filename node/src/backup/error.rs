//! Why a backup is not made, or cannot be used.

use std::{io, path::PathBuf};

use super::{FORMAT, store_error::StoreError};
use crate::stamp::EntropyError;

/// Why a backup is not made, or cannot be used. The messages are for the operator who runs the
/// command.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The file system failed or refused.
    #[error("cannot {action} {}: {source}{}", path.display(), advice(source))]
    Io {
        /// What was attempted.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The operating system's word.
        source: io::Error,
    },
    /// Another process writes a backup there.
    #[error("{}: another `helve backup` writes there; wait until it has ended", .0.display())]
    InUse(PathBuf),
    /// It holds something else.
    #[error("{}: it is not empty, and holds no backups; name an empty or a new directory", .0.display())]
    NotOurs(PathBuf),
    /// There is no backup.
    #[error("{}: it holds no backup; name the directory that `helve backup` wrote to", .0.display())]
    Nothing(PathBuf),
    /// There is no such backup.
    #[error("{}: there is no backup {}; `helve backup list {}` shows those that are there", path.display(), id.escape_debug(), path.display())]
    NoSuch {
        /// Where.
        path: PathBuf,
        /// Which was asked for.
        id: String,
    },
    /// A file is missing, or is not what was written.
    #[error("{} is damaged: {detail}; use another backup (--backup ID), or a copy of this directory", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// A newer version made it.
    #[error(
        "the backup was made by version {version} in format {found}, and this version reads up to format {FORMAT}: use version {version} or a newer one"
    )]
    NewerFormat {
        /// The version that made it.
        version: String,
        /// Its format.
        found: u32,
    },
    /// Keys are missing.
    #[error(
        "backup {id} takes data key {missing} to restore it, which is not given: name the files of its keys with --data-key-file or --data-keys"
    )]
    KeyMissing {
        /// The backup.
        id: String,
        /// The keys' ids.
        missing: String,
    },
    /// A node without data keys made it, or somebody took its proof off.
    #[error(
        "backup {0} has no proof, so that anybody may have made it: use one that a node with data keys made. If the cluster had none when it \
         was made, restore it without data keys, and start the node with --data-key-migrate"
    )]
    Unproven(String),
    /// It is not as a node with one of the keys made it.
    #[error(
        "backup {0} was changed after a node made it: use another backup (--backup ID), or a copy of this directory"
    )]
    Forged(String),
    /// A manifest that says what none does.
    #[error("the manifest of the backup cannot be used: {0}")]
    Manifest(String),
    /// The node sends something else than it said.
    #[error(
        "the node sent something else than its manifest says: {0}; nothing of it counts, run the command again"
    )]
    Stream(String),
    /// A manifest that a deletion cannot do without cannot be used.
    #[error(
        "{}: nothing was deleted, as the files that backup {} needs are not known: {why}", path.display(), id.escape_debug()
    )]
    Unreadable {
        /// Where.
        path: PathBuf,
        /// The backup whose manifest it is.
        id: String,
        /// What is wrong with it.
        why: String,
    },
    /// A backup of this id is there already, and holds other rows.
    #[error("{}: there is a backup {id} already, of other rows: use another place", path.display())]
    Taken {
        /// Where.
        path: PathBuf,
        /// The id of both.
        id: String,
    },
    /// Another command works in this bucket.
    #[error(
        "{}: another command works there since {minutes} min, by the mark {mark}: wait until it has ended; if it was killed, remove the mark", path.display()
    )]
    Marked {
        /// Where.
        path: PathBuf,
        /// The object that says so.
        mark: String,
        /// Its age.
        minutes: i64,
    },
    /// A backup to a bucket took so long that others may delete there again.
    #[error("{}: the backup took so long that others may have deleted files of it: run the command again", .0.display())]
    TooLong(PathBuf),
    /// The object store failed or refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operating system gave no entropy.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// Files that were kept from earlier backups are damaged. They were removed.
    #[error("files of earlier backups were damaged and are removed, so that they are sent again: {}", names(.0))]
    KeptDamaged(Vec<PathBuf>),
}

impl BackupError {
    pub(super) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }

    pub(super) fn damaged(path: impl Into<PathBuf>, detail: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.into(),
            detail: detail.into(),
        }
    }
}

fn advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free space there and run the command again: files that arrived whole are kept"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; grant it to this user, or name another directory"
        }
        _ => "",
    }
}

fn names(paths: &[PathBuf]) -> String {
    let names = paths.iter().map(|path| path.display().to_string());
    names.collect::<Vec<_>>().join(", ")
}
