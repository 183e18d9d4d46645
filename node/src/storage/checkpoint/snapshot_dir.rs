//! One snapshot on this node's disk.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use helve_proto::peer::v1::{SnapshotChunk, SnapshotManifest};
use prost::Message;
use rocksdb::DB;

use crate::{
    failpoint::{self, Failpoint},
    storage::{
        durable_file,
        error::StorageError,
        options::{self, StateOptions},
        state_view::{Reach, StateView},
    },
};

/// The format of manifests that this build writes, and the newest that it reads.
pub(in crate::storage) const FORMAT: u32 = 1;
/// Names the engine and the major version that reads its files.
pub(crate) const ENGINE: &str = "rocksdb-11";
pub(in crate::storage) const MANIFEST_NAME: &str = "snapshot.pb";
/// Memory for reading a snapshot's rows once, from the first to the last.
const READING: StateOptions = StateOptions {
    block_cache_bytes: 8 << 20,
    memtable_bytes: 8 << 20,
};

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

impl SnapshotDir {
    /// A snapshot that goes with its last clone, unless it is published.
    pub(in crate::storage) fn unfinished(manifest: SnapshotManifest, path: PathBuf) -> Self {
        Self::new(manifest, path, None)
    }

    pub(super) fn new(manifest: SnapshotManifest, path: PathBuf, generation: Option<u64>) -> Self {
        Self(Arc::new(Inner {
            manifest,
            path: Mutex::new(path),
            kept: AtomicBool::new(false),
            generation,
        }))
    }

    pub(super) fn open(path: &Path) -> Result<Self, StorageError> {
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

    /// Where its files are.
    pub(in crate::storage) fn path(&self) -> PathBuf {
        lock(&self.0.path).clone()
    }

    /// Removes its files, which no process uses.
    ///
    /// # Errors
    /// If the disk fails.
    pub(super) fn remove(&self) -> Result<(), StorageError> {
        let path = lock(&self.0.path);
        fs::remove_dir_all(&*path).map_err(StorageError::io("remove", &path))
    }

    /// Which state it was taken of, if this process took it.
    pub(super) fn generation(&self) -> Option<u64> {
        self.0.generation
    }

    /// A newer one has replaced it: its files go with its last clone.
    pub(super) fn goes_with_last_clone(&self) {
        self.0.kept.store(false, Ordering::Release);
    }

    /// What it holds.
    #[must_use]
    pub fn manifest(&self) -> &SnapshotManifest {
        &self.0.manifest
    }

    /// Its content in pieces of at most `chunk_bytes`, in the order in which
    /// [`SnapshotWriter`](crate::storage::snapshot_writer::SnapshotWriter) wants them. Reading blocks.
    #[must_use]
    pub fn chunks(&self, chunk_bytes: usize) -> SnapshotChunks {
        self.chunks_without(BTreeSet::new(), chunk_bytes)
    }

    /// The same, without these of its manifest's files.
    #[must_use]
    pub fn chunks_without(&self, left_out: BTreeSet<usize>, chunk_bytes: usize) -> SnapshotChunks {
        SnapshotChunks {
            snapshot: self.clone(),
            chunk_bytes,
            left_out,
            file: 0,
            open: None,
        }
    }

    /// Reads the rows in its files. Blocks.
    ///
    /// # Errors
    /// If the engine cannot open them.
    pub fn read<R>(&self, read: impl FnOnce(&StateView<'_>) -> R) -> Result<R, StorageError> {
        let path = lock(&self.0.path).clone();
        let families = options::state_families(&READING);
        let db =
            DB::open_cf_descriptors_read_only(&options::state_db(&READING), path, families, false)
                .map_err(StorageError::engine("open the snapshot"))?;
        Ok(read(&StateView::new(&db, Reach::Disk)))
    }

    /// Copies the files to a new directory, durably. Those that never change are linked.
    pub(in crate::storage) fn copy_to(&self, target: &Path) -> Result<(), StorageError> {
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

    /// Moves it to where the newest is kept: from then on it outlives the process.
    pub(super) fn move_to(&self, target: &Path) -> Result<(), StorageError> {
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
    left_out: BTreeSet<usize>,
    file: usize,
    open: Option<File>,
}

impl SnapshotChunks {
    fn read(&mut self) -> Result<Option<SnapshotChunk>, StorageError> {
        while let Some(file) = self.snapshot.0.manifest.files.get(self.file) {
            if self.left_out.contains(&self.file) {
                self.file += 1;
                continue;
            }
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

/// Table files are never written again, so two databases may share one.
pub(super) fn is_immutable(name: &str) -> bool {
    Path::new(name)
        .extension()
        .is_some_and(|extension| extension == "sst")
}

/// A thread that panics with one of these locks leaves the content whole.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
