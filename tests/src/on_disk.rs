//! What the files of a node hold.

use std::{fs, io, path::Path};

/// The files below a directory that hold these bytes, compressed ones aside.
///
/// # Errors
/// If one cannot be read.
pub fn files_with(directory: &Path, mark: &[u8]) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files_with(&path, mark)?);
        } else if fs::read(&path)?
            .windows(mark.len())
            .any(|part| part == mark)
        {
            found.push(path.display().to_string());
        }
    }
    Ok(found)
}
