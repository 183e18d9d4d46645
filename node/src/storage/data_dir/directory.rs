//! The directory itself: made, closed to other users, and locked.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
    process,
};

use rustix::fs::{FlockOperation, flock};

use super::{DataDirError, LOCK_NAME, durable_file, failed};

pub(super) fn create(path: &Path) -> Result<(), DataDirError> {
    match fs::create_dir(path) {
        Ok(()) => durable_file::sync_parent(path).map_err(|e| failed(path, e)),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => match fs::metadata(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                Err(DataDirError::Dangling(path.to_owned()))
            }
            found => found.map(drop).map_err(|e| failed(path, e)),
        },
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            Err(DataDirError::Missing(path.to_owned()))
        }
        Err(e) => Err(failed(path, e)),
    }
}

/// Takes all rights to a node's directory from other users: it holds callers' values, and files of an earlier version may be readable.
/// A directory of another owner, such as the root of a volume, keeps its rights: its new files are this user's alone by the umask.
pub(super) fn close_to_others(path: &Path) -> Result<(), DataDirError> {
    let mode = fs::metadata(path).map_err(|e| failed(path, e))?.mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    match fs::set_permissions(path, fs::Permissions::from_mode(0o700)) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            tracing::warn!(
                path = %path.display(), mode = format!("{:o}", mode & 0o7777),
                "other users may list the data directory, which this user does not own: chmod 700 it"
            );
            Ok(())
        }
        closed => closed.map_err(|e| failed(path, e)),
    }
}

/// A lock file, or an identity that was never finished, is left from a start that failed; `lost+found` makes a fresh disk's root.
pub(super) fn is_empty(path: &Path) -> Result<bool, DataDirError> {
    for entry in fs::read_dir(path).map_err(|e| failed(path, e))? {
        let name = entry.map_err(|e| failed(path, e))?.file_name();
        let left = [LOCK_NAME, "node.json.tmp", "lost+found"];
        if !left.iter().any(|left| name == *left) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The kernel lets go of the lock when the process ends, however it ends.
pub(super) fn lock(path: &Path) -> Result<File, DataDirError> {
    let lock_path = path.join(LOCK_NAME);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(lock_path);
    let mut file = file.map_err(|e| failed(path, e))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut pid = String::new();
            let pid = match file.read_to_string(&mut pid) {
                Ok(_) if !pid.trim().is_empty() => pid.trim().to_owned(),
                Ok(_) | Err(_) => "(unknown)".to_owned(),
            };
            return Err(DataDirError::InUse {
                path: path.to_owned(),
                pid,
            });
        }
        Err(e) => return Err(failed(path, e.into())),
    }
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", process::id()))
        .map_err(|e| failed(path, e))?;
    Ok(file)
}
