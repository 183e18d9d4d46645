//! The directory that keeps backups.
//!
//! ```text
//! TO/LOCK                         held while a backup is written
//! TO/files/NODE/NAME.SIZE.CRC32C  files of a node, by its uuid; several backups share them
//! TO/backups/ID                   a manifest behind its checksum, written last: a backup without one does not exist
//! TO/log/...                      the archived log: see `archive.rs`
//! ```

mod log;

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use helve_proto::v1::BackupManifest;
use prost::Message as _;
use rustix::fs::{FlockOperation, flock};

use super::{
    Backup, BackupError, BackupFile, FILE_KEY_BYTES,
    delete::{Deleted, Plan, Run, Stored, plan},
    file_key,
};
use crate::{
    limits::BACKUP_HELD_MAX,
    stamp,
    storage::{checkpoint, durable_file},
};

const LOCK_NAME: &str = "LOCK";
const FILES_NAME: &str = "files";
const BACKUPS_NAME: &str = "backups";

/// A directory of backups.
#[derive(Debug)]
pub struct BackupDir {
    path: PathBuf,
    /// Locked while it is open, by a process that writes.
    _lock: Option<File>,
}

/// A manifest of a directory, read or not.
#[derive(Debug)]
pub struct Listed {
    /// The backup's id, by the name of its manifest.
    pub id: String,
    /// What the manifest says, or why it cannot be used.
    pub backup: Result<Backup, BackupError>,
}

impl BackupDir {
    /// Opens a directory to read its backups.
    ///
    /// # Errors
    /// If there are none, or it cannot be read.
    pub fn open(path: &Path) -> Result<Self, BackupError> {
        match fs::metadata(path.join(BACKUPS_NAME)) {
            Ok(found) if found.is_dir() => {}
            Err(error) if !is_absent(&error) => {
                return Err(BackupError::io("read", path)(error));
            }
            _ => return Err(BackupError::Nothing(path.to_owned())),
        }
        Ok(Self {
            path: path.to_owned(),
            _lock: None,
        })
    }

    /// Opens a directory to write a backup to it, alone. A new or empty one becomes one for
    /// backups.
    ///
    /// # Errors
    /// If it is something else's, another process writes to it, or it cannot be written.
    pub fn create(path: &Path) -> Result<Self, BackupError> {
        if let Err(error) = fs::create_dir(path)
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(BackupError::io("create", path)(error));
        }
        if !path.join(BACKUPS_NAME).exists() {
            for entry in fs::read_dir(path).map_err(BackupError::io("read", path))? {
                let name = entry.map_err(BackupError::io("read", path))?.file_name();
                let ours = [LOCK_NAME, FILES_NAME, "lost+found"];
                if !ours.iter().any(|ours| name == *ours) {
                    return Err(BackupError::NotOurs(path.to_owned()));
                }
            }
        }
        let lock = lock(&path.join(LOCK_NAME))?;
        let lock = lock.ok_or_else(|| BackupError::InUse(path.to_owned()))?;
        for name in [FILES_NAME, BACKUPS_NAME] {
            create_dir(&path.join(name))?;
        }
        durable_file::sync_parent(path).map_err(BackupError::io("sync", path))?;
        Ok(Self {
            path: path.to_owned(),
            _lock: Some(lock),
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All backups, by their ids: one at least.
    ///
    /// # Errors
    /// If there is none, as where the first one was cut off, or the directory cannot be read.
    pub fn list(&self) -> Result<Vec<Listed>, BackupError> {
        let directory = self.path.join(BACKUPS_NAME);
        let mut listed = Vec::new();
        for entry in fs::read_dir(&directory).map_err(BackupError::io("read", &directory))? {
            let entry = entry.map_err(BackupError::io("read", &directory))?;
            let id = entry.file_name().to_string_lossy().into_owned();
            // What a process that was killed left of a manifest that did not count yet.
            if !id.ends_with(".tmp") {
                let backup = self.read(&id);
                listed.push(Listed { id, backup });
            }
        }
        if listed.is_empty() {
            return Err(BackupError::Nothing(self.path.clone()));
        }
        listed.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(listed)
    }

    /// The backup with this id, or the newest by the cluster's time.
    ///
    /// # Errors
    /// If there is none, or its manifest cannot be used. Without an id: if any manifest cannot,
    /// since that may be the newest.
    pub fn find(&self, id: Option<&str>) -> Result<Backup, BackupError> {
        if let Some(id) = id {
            let is_name = !id.contains('/') && !id.starts_with('.');
            if !is_name || !self.manifest_path(id).exists() {
                return Err(BackupError::NoSuch {
                    path: self.path.clone(),
                    id: id.to_owned(),
                });
            }
            return self.read(id);
        }
        newest(&self.path, self.list()?)
    }

    /// The keys of the files of a node that are there, one after the other.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn held(&self, node_uuid: &str) -> Result<Vec<u8>, BackupError> {
        let directory = self.path.join(FILES_NAME).join(node_uuid);
        let mut keys = Vec::new();
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(keys),
            Err(error) => return Err(BackupError::io("read", &directory)(error)),
        };
        for entry in entries {
            let entry = entry.map_err(BackupError::io("read", &directory))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let size = entry.metadata().map(|metadata| metadata.len());
            if let Some(file) = file_of(&name)
                && size.is_ok_and(|size| size == file.size_bytes)
                && keys.len() < BACKUP_HELD_MAX * FILE_KEY_BYTES
            {
                keys.extend_from_slice(&file_key(&file));
            }
        }
        Ok(keys)
    }

    /// Reads every file of these backups, and says which are not what was written. `read` hears how
    /// many bytes of each were read.
    #[must_use]
    pub fn verify(&self, backups: &[&Backup], mut read: impl FnMut(u64)) -> Vec<BackupError> {
        let mut files = BTreeMap::new();
        for backup in backups {
            for file in backup.files() {
                files.insert(self.file_path(backup, file), file);
            }
        }
        let mut damaged = Vec::new();
        for (path, file) in files {
            damaged.extend(check_file(&path, file).err());
            read(file.size_bytes);
        }
        damaged
    }

    /// Where a file of a backup is.
    #[must_use]
    pub fn file_path(&self, backup: &Backup, file: &BackupFile) -> PathBuf {
        self.files_path(backup).join(stored_name(file))
    }

    /// Where the files of a backup's node are.
    pub(super) fn files_path(&self, backup: &Backup) -> PathBuf {
        self.path.join(FILES_NAME).join(&backup.manifest.node_uuid)
    }

    /// Writes a manifest, durably: from then on there is a backup.
    pub(super) fn publish(&self, backup: &Backup) -> Result<(), BackupError> {
        let path = self.manifest_path(&backup.id());
        durable_file::replace_sealed(&path, &backup.manifest.encode_to_vec())
            .map_err(BackupError::io("write", &path))
    }

    fn read(&self, id: &str) -> Result<Backup, BackupError> {
        let path = self.manifest_path(id);
        let sealed = fs::read(&path).map_err(BackupError::io("read", &path))?;
        manifest_of(&sealed, &path, id)
    }

    /// Deletes a backup: its manifest, and behind it the files and archived segments that no other
    /// backup needs. A dry run only says what would go. Blocks.
    ///
    /// # Errors
    /// If there is no such backup, any manifest cannot be used, or the disk fails. A deletion that
    /// was cut short behind the manifest leaves files, and a later one removes them.
    pub fn delete(
        &self,
        id: &str,
        run: Run,
        unfinished_min: Duration,
    ) -> Result<Deleted, BackupError> {
        let now_s = i64::try_from(stamp::wall_ms() / 1_000).unwrap_or(i64::MAX);
        let age = (now_s, unfinished_min);
        let archive = self.archive()?;
        let stored = (self.stored()?, &archive);
        let plan = plan(&self.path, self.list()?, stored, id, age)?;
        let Plan {
            files,
            segments,
            deleted,
        } = plan;
        if run == Run::Dry {
            return Ok(deleted);
        }
        let remove = |path: &Path| fs::remove_file(path).map_err(BackupError::io("remove", path));
        let manifest = self.manifest_path(id);
        remove(&manifest)?;
        durable_file::sync_parent(&manifest).map_err(BackupError::io("sync", &manifest))?;
        for file in &files {
            let node = self.path.join(FILES_NAME).join(&file.node);
            remove(&node.join(&file.name))?;
        }
        for name in &segments {
            self.remove_log(name)?;
        }
        Ok(deleted)
    }

    /// All files of all nodes that arrived whole.
    fn stored(&self) -> Result<Vec<Stored>, BackupError> {
        let mut stored = Vec::new();
        let of_nodes = self.path.join(FILES_NAME);
        let entries = |path: &Path| fs::read_dir(path).map_err(BackupError::io("read", path));
        for node in entries(&of_nodes)? {
            let node = node.map_err(BackupError::io("read", &of_nodes))?;
            let files = node.path();
            if !files.is_dir() {
                continue;
            }
            for entry in entries(&files)? {
                let entry = entry.map_err(BackupError::io("read", &files))?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let found = entry.metadata();
                let found = found.map_err(BackupError::io("read", entry.path()))?;
                if found.is_file() && file_of(&name).is_some() {
                    stored.push(Stored {
                        node: node.file_name().to_string_lossy().into_owned(),
                        name,
                        size_bytes: found.len(),
                        written_s: found.mtime(),
                    });
                }
            }
        }
        Ok(stored)
    }

    fn manifest_path(&self, id: &str) -> PathBuf {
        self.path.join(BACKUPS_NAME).join(id)
    }
}

/// The newest of these backups by the cluster's time.
///
/// # Errors
/// If there is none, or any cannot be used.
pub(super) fn newest(place: &Path, listed: Vec<Listed>) -> Result<Backup, BackupError> {
    let backups = listed.into_iter().map(|listed| listed.backup);
    let backups: Vec<_> = backups.collect::<Result<_, _>>()?;
    let newest = backups
        .into_iter()
        .max_by_key(|backup| (backup.manifest().clock_ms, backup.manifest().revision));
    newest.ok_or_else(|| BackupError::Nothing(place.to_owned()))
}

/// The backup of a manifest as it is stored, behind its checksum, under its id.
pub(super) fn manifest_of(sealed: &[u8], path: &Path, id: &str) -> Result<Backup, BackupError> {
    let damaged = |detail: &str| BackupError::damaged(path, detail);
    let content = durable_file::open(sealed).ok_or_else(|| damaged("its checksum differs"))?;
    let manifest = BackupManifest::decode(content).map_err(|error| damaged(&error.to_string()))?;
    let backup = Backup::read(manifest).map_err(|error| match error {
        BackupError::Manifest(why) => damaged(&why),
        error => error,
    })?;
    if backup.id() != id {
        return Err(damaged("it is the manifest of another backup"));
    }
    Ok(backup)
}

/// What a file is called where it is kept: it says what must be in it.
pub(super) fn stored_name(file: &BackupFile) -> String {
    format!("{}.{}.{:08x}", file.name, file.size_bytes, file.crc32c)
}

/// Checks that a file is what was written. Reads all of it.
pub(super) fn check_file(path: &Path, file: &BackupFile) -> Result<(), BackupError> {
    let damaged = |detail: &str| BackupError::damaged(path, detail);
    let mut content = match File::open(path) {
        Ok(content) => content,
        Err(error) if is_absent(&error) => return Err(damaged("it is missing")),
        Err(error) => return Err(BackupError::io("read", path)(error)),
    };
    let measured = checkpoint::measure(&mut content);
    let (size_bytes, crc32c) = measured.map_err(BackupError::io("read", path))?;
    if size_bytes != file.size_bytes {
        let why = format!("it has {size_bytes} bytes instead of {}", file.size_bytes);
        return Err(damaged(&why));
    }
    if crc32c != file.crc32c {
        return Err(damaged("its checksum differs"));
    }
    Ok(())
}

/// Locks a file, which is made unless it is there; `None` while another process holds it.
fn lock(path: &Path) -> Result<Option<File>, BackupError> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).open(path);
    let file = file.map_err(BackupError::io("write", path))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(BackupError::io("lock", path)(error.into())),
    }
}

/// Makes a directory, unless it is there.
pub(super) fn create_dir(path: &Path) -> Result<(), BackupError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(BackupError::io("create", path)(error))
        }
        _ => durable_file::sync_parent(path).map_err(BackupError::io("sync", path)),
    }
}

/// The file that a name says it is. `None` for a name that no backup gives: the file is
/// not of a backup then, and is not deleted.
pub(super) fn file_of(name: &str) -> Option<BackupFile> {
    let mut parts = name.rsplitn(3, '.');
    let crc32c = u32::from_str_radix(parts.next()?, 16).ok()?;
    let size_bytes = parts.next()?.parse().ok()?;
    let file = BackupFile {
        name: parts.next()?.to_owned(),
        size_bytes,
        crc32c,
    };
    let is_ours = !name.contains('/') && stored_name(&file) == name;
    is_ours.then_some(file)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}
