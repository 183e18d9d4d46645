//! Files and directories that only their owner may read: they hold callers' values.
//!
//! The mode is set on what exists already, too: the umask decides for files of an earlier version, or of an operator.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::Path,
};

/// Opens a file by these options, with mode 0600 on Unix.
pub(crate) fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    let file = options.open(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        if file.metadata()?.permissions().mode() & 0o077 != 0 {
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
        }
    }
    Ok(file)
}

/// Creates an empty file, or empties it, with mode 0600 on Unix.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    open(
        File::options().write(true).create(true).truncate(true),
        path,
    )
}

/// Creates a directory and those above it, with mode 0700 on Unix; one that exists keeps its mode.
#[cfg(feature = "file")]
pub(crate) fn create_directories(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}
