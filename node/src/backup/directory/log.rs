//! The archived log in a directory.

use std::{
    fs,
    path::{Path, PathBuf},
};

use bytes::Bytes;

use super::{BACKUPS_NAME, BackupDir, LOCK_NAME, create_dir, is_absent, lock};
use crate::{
    backup::{BackupError, archive::Archive, segment_path::LOG_NAME},
    limits::SEGMENT_FILE_BYTES_MAX,
    storage::durable_file,
};

impl BackupDir {
    /// Opens a directory to archive the log there, alone. Backups may be made and deleted meanwhile.
    ///
    /// # Errors
    /// If it has no backups, another process archives there, or it cannot be written.
    pub(in crate::backup) fn open_to_follow(path: &Path) -> Result<Self, BackupError> {
        let mut directory = Self::open(path)?;
        let log = path.join(LOG_NAME);
        create_dir(&log)?;
        let lock = lock(&log.join(LOCK_NAME))?;
        let lock = lock.ok_or_else(|| BackupError::Followed(path.to_owned()))?;
        directory._lock = Some(lock);
        Ok(directory)
    }

    /// All segments.
    pub(in crate::backup) fn archive(&self) -> Result<Archive, BackupError> {
        let mut files = Vec::new();
        for run in paths(&self.path.join(LOG_NAME))? {
            let id = name_of(&run);
            for path in paths(&run)? {
                // One that is removed meanwhile is none.
                let size = fs::metadata(&path).map(|found| found.len());
                let name = format!("{id}/{}", name_of(&path));
                files.extend(size.ok().map(|size_bytes| (name, size_bytes)));
            }
        }
        Ok(Archive::of(files))
    }

    /// The ids of all backups, by the names of their manifests, which are not read.
    pub(in crate::backup) fn ids(&self) -> Result<Vec<String>, BackupError> {
        // If all of it is gone, a disk may have been unmounted.
        fs::metadata(&self.path).map_err(BackupError::io("read", &self.path))?;
        let manifests = paths(&self.path.join(BACKUPS_NAME))?;
        Ok(manifests.iter().map(|path| name_of(path)).collect())
    }

    /// What is in a segment; `None` if it is not there.
    pub(in crate::backup) fn read_log(&self, name: &str) -> Result<Option<Bytes>, BackupError> {
        let path = self.path.join(name);
        if fs::metadata(&path).is_ok_and(|found| found.len() > SEGMENT_FILE_BYTES_MAX) {
            return Err(BackupError::damaged(path, "it is too large for a segment"));
        }
        match fs::read(&path) {
            Ok(content) => Ok(Some(content.into())),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(BackupError::io("read", &path)(error)),
        }
    }

    /// Keeps a segment, durably.
    pub(in crate::backup) fn put_log(&self, name: &str, content: &[u8]) -> Result<(), BackupError> {
        let path = self.path.join(name);
        if let Some(run) = path.parent() {
            create_dir(run)?;
        }
        durable_file::replace(&path, content).map_err(BackupError::io("write", &path))
    }

    /// Removes a segment.
    pub(in crate::backup) fn remove_log(&self, name: &str) -> Result<(), BackupError> {
        let path = self.path.join(name);
        match fs::remove_file(&path) {
            Err(error) if !is_absent(&error) => Err(BackupError::io("remove", &path)(error)),
            _ => Ok(()),
        }
    }
}

/// What is in a directory; nothing if there is none.
fn paths(directory: &Path) -> Result<Vec<PathBuf>, BackupError> {
    let unread = |error| BackupError::io("read", directory)(error);
    match fs::read_dir(directory) {
        Ok(found) => {
            let paths = found.map(|entry| entry.map(|entry| entry.path()));
            paths.collect::<Result<_, _>>().map_err(unread)
        }
        Err(error) if is_absent(&error) => Ok(Vec::new()),
        Err(error) => Err(unread(error)),
    }
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
