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
    let mut file = NamedTempFile::new_in(directory).map_err(advised)?;
    file.write_all(content).map_err(advised)?;
    if readers == Readers::Everyone {
        let everyone = Permissions::from_mode(0o644);
        file.as_file().set_permissions(everyone)?;
    }
    file.as_file().sync_all().map_err(advised)?;
    let kept = match replace {
        Replace::Never => file.persist_noclobber(path),
        Replace::Allowed => file.persist(path),
    };
    kept.map_err(|refused| advised(refused.error))?;
    File::open(directory)?.sync_all()
}

/// What to do about a file that cannot be made.
fn advised(error: io::Error) -> io::Error {
    let advice = match error.kind() {
        io::ErrorKind::NotFound => {
            "its directory does not exist; create that, or name another file"
        }
        io::ErrorKind::NotADirectory => "it lies in a file; name one in a directory",
        io::ErrorKind::PermissionDenied => {
            "this user may not write its directory; grant that, or name another file"
        }
        io::ErrorKind::AlreadyExists => {
            "it exists already; name a new file, or remove this one first"
        }
        io::ErrorKind::IsADirectory => "it is a directory; name a file in it",
        io::ErrorKind::StorageFull => "its disk is full; free space there, or name another file",
        io::ErrorKind::ReadOnlyFilesystem => {
            "its file system is read-only; name a file on another one"
        }
        _ => return without_path(error),
    };
    io::Error::new(error.kind(), advice)
}

/// What to do about a directory that cannot be made.
pub(super) fn directory_advice(error: &io::Error) -> String {
    let advice = match error.kind() {
        io::ErrorKind::AlreadyExists => {
            "it is, or lies in, a link to a directory that does not exist; create that, or remove the link"
        }
        io::ErrorKind::NotFound => {
            "the directory above it does not exist, and cannot be made; name another directory"
        }
        io::ErrorKind::NotADirectory => "it lies in a file; name a directory",
        io::ErrorKind::PermissionDenied => {
            "this user may not create it; grant that, or name another directory"
        }
        io::ErrorKind::StorageFull => {
            "its disk is full; free space there, or name another directory"
        }
        io::ErrorKind::ReadOnlyFilesystem => "its file system is read-only; name another directory",
        _ => return format!("it cannot be created: {error}; name another directory"),
    };
    advice.to_owned()
}

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
        assert!(refused.contains("create that"), "{refused}");
        let within = super::write(&path.join("x"), b"", Readers::Owner, Replace::Never);
        let within = within.unwrap_err().to_string();
        assert!(within.contains("name one in a directory"), "{within}");
        // Nothing else is left behind.
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
