//! Snapshots of the state, for peers that lag too far behind the log: a RocksDB checkpoint with a manifest that names every file, its
//! size and its checksum. The newest is kept in `snapshots/snap-<index>/`.

mod manifest;
mod snapshot_dir;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use helve_proto::peer::v1::SnapshotManifest;
use rocksdb::checkpoint::Checkpoint;

use self::snapshot_dir::lock;
pub use self::snapshot_dir::{SnapshotChunks, SnapshotDir};
pub(crate) use self::{manifest::measure, snapshot_dir::ENGINE};
pub(super) use self::{
    manifest::write_manifest,
    snapshot_dir::{FORMAT, MANIFEST_NAME},
};
use super::{
    authentic::SnapshotMarks, disk_key::DiskKey, error::StorageError, options::StateOptions,
    snapshot_writer::SnapshotWriter, state_db::StateDb, state_meta,
};
use crate::failpoint::{self, Failpoint};

const PREFIX: &str = "snap-";
const UNFINISHED_PREFIX: &str = "tmp-";

/// The snapshots of one node. All calls block.
#[derive(Debug)]
pub struct Snapshots {
    root: PathBuf,
    current: Mutex<Option<SnapshotDir>>,
    building: Mutex<()>,
    received: AtomicU64,
    marks: Option<SnapshotMarks>,
}

impl Snapshots {
    /// Opens the snapshots in a directory, creating it if need be. All but the newest whole one are removed.
    ///
    /// # Errors
    /// If the directory cannot be read or written.
    pub fn open(root: &Path) -> Result<Self, StorageError> {
        Self::opened(root, None)
    }

    /// As [`open`](Self::open), with a newest snapshot that must fit this key.
    ///
    /// # Errors
    /// [`StorageError::Changed`] if it does not; or if the directory cannot be read or written.
    pub fn open_under(
        root: &Path,
        options: StateOptions,
        key: Option<Arc<DiskKey>>,
    ) -> Result<Self, StorageError> {
        Self::opened(root, key.map(|key| SnapshotMarks { key, options }))
    }

    fn opened(root: &Path, marks: Option<SnapshotMarks>) -> Result<Self, StorageError> {
        fs::create_dir_all(root).map_err(StorageError::io("create", root))?;
        let mut found = Vec::new();
        for entry in fs::read_dir(root).map_err(StorageError::io("read", root))? {
            let path = entry.map_err(StorageError::io("read", root))?.path();
            // Whatever else is there is not ours to remove.
            if is_named(&path, PREFIX) || is_named(&path, UNFINISHED_PREFIX) {
                found.push(path);
            }
        }
        // Names are padded, so that the newest comes last.
        found.sort();
        let mut current = None;
        let mut is_newest = true;
        for path in found.into_iter().rev() {
            if current.is_none() && is_named(&path, PREFIX) {
                // Of an older one a crash may have removed a part: also its mark.
                let is_newest = std::mem::take(&mut is_newest);
                let opened = SnapshotDir::open(&path).and_then(|snapshot| match &marks {
                    Some(marks) => marks.check(&snapshot).map(|()| snapshot),
                    None => Ok(snapshot),
                });
                match opened {
                    Ok(snapshot) => {
                        current = Some(snapshot);
                        continue;
                    }
                    Err(changed @ StorageError::Changed(_)) if is_newest => return Err(changed),
                    // It is a copy of the state, and can be made again.
                    Err(error) => tracing::error!(%error, "removing a snapshot that is not whole"),
                }
            }
            fs::remove_dir_all(&path).map_err(StorageError::io("remove", &path))?;
        }
        Ok(Self {
            root: root.to_owned(),
            current: Mutex::new(current),
            building: Mutex::new(()),
            received: AtomicU64::new(0),
            marks,
        })
    }

    /// Removes all snapshots from a directory that no process uses.
    ///
    /// # Errors
    /// If the directory cannot be read or written.
    pub fn remove_all(root: &Path) -> Result<(), StorageError> {
        let snapshots = Self::open(root)?;
        if let Some(current) = lock(&snapshots.current).take() {
            current.remove()?;
        }
        Ok(())
    }

    /// The newest snapshot.
    #[must_use]
    pub fn current(&self) -> Option<SnapshotDir> {
        lock(&self.current).clone()
    }

    /// Takes a snapshot of the state as it is, durably, and makes it the newest. What it holds is durable in the state, too. Applying may
    /// go on meanwhile.
    ///
    /// # Errors
    /// If the engine or the disk fails.
    pub fn build(&self, state: &StateDb) -> Result<SnapshotDir, StorageError> {
        let _building = lock(&self.building);
        let path = self.root.join(format!("{UNFINISHED_PREFIX}build"));
        if path.exists() {
            fs::remove_dir_all(&path).map_err(StorageError::io("remove", &path))?;
        }
        let generation = state.generation();
        let db = &generation.db;
        // First without holding anything up; what the checkpoint then flushes is what was written since.
        state_meta::flush(db)?;
        Checkpoint::new(db)
            .and_then(|checkpoint| checkpoint.create_checkpoint(&path))
            .map_err(StorageError::engine("take a checkpoint"))?;
        failpoint::pass(Failpoint::BuildCheckpointed);
        let number = Some(generation.number);
        let before = self.current().filter(|it| it.generation() == number);
        let known = before.as_ref().map_or(&[][..], |it| &it.manifest().files);
        let manifest = manifest::describe(&path, state.options(), known)?;
        failpoint::pass(Failpoint::BuildDescribed);
        self.publish(&SnapshotDir::new(manifest, path, number))
    }

    /// Begins to receive a snapshot that a peer describes so.
    ///
    /// # Errors
    /// If this node cannot take it over, or the disk fails.
    pub fn receive(&self, manifest: SnapshotManifest) -> Result<SnapshotWriter, StorageError> {
        let number = self.received.fetch_add(1, Ordering::Relaxed);
        let name = format!("{UNFINISHED_PREFIX}received-{number}");
        SnapshotWriter::create(&self.root.join(name), manifest)
    }

    /// Makes a snapshot that was received, and installed, the newest.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn publish(&self, snapshot: &SnapshotDir) -> Result<SnapshotDir, StorageError> {
        // Others look at what is current while this reads rows.
        if let Some(marks) = &self.marks {
            marks.write(snapshot)?;
            failpoint::pass(Failpoint::SnapshotMarked);
        }
        let mut current = lock(&self.current);
        let last =
            |snapshot: &SnapshotDir| snapshot.manifest().last_log_id.map(|log_id| log_id.index);
        if let Some(current) = current
            .as_ref()
            .filter(|current| last(current) >= last(snapshot))
        {
            return Ok(current.clone());
        }
        let index = last(snapshot).unwrap_or(0);
        let path = self.root.join(format!("{PREFIX}{index:020}"));
        snapshot.move_to(&path)?;
        if let Some(old) = current.replace(snapshot.clone()) {
            old.goes_with_last_clone();
        }
        Ok(snapshot.clone())
    }
}

fn is_named(path: &Path, prefix: &str) -> bool {
    path.file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name.starts_with(prefix))
}

#[cfg(test)]
mod tests;
