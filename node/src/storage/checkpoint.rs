//! Snapshots of the state, for peers that lag too far behind the log: a RocksDB checkpoint with a manifest that names every file, its
//! size and its checksum. The newest is kept in `snapshots/snap-<index>/`.

mod manifest;

use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use helve_proto::peer::v1::{SnapshotChunk, SnapshotManifest};
use prost::Message;
use rocksdb::checkpoint::Checkpoint;

pub(super) use self::manifest::write_manifest;
use super::{
    durable_file,
    error::StorageError,
    snapshot_writer::SnapshotWriter,
    state_db::{self, StateDb},
};
use crate::failpoint::{self, Failpoint};

/// The format of manifests that this build writes, and the newest that it reads.
pub(super) const FORMAT: u32 = 1;
/// Names the engine and the major version that reads its files.
pub(crate) const ENGINE: &str = "rocksdb-11";
pub(super) const MANIFEST_NAME: &str = "snapshot.pb";
const PREFIX: &str = "snap-";
const UNFINISHED_PREFIX: &str = "tmp-";

/// The snapshots of one node. All calls block.
#[derive(Debug)]
pub struct Snapshots {
    root: PathBuf,
    current: Mutex<Option<SnapshotDir>>,
    building: Mutex<()>,
    received: AtomicU64,
}

/// A whole snapshot on this node's disk. It stays there as long as a clone of this exists, even when a newer one has replaced it.
#[derive(Debug, Clone)]
pub struct SnapshotDir(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    manifest: SnapshotManifest,
    path: Mutex<PathBuf>,
    /// It is the newest one, and outlives the process.
    kept: AtomicBool,
    /// Which state it was taken of, if this process took it.
    generation: Option<u64>,
}

impl Snapshots {
    /// Opens the snapshots in a directory, creating it if need be. All but the newest whole one are removed.
    ///
    /// # Errors
    /// If the directory cannot be read or written.
    pub fn open(root: &Path) -> Result<Self, StorageError> {
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
        for path in found.into_iter().rev() {
            if current.is_none() && is_named(&path, PREFIX) {
                match SnapshotDir::open(&path) {
                    Ok(snapshot) => {
                        current = Some(snapshot);
                        continue;
                    }
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
        })
    }

    /// Removes all snapshots from a directory that no process uses.
    ///
    /// # Errors
    /// If the directory cannot be read or written.
    pub fn remove_all(root: &Path) -> Result<(), StorageError> {
        let snapshots = Self::open(root)?;
        if let Some(current) = lock(&snapshots.current).take() {
            let path = lock(&current.0.path).clone();
            fs::remove_dir_all(&path).map_err(StorageError::io("remove", &path))?;
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
        state_db::flush(db)?;
        Checkpoint::new(db)
            .and_then(|checkpoint| checkpoint.create_checkpoint(&path))
            .map_err(StorageError::engine("take a checkpoint"))?;
        failpoint::pass(Failpoint::BuildCheckpointed);
        let number = Some(generation.number);
        let before = self.current().filter(|it| it.0.generation == number);
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
            old.0.kept.store(false, Ordering::Release);
        }
        Ok(snapshot.clone())
    }
}

impl SnapshotDir {
    /// A snapshot that goes with its last clone, unless it is published.
    pub(super) fn unfinished(manifest: SnapshotManifest, path: PathBuf) -> Self {
        Self::new(manifest, path, None)
    }

    fn new(manifest: SnapshotManifest, path: PathBuf, generation: Option<u64>) -> Self {
        Self(Arc::new(Inner {
            manifest,
            path: Mutex::new(path),
            kept: AtomicBool::new(false),
            generation,
        }))
    }

    fn open(path: &Path) -> Result<Self, StorageError> {
        let manifest_path = path.join(MANIFEST_NAME);
        let damaged = |detail: &str| StorageError::damaged(path.display().to_string(), detail);
        let manifest = durable_file::read_sealed(&manifest_path)?;
        let manifest = manifest.ok_or_else(|| damaged("its manifest is missing"))?;
        let manifest = SnapshotManifest::decode(manifest.as_slice()).map_err(|e| {
            StorageError::damaged(manifest_path.display().to_string(), e.to_string())
        })?;
        for file in &manifest.files {
            let size = fs::metadata(path.join(&file.name)).map(|metadata| metadata.len());
            if !size.is_ok_and(|size| size == file.size_bytes) {
                return Err(damaged("a file is missing or has another size"));
            }
        }
        let snapshot = Self::unfinished(manifest, path.to_owned());
        snapshot.0.kept.store(true, Ordering::Release);
        Ok(snapshot)
    }

    /// What it holds.
    #[must_use]
    pub fn manifest(&self) -> &SnapshotManifest {
        &self.0.manifest
    }

    /// Its content in pieces of at most `chunk_bytes`, in the order in which [`SnapshotWriter`] wants them. Reading blocks.
    #[must_use]
    pub fn chunks(&self, chunk_bytes: usize) -> SnapshotChunks {
        SnapshotChunks {
            snapshot: self.clone(),
            chunk_bytes,
            file: 0,
            open: None,
        }
    }

    /// Copies the files to a new directory, durably. Those that never change are linked.
    pub(super) fn copy_to(&self, target: &Path) -> Result<(), StorageError> {
        if target.exists() {
            fs::remove_dir_all(target).map_err(StorageError::io("remove", target))?;
        }
        fs::create_dir(target).map_err(StorageError::io("create", target))?;
        let source = lock(&self.0.path);
        for file in &self.0.manifest.files {
            let (from, to) = (source.join(&file.name), target.join(&file.name));
            if is_immutable(&file.name) {
                fs::hard_link(&from, &to).map_err(StorageError::io("link", &to))?;
            } else {
                failpoint::pass(Failpoint::InstallCopying);
                fs::copy(&from, &to).map_err(StorageError::io("copy", &to))?;
                sync_file(&to)?;
            }
        }
        durable_file::sync_dir(target)
            .and_then(|()| durable_file::sync_parent(target))
            .map_err(StorageError::io("sync", target))
    }

    fn move_to(&self, target: &Path) -> Result<(), StorageError> {
        let mut path = lock(&self.0.path);
        fs::rename(&*path, target).map_err(StorageError::io("rename", &path))?;
        target.clone_into(&mut path);
        self.0.kept.store(true, Ordering::Release);
        durable_file::sync_parent(target).map_err(StorageError::io("sync", target))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.kept.load(Ordering::Acquire) {
            return;
        }
        let path = lock(&self.path);
        if let Err(error) = fs::remove_dir_all(&*path) {
            // The next start removes it.
            tracing::warn!(path = %path.display(), %error, "a snapshot that was replaced cannot be removed");
        }
    }
}

/// See [`SnapshotDir::chunks`].
#[derive(Debug)]
pub struct SnapshotChunks {
    snapshot: SnapshotDir,
    chunk_bytes: usize,
    file: usize,
    open: Option<File>,
}

impl SnapshotChunks {
    fn read(&mut self) -> Result<Option<SnapshotChunk>, StorageError> {
        while let Some(file) = self.snapshot.0.manifest.files.get(self.file) {
            let path = lock(&self.snapshot.0.path).join(&file.name);
            if self.open.is_none() {
                self.open = Some(File::open(&path).map_err(StorageError::io("open", &path))?);
            }
            let mut data = Vec::new();
            if let Some(open) = &mut self.open {
                let read = open.take(self.chunk_bytes as u64).read_to_end(&mut data);
                read.map_err(StorageError::io("read", &path))?;
            }
            if !data.is_empty() {
                let file = self.file as u32;
                return Ok(Some(SnapshotChunk {
                    file,
                    data: Bytes::from(data),
                }));
            }
            self.open = None;
            self.file += 1;
        }
        Ok(None)
    }
}

impl Iterator for SnapshotChunks {
    type Item = Result<SnapshotChunk, StorageError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

fn sync_file(path: &Path) -> Result<(), StorageError> {
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(StorageError::io("sync", path))
}

fn is_named(path: &Path, prefix: &str) -> bool {
    path.file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name.starts_with(prefix))
}

/// Table files are never written again, so two databases may share one.
fn is_immutable(name: &str) -> bool {
    Path::new(name)
        .extension()
        .is_some_and(|extension| extension == "sst")
}

/// Whoever panics with one of these locks leaves the content whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
