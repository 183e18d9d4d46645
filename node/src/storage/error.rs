//! What can go wrong with a node's storage.

use std::{io, path::Path, path::PathBuf};

/// Storage failed, or holds what this node must not start from. None of it is repaired in passing: the node stops and says why.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The engine failed or refused.
    #[error("cannot {action}: {source}")]
    Engine {
        /// What was attempted.
        action: &'static str,
        /// The engine's word.
        source: rocksdb::Error,
    },
    /// The file system failed or refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The operating system's word.
        source: io::Error,
    },
    /// A record is damaged.
    #[error(
        "{what} is damaged: {detail}; while a majority of the cluster is whole without this node, replace it: stop it, and start it with \
         an empty --data-dir; if other nodes say the same, or no majority is left, keep the data directory of every node, replace none, \
         and see `helve recover --help`; please report it"
    )]
    Damaged {
        /// Which record.
        what: String,
        /// What is wrong with it.
        detail: String,
    },
    /// What is stored passes its checksum and cannot be understood. What wrote it is the same on every node.
    #[error(
        "{what} cannot be read: {detail}; if the other nodes say the same, keep the data directory of every node, replace none, \
         and start a version of helve that can read it; if this node alone says so, replace this node; please report it"
    )]
    Unreadable {
        /// Which record or entry.
        what: String,
        /// What is wrong with it.
        detail: String,
    },
    /// What does not fit the disk key, although only what does was ever written.
    #[error(
        "{0} of this node does not fit its disk key: somebody changed the disk while the node was stopped, or put it together from \
         several copies, or a version without disk keys wrote it; while a majority of the cluster is whole without this node, replace \
         it: stop it, keep its directory for those who look into this, and start it with an empty --data-dir; if no majority is left, \
         restore a whole copy of a data directory from before"
    )]
    Changed(String),
    /// The log or the vote lost something that was acknowledged as durable.
    #[error(
        "the log was synced up to {synced} and now ends at {found}: this node must not vote or vouch again; while a majority of the cluster is whole \
         without this node, replace it: stop it, and start it with an empty --data-dir; if no majority is left, keep the data directory of \
         every node, and see `helve recover --help`"
    )]
    BelowSynced {
        /// What the mark says.
        synced: String,
        /// What is there.
        found: String,
    },
    /// A leader asks this node to drop committed entries.
    #[error(
        "the leader lacks committed entries of this node, from {end} to {kept}: it was elected by nodes whose disks were put back to an \
         older state or lost. This node keeps its data and stops: stop the others, and make a new cluster of this node with \
         `helve recover`; only if what they hold is to be kept instead, start this node with an empty --data-dir"
    )]
    Diverged {
        /// The first entry that the leader would have removed.
        end: u64,
        /// The last entry that is known to be committed.
        kept: u64,
    },
    /// Written by a newer build.
    #[error(
        "{what} has format {found}, newer than {known}, the newest that this build reads: upgrade this node"
    )]
    NewerFormat {
        /// Which file or database.
        what: &'static str,
        /// Its format.
        found: u32,
        /// The newest format known here.
        known: u32,
    },
    /// A snapshot that cannot be taken over. The state is as it was.
    #[error("snapshot refused: {0}")]
    Snapshot(String),
    /// The block cache does not hold what a view of the cache alone was asked for. Read from a view that may wait for the disk.
    #[error("not in the block cache")]
    NotCached,
    /// The log writer has stopped.
    #[error("the log writer has stopped")]
    Stopped,
}

impl StorageError {
    pub(super) fn engine(action: &'static str) -> impl FnOnce(rocksdb::Error) -> Self {
        move |source| Self::Engine { action, source }
    }

    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn damaged(what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Damaged {
            what: what.into(),
            detail: detail.into(),
        }
    }
}

impl StorageError {
    /// Whether the disk or the operating system failed, and not what is stored, nor this user's
    /// rights to it.
    #[must_use]
    pub fn is_of_disk(&self) -> bool {
        match self {
            Self::Io { source, .. } => !matches!(
                source.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
            ),
            Self::Engine { source, .. } => source.kind() == rocksdb::ErrorKind::IOError,
            _ => false,
        }
    }

    pub(crate) fn unreadable(what: impl Into<String>, error: &dyn std::error::Error) -> Self {
        Self::not_understood(what, chain(error))
    }

    /// What passes its checksum, and makes no sense.
    pub(crate) fn not_understood(what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Unreadable {
            what: what.into(),
            detail: detail.into(),
        }
    }
}

/// An error and its causes, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let texts: Vec<String> = causes.map(ToString::to_string).collect();
    texts.join(": ")
}

impl From<StorageError> for io::Error {
    fn from(error: StorageError) -> Self {
        Self::other(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fault that all replicas share must not make operators empty one directory after the other.
    #[test]
    fn a_directory_is_emptied_only_under_a_condition_that_is_said() {
        let below = StorageError::BelowSynced {
            synced: "entry 9".to_owned(),
            found: "entry 7".to_owned(),
        };
        let unreadable = StorageError::not_understood("entry 3", "it carries nothing");
        let changed = StorageError::Changed("log entry 3".to_owned());
        let diverged = StorageError::Diverged { end: 3, kept: 5 };
        for error in [
            StorageError::damaged("entry 3", "missing"),
            below,
            changed,
            unreadable,
            diverged,
        ] {
            let said = error.to_string();
            let condition = [
                "while a majority of the cluster is whole",
                "if this node alone",
                "only if",
            ];
            let advice = ["empty --data-dir", "replace this node", "replace it"];
            let first = |words: &[&str]| words.iter().filter_map(|words| said.find(words)).min();
            let is_conditional = match (first(&condition), first(&advice)) {
                (Some(condition), Some(advice)) => condition < advice,
                _ => false,
            };
            assert!(is_conditional, "{said}");
            assert!(!said.contains("remove"), "{said}");
        }
    }
}
