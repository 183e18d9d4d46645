//! Backups in a bucket of an object store.
//!
//! ```text
//! TO/files/NODE/NAME.SIZE.CRC32C  as in a directory
//! TO/backups/ID                   as in a directory, written last, and never over another one
//! TO/log/...                      the archived log: see `archive.rs`
//! TO/running/WORK-UUID            the mark of a command that writes or deletes there
//! ```
//!
//! Every request has a deadline, and is made again a few times. An object is there whole or not at
//! all, so a file with the right name and size counts as arrived; `verify` reads what is in it.

pub(super) mod connect;
mod deletion;
mod failure;
mod listing;
pub(super) mod log;
pub(super) mod mark;
#[cfg(test)]
mod tests;
pub(super) mod upload;
mod wire;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures::{TryStreamExt as _, stream::BoxStream};
use object_store::{ObjectStore, ObjectStoreExt as _, path::Path as Key};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::{failure::Failure, mark::Mark};
use super::{
    Backup, BackupError, BackupFile, FILE_KEY_BYTES,
    directory::{file_of, manifest_of, newest, stored_name},
    file_key,
    store_error::{StoreError, StoreProblem},
};
use crate::limits;

const FILES_NAME: &str = "files";
const BACKUPS_NAME: &str = "backups";
const RUNNING_NAME: &str = "running";

/// Bytes of a manifest with its checksum: it came in one message.
const MANIFEST_BYTES_MAX: u64 = limits::MESSAGE_BYTES_MAX as u64;

/// A bucket with a prefix, as a place for backups.
pub(super) struct Bucket {
    store: Arc<dyn ObjectStore>,
    /// As it is shown, without credentials.
    url: PathBuf,
    prefix: String,
    bounds: Bounds,
    /// Of the command that writes or deletes here.
    pub(super) mark: Option<Mark>,
    /// Ends a deletion behind the requests that were sent.
    pub(super) stop: CancellationToken,
}

/// What a command and its requests may take.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    call: Duration,
    backup: Duration,
    deletion: Duration,
    backup_mark: Duration,
    delete_mark: Duration,
    objects: usize,
    manifests_bytes: u64,
    part_bytes: usize,
}

impl Bounds {
    const DEFAULT: Self = Self {
        call: limits::BUCKET_CALL_MAX,
        backup: limits::BUCKET_BACKUP_MAX,
        deletion: limits::BUCKET_DELETE_MAX,
        backup_mark: limits::BUCKET_BACKUP_MARK_MAX,
        delete_mark: limits::BUCKET_DELETE_MARK_MAX,
        objects: limits::BUCKET_OBJECTS_MAX,
        manifests_bytes: limits::BUCKET_MANIFESTS_BYTES_MAX,
        part_bytes: limits::BUCKET_PART_BYTES,
    };
}

/// An object below a part of the place.
#[derive(Debug)]
struct Found {
    /// Its name there.
    name: String,
    size_bytes: u64,
    /// When it was written, in seconds since the Unix epoch.
    written_s: i64,
}

impl Bucket {
    fn new(store: Arc<dyn ObjectStore>, url: PathBuf, prefix: String, bounds: Bounds) -> Self {
        Self {
            store,
            url,
            prefix,
            bounds,
            mark: None,
            stop: CancellationToken::new(),
        }
    }

    /// Its URL.
    pub(super) fn url(&self) -> &Path {
        &self.url
    }

    /// The backup with this id, or the newest by the cluster's time.
    ///
    /// # Errors
    /// If there is none, its manifest cannot be used, or the store fails. Without an id: if any
    /// manifest cannot, since that may be the newest.
    pub(super) async fn find(&self, id: Option<&str>) -> Result<Backup, BackupError> {
        let Some(id) = id else {
            return newest(&self.url, self.list().await?);
        };
        if id.is_empty() || id.contains('/') || id.starts_with('.') {
            return Err(self.no_such(id));
        }
        self.read(id).await
    }

    /// The keys of the files of a node that are there, one after the other.
    ///
    /// # Errors
    /// If the store fails.
    pub(super) async fn held(&self, node_uuid: &str) -> Result<Vec<u8>, BackupError> {
        let names = self.names(node_uuid).await?;
        let files = names.iter().filter_map(|name| file_of(name));
        let files = files.take(limits::BACKUP_HELD_MAX);
        let mut keys =
            Vec::with_capacity(names.len().min(limits::BACKUP_HELD_MAX) * FILE_KEY_BYTES);
        for file in files {
            keys.extend_from_slice(&file_key(&file));
        }
        Ok(keys)
    }

    /// Reads every file of these backups, and says which are not what was written. `read` hears how
    /// many bytes of each were read.
    ///
    /// # Errors
    /// If the store fails.
    pub(super) async fn verify(
        &self,
        backups: &[&Backup],
        mut read: impl FnMut(u64),
    ) -> Result<Vec<BackupError>, BackupError> {
        let mut files = BTreeMap::new();
        for &backup in backups {
            for file in backup.files() {
                files.insert(below(backup, file), (backup, file));
            }
        }
        let mut damaged = Vec::new();
        for (backup, file) in files.into_values() {
            match self.check_file(backup, file).await {
                Ok(()) => {}
                Err(error @ BackupError::Damaged { .. }) => damaged.push(error),
                Err(error) => return Err(error),
            }
            read(file.size_bytes);
        }
        Ok(damaged)
    }

    /// What is in a file, piece by piece.
    ///
    /// # Errors
    /// If it is missing, or the store fails.
    pub(super) async fn content(
        &self,
        backup: &Backup,
        file: &BackupFile,
    ) -> Result<Content<'_>, BackupError> {
        let name = below(backup, file);
        let key = self.key(&name)?;
        match self.timed(self.store.get(&key)).await {
            Ok(object) => Ok(Content {
                bucket: self,
                pieces: object.into_stream(),
            }),
            Err(failure) if failure.is_absent() => {
                Err(BackupError::damaged(self.url.join(&name), "it is missing"))
            }
            Err(failure) => Err(self.error("read", failure.problem())),
        }
    }

    /// Checks that a file is what was written. Reads all of it.
    async fn check_file(&self, backup: &Backup, file: &BackupFile) -> Result<(), BackupError> {
        let mut content = self.content(backup, file).await?;
        let (mut size_bytes, mut crc32c) = (0_u64, 0);
        while let Some(piece) = content.next().await? {
            size_bytes += piece.len() as u64;
            crc32c = crc32c::crc32c_append(crc32c, &piece);
        }
        let damaged =
            |detail: &str| BackupError::damaged(self.url.join(below(backup, file)), detail);
        if size_bytes != file.size_bytes {
            let why = format!("it has {size_bytes} bytes instead of {}", file.size_bytes);
            return Err(damaged(&why));
        }
        if crc32c != file.crc32c {
            return Err(damaged("its checksum differs"));
        }
        Ok(())
    }

    /// Checks that every file of a backup is there, by names and sizes.
    async fn check_all_there(&self, backup: &Backup) -> Result<(), BackupError> {
        let names = self.names(&backup.manifest().node_uuid).await?;
        let mut files = backup.files().iter();
        match files.find(|file| !names.contains(&stored_name(file))) {
            Some(file) => {
                let path = self.url.join(below(backup, file));
                Err(BackupError::damaged(path, "it is missing"))
            }
            None => Ok(()),
        }
    }

    /// The names of a node's files that are there whole.
    async fn names(&self, node_uuid: &str) -> Result<BTreeSet<String>, BackupError> {
        let found = self.objects(&format!("{FILES_NAME}/{node_uuid}")).await?;
        let is_whole = |found: &Found| {
            file_of(&found.name).is_some_and(|file| file.size_bytes == found.size_bytes)
        };
        let whole = found.into_iter().filter(is_whole);
        Ok(whole.map(|found| found.name).collect())
    }

    /// A backup by its manifest.
    async fn read(&self, id: &str) -> Result<Backup, BackupError> {
        let name = format!("{BACKUPS_NAME}/{id}");
        let Ok(key) = self.key(&name) else {
            return Err(self.no_such(id));
        };
        let object = match self.timed(self.store.get(&key)).await {
            Err(failure) if failure.is_absent() => return Err(self.no_such(id)),
            got => got.map_err(|failure| self.error("read", failure.problem()))?,
        };
        let path = self.url.join(&name);
        if object.meta.size > MANIFEST_BYTES_MAX {
            return Err(BackupError::damaged(path, "it is too large for a manifest"));
        }
        let sealed = self.timed(object.bytes()).await;
        let sealed = sealed.map_err(|failure| self.error("read", failure.problem()))?;
        manifest_of(&sealed, &path, id)
    }

    /// All objects below a part of the place.
    async fn objects(&self, part: &str) -> Result<Vec<Found>, BackupError> {
        let key = self.key(part)?;
        let mut listed = self.store.list(Some(&key));
        let mut found = Vec::new();
        loop {
            let next = self.timed(listed.try_next()).await;
            let next = next.map_err(|failure| self.error("list", failure.problem()))?;
            let Some(object) = next else {
                return Ok(found);
            };
            if found.len() >= self.bounds.objects {
                let problem = StoreProblem::TooMany(self.bounds.objects);
                return Err(self.error("list", problem));
            }
            let name = object.location.as_ref().strip_prefix(key.as_ref());
            if let Some(name) = name.and_then(|name| name.strip_prefix('/')) {
                found.push(Found {
                    name: name.to_owned(),
                    size_bytes: object.size,
                    written_s: object.last_modified.timestamp(),
                });
            }
        }
    }

    /// A request with all its attempts, within its time.
    async fn timed<T>(
        &self,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, Failure> {
        match timeout(self.bounds.call, request).await {
            Ok(done) => done.map_err(Failure::Store),
            Err(_) => Err(Failure::Slow(self.bounds.call)),
        }
    }

    fn error(&self, action: &'static str, problem: StoreProblem) -> BackupError {
        BackupError::Store(StoreError {
            place: self.url.display().to_string(),
            action,
            problem,
        })
    }

    fn no_such(&self, id: &str) -> BackupError {
        BackupError::NoSuch {
            path: self.url.clone(),
            id: id.to_owned(),
        }
    }

    /// The key of what is here under a name.
    fn key(&self, name: &str) -> Result<Key, BackupError> {
        let whole = match self.prefix.as_str() {
            "" => name.to_owned(),
            prefix => format!("{prefix}/{name}"),
        };
        Key::parse(whole).map_err(|_| {
            let why = format!("`{}` is no name of an object", name.escape_debug());
            BackupError::Manifest(why)
        })
    }
}

/// The name of a file of a backup in the place.
fn below(backup: &Backup, file: &BackupFile) -> String {
    let node = &backup.manifest().node_uuid;
    format!("{FILES_NAME}/{node}/{}", stored_name(file))
}

/// A file that is being read.
pub(super) struct Content<'a> {
    bucket: &'a Bucket,
    pieces: BoxStream<'static, object_store::Result<Bytes>>,
}

impl Content<'_> {
    /// The next piece; `None` behind the last one.
    ///
    /// # Errors
    /// If the store fails.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, BackupError> {
        let next = self.bucket.timed(self.pieces.try_next()).await;
        next.map_err(|failure| self.bucket.error("read", failure.problem()))
    }
}

/// Without the store, whose options hold credentials.
impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}
