//! A file that is written whole or not at all: no secret is ever half there, or open to others for a moment.

use std::{
    fs::{File, Permissions},
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use tempfile::NamedTempFile;

/// Who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readers {
    /// Its owner alone: mode 0600.
    Owner,
    /// Every user of the machine: mode 0644.
    Everyone,
}

/// Whether a file that is there may be written over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replace {
    Never,
    Allowed,
}

/// Writes a file, which outlives a power cut from then on. Its directory must be there.
///
/// # Errors
/// [`AlreadyExists`](io::ErrorKind::AlreadyExists) if it is there and stays; else what the operating system says.
pub(super) fn write(
    path: &Path,
    content: &[u8],
    readers: Readers,
    replace: Replace,
) -> io::Result<()> {
    let parent = path.parent().filter(|parent| parent.as_os_str() != "");
    let directory = parent.unwrap_or(Path::new("."));
    // Made for its owner alone, and shown to others only where it may be.
    let mut file = NamedTempFile::new_in(directory).map_err(without_path)?;
    file.write_all(content)?;
    if readers == Readers::Everyone {
        let everyone = Permissions::from_mode(0o644);
        file.as_file().set_permissions(everyone)?;
    }
    file.as_file().sync_all()?;
    match replace {
        Replace::Never => {
            file.persist_noclobber(path)
                .map_err(|refused| match refused.error.kind() {
                    kind @ io::ErrorKind::AlreadyExists => io::Error::new(kind, EXISTS),
                    _ => refused.error,
                })?
        }
        Replace::Allowed => file.persist(path)?,
    };
    File::open(directory)?.sync_all()
}

/// Of a file that would be written over.
const EXISTS: &str = "it exists already; name a new file, or remove this one first";

/// What the operating system said, without the name of the temporary file.
fn without_path(error: io::Error) -> io::Error {
    match error.to_string().split_once(" at path ") {
        Some((said, _)) => io::Error::new(error.kind(), said.to_owned()),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_for_whom_it_is_meant_and_is_written_over_only_where_it_may_be() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        let write = |text: &str, replace| write(&path, text.as_bytes(), Readers::Owner, replace);
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        write("one", Replace::Never).unwrap();
        assert_eq!(mode(), 0o600);
        let refused = write("two", Replace::Never).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert!(refused.to_string().contains("remove this one"), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        super::write(&path, b"two", Readers::Everyone, Replace::Allowed).unwrap();
        assert_eq!(mode(), 0o644);
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        let nowhere = directory.path().join("none/secret");
        let refused = super::write(&nowhere, b"", Readers::Owner, Replace::Never);
        let refused = refused.unwrap_err().to_string();
        assert!(!refused.contains(".tmp"), "{refused}");
        // Nothing else is left behind.
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
