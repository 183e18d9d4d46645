//! Files of secrets that other users of the machine may read or write.

use std::{
    fs::Metadata,
    path::{Path, PathBuf},
};

/// Permissions of users who neither own a file nor are in its group.
#[cfg(unix)]
const OTHERS: u32 = 0o007;

/// Why a secret must not be taken from a file: users who neither own it nor are in its group may read or write it.
///
/// The group may: Kubernetes mounts secrets as root's, for the group of the pod.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("other users of this machine may read or write it (mode {mode:03o}): chmod 600 {}", path.display())]
pub struct Exposed {
    path: PathBuf,
    mode: u32,
}

impl Exposed {
    /// Checks a file that is open: its name may lead elsewhere by now.
    ///
    /// # Errors
    /// If its permissions are too wide. They are not looked at where there are none.
    #[cfg(unix)]
    pub fn check(path: &Path, metadata: &Metadata) -> Result<(), Self> {
        use std::os::unix::fs::MetadataExt as _;
        let mode = metadata.mode() & 0o777;
        if mode & OTHERS == 0 {
            return Ok(());
        }
        let path = path.to_owned();
        Err(Self { path, mode })
    }

    /// Checks a file that is open: permissions are not known here.
    ///
    /// # Errors
    /// Never.
    #[cfg(not(unix))]
    pub fn check(_: &Path, _: &Metadata) -> Result<(), Self> {
        Ok(())
    }
}
