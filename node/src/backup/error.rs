//! Why a backup is not made, or cannot be used.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::{FORMAT, segment_path::first_of, store_error::StoreError, until::Until};
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
    #[error("{} is damaged: {detail}; {}", path.display(), remedy(path))]
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
    /// Keys were not used for archived entries, or somebody took their proof off.
    #[error(
        "{}: entries of the log have no proof, so that anybody may have written them: restore what is before them, with --to-revision. If the \
         cluster had no data keys then, restore it without data keys, and start the node with --data-key-migrate; or begin with a newer \
         backup (--backup ID), which a node with data keys made", .0.display()
    )]
    UnprovenSegment(PathBuf),
    /// It is not as a node with one of the keys sent it.
    #[error(
        "{} was changed after a node sent it: restore what is before it, with --to-revision, or use a copy of this directory", .0.display()
    )]
    ForgedSegment(PathBuf),
    /// A newer version wrote it.
    #[error(
        "{} was written by version {version} in format {found}, which this version does not read: use version {version} or a newer one", path.display()
    )]
    NewerSegment {
        /// Where.
        path: PathBuf,
        /// The version that wrote it.
        version: String,
        /// Its format.
        found: u32,
    },
    /// Another process archives there.
    #[error("{}: another `helve backup --follow` archives the log there: end it first, or name another place", .0.display())]
    Followed(PathBuf),
    /// Nothing is as old as what is asked for.
    #[error("{}: no backup is as old as {asked}: the oldest one is {oldest}; restore it with --backup alone, or name a later one", path.display())]
    TooEarly {
        /// Where.
        path: PathBuf,
        /// What is asked for.
        asked: Until,
        /// The oldest backup, its revision and time.
        oldest: String,
    },
    /// Nothing is as new as what is asked for.
    #[error(
        "{}: it reaches up to {reaches} behind backup {id}, and not to {asked}: restore that with --backup {id} --to-latest, or name an earlier one", path.display()
    )]
    TooFar {
        /// Where.
        path: PathBuf,
        /// The backup to begin with.
        id: String,
        /// What is asked for.
        asked: Until,
        /// The last revision, and its time.
        reaches: String,
    },
    /// It holds backups of several clusters.
    #[error("{}: it has backups of several clusters that are as old as {asked}: name with --backup the one to begin with, of {}", path.display(), ids.join(", "))]
    SeveralClusters {
        /// Where.
        path: PathBuf,
        /// What is asked for.
        asked: Until,
        /// The newest of each.
        ids: Vec<String>,
    },
    /// A manifest that says what none does.
    #[error("the manifest of the backup cannot be used: {0}")]
    Manifest(String),
    /// The node sends something else than it said.
    #[error(
        "the node sent something else than its manifest says: {0}; nothing of it counts, run the command again"
    )]
    Stream(String),
    /// The node sends another part of the log than was due.
    #[error("the node sent another part of the log than was due: {0}")]
    LogStream(String),
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
    /// A deletion in a bucket was asked to stop, and had deleted nothing.
    #[error(
        "{}: the deletion was stopped before it deleted anything: run the same command again", .0.display()
    )]
    NotBegun(PathBuf),
    /// A deletion in a bucket was asked to stop, and had begun.
    #[error(
        "{}: the deletion was stopped: `helve backup list` shows whether the backup is still there, and the next deletion removes files that \
         are left", .0.display()
    )]
    Stopped(PathBuf),
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

    pub(crate) fn damaged(path: impl Into<PathBuf>, detail: impl Into<String>) -> Self {
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
        io::ErrorKind::NotADirectory => "; name a directory",
        io::ErrorKind::NotFound => "; correct the path, or create the directory above it",
        _ => "",
    }
}

/// What to do about a damaged file: a segment of the archived log is in the way of what is behind
/// it alone.
fn remedy(path: &Path) -> String {
    let Some(first) = first_of(path) else {
        return "use another backup (--backup ID), or a copy of this directory".to_owned();
    };
    let before = first.saturating_sub(1);
    format!(
        "restore what is before it, with --to-revision {before}; or begin behind it, with a newer backup (--backup ID); or use a copy of \
         this directory"
    )
}

fn names(paths: &[PathBuf]) -> String {
    let names = paths.iter().map(|path| path.display().to_string());
    names.collect::<Vec<_>>().join(", ")
}
