//! A place for backups: a directory, or a bucket of an object store.
//!
//! A directory is read and written at once, so these calls block now and then.

mod receiving;

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use helve_proto::v1::BackupManifest;

pub use self::receiving::Receiving;
use self::receiving::To;
#[cfg(feature = "object-store")]
use super::bucket::{
    Bucket,
    connect::connect,
    log::LogObjects,
    mark::{Mark, Work},
    upload::Upload,
};
#[cfg(not(feature = "object-store"))]
use super::store_error::{StoreError, StoreProblem};
use super::{
    Backup, BackupError, BackupFile,
    archive::Archive,
    delete::{Deleted, Run},
    directory::{BackupDir, Listed},
    receiver::Receiver,
    url::{PlainHttp, Url},
};
use crate::limits::{BACKUP_UNFINISHED_MIN, SNAPSHOT_CHUNK_BYTES};

/// A place for backups.
#[derive(Debug)]
pub struct Place(Kind);

#[derive(Debug)]
enum Kind {
    Directory(BackupDir),
    #[cfg(feature = "object-store")]
    Bucket(Box<Bucket>),
}

impl Place {
    /// Opens a place to read its backups.
    ///
    /// # Errors
    /// If a directory has no backups, or cannot be read; if a URL leads to no bucket, or this build
    /// has no object stores.
    pub fn open(at: &Path, http: PlainHttp) -> Result<Self, BackupError> {
        let kind = match Url::of(at) {
            Some(url) => bucket(&url, http)?,
            None => Kind::Directory(BackupDir::open(at)?),
        };
        Ok(Self(kind))
    }

    /// Opens a place to write a backup to it. A new or an empty directory becomes one for backups.
    /// [`close`](Self::close) it behind the work.
    ///
    /// # Errors
    /// If it is something else's, another command works there, or it cannot be written.
    pub async fn create(at: &Path, http: PlainHttp) -> Result<Self, BackupError> {
        let Some(url) = Url::of(at) else {
            return Ok(Self(Kind::Directory(BackupDir::create(at)?)));
        };
        let mut kind = bucket(&url, http)?;
        match &mut kind {
            Kind::Directory(_) => {}
            #[cfg(feature = "object-store")]
            Kind::Bucket(bucket) => bucket.begin(Work::Backup).await?,
        }
        Ok(Self(kind))
    }

    /// Opens a place to delete a backup from it, alone. [`close`](Self::close) it behind the work.
    ///
    /// # Errors
    /// If it has no backups, another command works there, or it cannot be written.
    pub async fn open_to_delete(at: &Path, http: PlainHttp) -> Result<Self, BackupError> {
        let mut place = Self::open(at, http)?;
        match &mut place.0 {
            Kind::Directory(directory) => *directory = BackupDir::create(at)?,
            #[cfg(feature = "object-store")]
            Kind::Bucket(bucket) => bucket.begin(Work::Delete).await?,
        }
        Ok(place)
    }

    /// Opens a place to archive the log there, alone. Backups may be made and deleted meanwhile.
    ///
    /// # Errors
    /// If it has no backups, another process archives in this directory, or it cannot be written.
    pub fn open_to_follow(at: &Path, http: PlainHttp) -> Result<Self, BackupError> {
        let mut place = Self::open(at, http)?;
        match &mut place.0 {
            Kind::Directory(directory) => *directory = BackupDir::open_to_follow(at)?,
            // Of two, the second one to keep a segment is refused: each has its own name.
            #[cfg(feature = "object-store")]
            Kind::Bucket(_) => {}
        }
        Ok(place)
    }

    /// Ends the work there, so that others may begin.
    ///
    /// # Errors
    /// If a store fails. Then it looks as if the work went on, for up to a day.
    pub async fn close(self) -> Result<(), BackupError> {
        match self.0 {
            Kind::Directory(_) => Ok(()),
            #[cfg(feature = "object-store")]
            Kind::Bucket(mut bucket) => bucket.end().await,
        }
    }

    /// Whether commands that write there leave a mark if they are killed: in a bucket.
    #[must_use]
    pub fn is_marked(at: &Path) -> bool {
        Url::of(at).is_some()
    }

    /// The mark of this command, and when others no longer respect it, in milliseconds since the
    /// Unix epoch; `None` if it has put none.
    #[must_use]
    pub fn mark(&self) -> Option<(PathBuf, u64)> {
        match &self.0 {
            Kind::Directory(_) => None,
            #[cfg(feature = "object-store")]
            Kind::Bucket(bucket) => bucket.mark.as_ref().map(Mark::left),
        }
    }

    /// Has a deletion in a bucket begin no further request: it ends once those that were sent are
    /// answered.
    pub fn stop_deletion(&self) {
        match &self.0 {
            Kind::Directory(_) => {}
            #[cfg(feature = "object-store")]
            Kind::Bucket(bucket) => bucket.stop.cancel(),
        }
    }

    /// Where it is: a path, or a URL without credentials.
    #[must_use]
    pub fn path(&self) -> &Path {
        match &self.0 {
            Kind::Directory(directory) => directory.path(),
            #[cfg(feature = "object-store")]
            Kind::Bucket(bucket) => bucket.url(),
        }
    }

    /// All backups, by their ids: one at least.
    ///
    /// # Errors
    /// If there is none, or the place cannot be read.
    pub async fn list(&self) -> Result<Vec<Listed>, BackupError> {
        match &self.0 {
            Kind::Directory(directory) => directory.list(),
            #[cfg(feature = "object-store")]
            Kind::Bucket(bucket) => bucket.list().await,
        }
    }

    /// The backup with this id, or the newest by the cluster's time.
    ///
    /// # Errors
    /// If there is none, or its manifest cannot be used. Without an id: if any manifest cannot,
    /// since that may be the newest.
    pub async fn find(&self, id: Option<&str>) -> Result<Backup, BackupError> {
        match &self.0 {
            Kind::Directory(directory) => directory.find(id),
            #[cfg(feature = "object-store")]
            Kind::Bucket(bucket) => bucket.find(id).await,
        }
    }

    /// The keys of the files of a node that are there, one after the other.
    ///
    /// # Errors
    /// If the place cannot be read.
    pub async fn held(&self, node_uuid: &str) -> Result<Vec<u8>, BackupError> {
        match &self.0 {
            Kind::Directory(directory) => directory.held(node_uuid),
            #[cfg(feature = "object-store")]
            Kind::Bucket(bucket) => bucket.held(node_uuid).await,
        }
    }

    /// Reads every file of these backups, and says which are not what was written. `read` hears how
    /// many bytes of each were read.
    ///
    /// # Errors
    /// If a store fails: then files are not known to be damaged.
    pub async fn verify(
        &self,
        backups: &[&Backup],
        read: impl FnMut(u64),
    ) -> Result<Vec<BackupError>, BackupError> {
        match &self.0 {
            Kind::Directory(directory) => Ok(directory.verify(backups, read)),
            #[cfg(feature = "object-store")]
            Kind::Bucket(bucket) => bucket.verify(backups, read).await,
        }
    }

    /// Begins to receive the backup that a node describes so.
    ///
    /// # Errors
    /// If this version cannot read it, or the place cannot be written.
    pub async fn receive(&self, manifest: BackupManifest) -> Result<Receiving<'_>, BackupError> {
        let to = match &self.0 {
            Kind::Directory(directory) => {
                To::Directory(Box::new(Receiver::begin(directory, manifest)?))
            }
            #[cfg(feature = "object-store")]
            Kind::Bucket(bucket) => To::Bucket(Box::new(Upload::begin(bucket, manifest).await?)),
        };
        Ok(Receiving(to))
    }

    /// Deletes a backup: its manifest, and behind it the files that no other backup needs. A
    /// dry run only says what would go.
    ///
    /// # Errors
    /// If there is no such backup, any manifest cannot be used, or the place fails. A deletion that
    /// was cut short behind the manifest leaves files, and a later one removes them.
    pub async fn delete(&self, id: &str, run: Run) -> Result<Deleted, BackupError> {
        match &self.0 {
            Kind::Directory(directory) => directory.delete(id, run, BACKUP_UNFINISHED_MIN),
            #[cfg(feature = "object-store")]
            Kind::Bucket(bucket) => bucket.delete(id, run, BACKUP_UNFINISHED_MIN).await,
        }
    }

    /// The segments of the archived log.
    ///
    /// # Errors
    /// If the place cannot be read.
    pub async fn archive(&self) -> Result<Archive, BackupError> {
        match &self.0 {
            Kind::Directory(directory) => directory.archive(),
            #[cfg(feature = "object-store")]
            Kind::Bucket(bucket) => LogObjects(bucket).archive().await,
        }
    }

    /// The ids of all backups, by the names of their manifests, which are not read.
    ///
    /// # Errors
    /// If the place cannot be read.
    pub(super) async fn ids(&self) -> Result<Vec<String>, BackupError> {
        match &self.0 {
            Kind::Directory(directory) => directory.ids(),
            #[cfg(feature = "object-store")]
            Kind::Bucket(bucket) => LogObjects(bucket).ids().await,
        }
    }

    /// What is in a segment; `None` if it is not there.
    ///
    /// # Errors
    /// If the place cannot be read.
    pub(super) async fn read_log(&self, name: &str) -> Result<Option<Bytes>, BackupError> {
        match &self.0 {
            Kind::Directory(directory) => directory.read_log(name),
            #[cfg(feature = "object-store")]
            Kind::Bucket(bucket) => LogObjects(bucket).read(name).await,
        }
    }

    /// Keeps a segment, durably and whole.
    ///
    /// # Errors
    /// If another process has kept one of this name, or the place cannot be written.
    pub(super) async fn put_log(&self, name: &str, content: Bytes) -> Result<(), BackupError> {
        match &self.0 {
            Kind::Directory(directory) => directory.put_log(name, &content),
            #[cfg(feature = "object-store")]
            Kind::Bucket(bucket) => LogObjects(bucket).put(name, content).await,
        }
    }

    /// Hands on what is in a file of a backup, piece by piece.
    ///
    /// # Errors
    /// If it cannot be read, or what takes a piece fails.
    pub(crate) async fn read_file<E: From<BackupError>>(
        &self,
        (backup, file): (&Backup, &BackupFile),
        mut take: impl FnMut(Bytes) -> Result<(), E>,
    ) -> Result<(), E> {
        match &self.0 {
            Kind::Directory(directory) => {
                let path = directory.file_path(backup, file);
                let unread = |error| BackupError::io("read", &path)(error);
                let mut content = File::open(&path).map_err(unread)?;
                loop {
                    let mut data = Vec::new();
                    let mut piece = (&mut content).take(SNAPSHOT_CHUNK_BYTES as u64);
                    if piece.read_to_end(&mut data).map_err(unread)? == 0 {
                        return Ok(());
                    }
                    take(data.into())?;
                }
            }
            #[cfg(feature = "object-store")]
            Kind::Bucket(bucket) => {
                let mut content = bucket.content(backup, file).await?;
                while let Some(piece) = content.next().await? {
                    take(piece)?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(feature = "object-store")]
fn bucket(url: &Url<'_>, http: PlainHttp) -> Result<Kind, BackupError> {
    Ok(Kind::Bucket(Box::new(connect(url, http)?)))
}

#[cfg(not(feature = "object-store"))]
fn bucket(url: &Url<'_>, _: PlainHttp) -> Result<Kind, BackupError> {
    Err(BackupError::Store(StoreError {
        place: url.shown(),
        action: "use",
        problem: StoreProblem::NotBuilt,
    }))
}
