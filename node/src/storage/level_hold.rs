//! Whether this node holds the cluster at its feature level, by an operator's command: a small file in the data directory.
//!
//! What the cluster goes by is the level that the membership records for the node, which every version understands. The file says
//! which level that is to be after a restart, also if an older version ran in between: that one leaves the file alone.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::{durable_file, error::StorageError};

/// The form of the file that this build writes, and the newest that it reads.
const FORMAT: u32 = 1;
const NAME: &str = "level-hold";

/// What the file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Content {
    format: u32,
    /// The feature level at which this node holds the cluster; 0: it does not.
    level: u32,
    /// Changes of `level` so far.
    revision: u64,
}

/// A hold, as operators see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The feature level at which this node holds the cluster; `None` if it does not.
    pub level: Option<u32>,
    /// Tells this state from earlier and later ones: it grows with every change.
    pub revision: u64,
}

/// Why a hold was not changed. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The caller decided on another state.
    #[error(
        "the hold was changed in between (revision {now}, the call is for {wanted}): look at `helve upgrade status`, and decide again"
    )]
    Raced {
        /// The revision now.
        now: u64,
        /// The revision that the caller names.
        wanted: u64,
    },
    /// The file cannot be written.
    #[error("the hold cannot be stored: {0}")]
    Storage(#[from] StorageError),
}

/// Whether this node holds the cluster at its feature level.
#[derive(Debug)]
pub struct LevelHold {
    path: PathBuf,
    content: Mutex<Content>,
    /// Held while the file is written, so that readers of `content` do not wait for the disk.
    writing: Mutex<()>,
    changed: Notify,
    order: tokio::sync::Mutex<()>,
}

impl LevelHold {
    /// Reads the file of a data directory; without one, nothing is held.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged: the level could rise although an operator holds it.
    pub fn open(data_dir: &Path) -> Result<Self, StorageError> {
        let path = data_dir.join(NAME);
        let content = match durable_file::read_sealed(&path)? {
            Some(bytes) => decode(&path, &bytes)?,
            None => Content {
                format: FORMAT,
                level: 0,
                revision: 0,
            },
        };
        Ok(Self {
            path,
            content: Mutex::new(content),
            writing: Mutex::default(),
            changed: Notify::new(),
            order: tokio::sync::Mutex::default(),
        })
    }

    /// The hold in a cluster of this level. A hold at a lower level is over: the level was raised.
    #[must_use]
    pub fn held(&self, cluster_level: u32) -> Held {
        let content = *self.lock();
        Held {
            level: (content.level != 0 && content.level >= cluster_level).then_some(content.level),
            revision: content.revision,
        }
    }

    /// The level that the membership is to record of this node, whose version supports this one: what it holds the cluster at, if it
    /// does.
    #[must_use]
    pub fn offered(&self, supported: u32, cluster_level: u32) -> u32 {
        let held = self.held(cluster_level).level;
        held.map_or(supported, |level| level.min(supported))
    }

    /// Holds the cluster at this level, 0 for none, durably. What is so already is left alone. With `if_revision`, only while the
    /// state is of that revision.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn change(&self, level: u32, if_revision: Option<u64>) -> Result<(), ChangeError> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let content = *self.lock();
        if content.level == level {
            return Ok(());
        }
        if let Some(wanted) = if_revision
            && wanted != content.revision
        {
            return Err(ChangeError::Raced {
                now: content.revision,
                wanted,
            });
        }
        let next = Content {
            format: FORMAT,
            level,
            revision: content.revision + 1,
        };
        let written = durable_file::replace_sealed(&self.path, &encode(&self.path, &next)?);
        written.map_err(StorageError::io("write", &self.path))?;
        *self.lock() = next;
        self.changed.notify_one();
        Ok(())
    }

    /// Waits until the hold was changed since the last wait.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Held while the level is raised, and while the record of a member is changed: one of the two is in the log first.
    #[must_use]
    pub fn order(&self) -> &tokio::sync::Mutex<()> {
        &self.order
    }

    fn lock(&self) -> MutexGuard<'_, Content> {
        // It is replaced whole.
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn encode(path: &Path, content: &Content) -> Result<Vec<u8>, StorageError> {
    let encoded = serde_json::to_vec(content);
    encoded.map_err(|error| StorageError::unreadable(path.display().to_string(), &error))
}

fn decode(path: &Path, bytes: &[u8]) -> Result<Content, StorageError> {
    let content: Result<Content, _> = serde_json::from_slice(bytes);
    let content =
        content.map_err(|error| StorageError::unreadable(path.display().to_string(), &error))?;
    if content.format > FORMAT {
        return Err(StorageError::NewerFormat {
            what: "the file level-hold",
            found: content.format,
            known: FORMAT,
        });
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(hold: &LevelHold, cluster_level: u32) -> (Option<u32>, u64) {
        let Held { level, revision } = hold.held(cluster_level);
        (level, revision)
    }

    #[test]
    fn hold_outlives_the_process_and_ends_with_a_raise() {
        let directory = tempfile::tempdir().unwrap();
        let hold = LevelHold::open(directory.path()).unwrap();
        assert_eq!((held(&hold, 5), hold.offered(6, 5)), ((None, 0), 6));
        hold.change(5, Some(0)).unwrap();
        let hold = LevelHold::open(directory.path()).unwrap();
        assert_eq!((held(&hold, 5), hold.offered(6, 5)), ((Some(5), 1), 5));
        // An older version that runs in between offers what it supports.
        assert_eq!(hold.offered(4, 4), 4);
        // The level was raised all the same, as by a version without holds.
        assert_eq!((held(&hold, 6), hold.offered(6, 6)), ((None, 1), 6));
    }

    #[test]
    fn late_duplicate_of_an_old_hold_reverts_no_newer_finish() {
        let directory = tempfile::tempdir().unwrap();
        let hold = LevelHold::open(directory.path()).unwrap();
        hold.change(5, Some(0)).unwrap();
        hold.change(5, Some(0)).unwrap();
        assert_eq!(held(&hold, 5), (Some(5), 1), "a repeat changes nothing");
        hold.change(0, Some(1)).unwrap();
        let late = hold.change(5, Some(0));
        let raced = matches!(late, Err(ChangeError::Raced { now: 2, wanted: 0 }));
        assert!(raced, "{late:?}");
        assert_eq!(held(&hold, 5), (None, 2));
    }

    #[test]
    fn damaged_or_newer_hold_keeps_the_node_from_starting() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(NAME);
        std::fs::write(&path, b"damaged").unwrap();
        let why = LevelHold::open(directory.path()).unwrap_err().to_string();
        assert!(why.contains(NAME), "{why}");
        let newer = br#"{"format":2,"level":5,"revision":1}"#;
        durable_file::replace_sealed(&path, newer).unwrap();
        let why = LevelHold::open(directory.path()).unwrap_err().to_string();
        assert!(why.contains("format 2"), "{why}");
    }
}
