//! Small files that are replaced whole: a crash leaves the old content or the new, never a mixture.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

use super::error::StorageError;
use crate::failpoint::{self, Failpoint};

/// Replaces the content of `path`; durable once this returns.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    let mut file = File::create(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    failpoint::pass(Failpoint::FileBeforeRename);
    fs::rename(&temporary, path)?;
    sync_parent(path)
}

/// Replaces the content of `path` with a checksummed one, for [`read_sealed`].
pub(crate) fn replace_sealed(path: &Path, content: &[u8]) -> io::Result<()> {
    replace(path, &seal(content))
}

/// Replaces the content of `path` with a checksummed one, for [`read_sealed`], without waiting for the disk. After a power cut the
/// content may be the old one, or damaged.
pub(super) fn replace_sealed_unsynced(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    fs::write(&temporary, seal(content))?;
    fs::rename(&temporary, path)
}

/// Reads what [`replace_sealed`] wrote; `None` if there is no such file.
pub(super) fn read_sealed(path: &Path) -> Result<Option<Vec<u8>>, StorageError> {
    let sealed = match fs::read(path) {
        Ok(sealed) => sealed,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(StorageError::io("read", path)(e)),
    };
    match open(&sealed) {
        Some(content) => Ok(Some(content.to_vec())),
        None => Err(StorageError::damaged(
            path.display().to_string(),
            "its checksum differs",
        )),
    }
}

/// Makes the directory of `path` durable: its creation, removal or new name.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    sync_dir(parent_of(path))
}

/// The directory of a name: the current one for a bare name, and itself for the root.
pub(super) fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// `content` with its checksum in front.
pub(crate) fn seal(content: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(content.len() + 4);
    sealed.extend_from_slice(&crc32c::crc32c(content).to_le_bytes());
    sealed.extend_from_slice(content);
    sealed
}

/// The content, if its checksum holds.
pub(crate) fn open(sealed: &[u8]) -> Option<&[u8]> {
    let (checksum, content) = sealed.split_first_chunk::<4>()?;
    (crc32c::crc32c(content) == u32::from_le_bytes(*checksum)).then_some(content)
}
