//! The directories of the state, and the file that says which of them counts.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{durable_file, error::StorageError};

const PREFIX: &str = "state-";

pub(super) fn pointer_path(root: &Path) -> PathBuf {
    root.join("CURRENT")
}

pub(super) fn generation_path(root: &Path, number: u64) -> PathBuf {
    root.join(format!("{PREFIX}{number}"))
}

pub(super) fn read_pointer(root: &Path) -> Result<Option<u64>, StorageError> {
    let path = pointer_path(root);
    let Some(content) = durable_file::read_sealed(&path)? else {
        return Ok(None);
    };
    let number = std::str::from_utf8(&content)
        .ok()
        .and_then(|number| number.parse().ok());
    match number {
        Some(number) => Ok(Some(number)),
        None => Err(StorageError::damaged(
            path.display().to_string(),
            "it holds no number",
        )),
    }
}

pub(super) fn write_pointer(root: &Path, number: u64) -> Result<(), StorageError> {
    let path = pointer_path(root);
    let written = durable_file::replace_sealed(&path, number.to_string().as_bytes());
    written.map_err(StorageError::io("write", &path))
}

/// The generations that have a directory.
pub(super) fn generations(root: &Path) -> Result<Vec<(u64, PathBuf)>, StorageError> {
    let mut generations = Vec::new();
    for entry in fs::read_dir(root).map_err(StorageError::io("read", root))? {
        let entry = entry.map_err(StorageError::io("read", root))?;
        let name = entry.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.parse().ok());
        if let Some(number) = number {
            generations.push((number, entry.path()));
        }
    }
    Ok(generations)
}
