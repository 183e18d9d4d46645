//! How full the disk is.

use std::{fs, io, path::Path};

/// Bytes that an ordinary user can still write to the file system of `path`.
///
/// # Errors
/// If the file system cannot be asked.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Bytes in the files below `path`. Files that vanish meanwhile count nothing; a file with several names counts once a name.
///
/// # Errors
/// If a directory cannot be read.
pub fn used_bytes(path: &Path) -> io::Result<u64> {
    let mut used = 0;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        used += match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => used_bytes(&entry.path())?,
            Ok(metadata) => metadata.len(),
            Err(e) if e.kind() == io::ErrorKind::NotFound => 0,
            Err(e) => return Err(e),
        };
    }
    Ok(used)
}
