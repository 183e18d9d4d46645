//! Errors of the disk.

use std::path::Path;

use helve_client::{Error, ErrorKind};

/// An error before anything was changed.
pub(super) fn before(path: &Path, error: std::io::Error) -> Error {
    let message = format!("{}: {error}", path.display());
    let kind = match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => ErrorKind::Full,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, message).with_source(error)
}

/// An error after the change may have been made.
pub(super) fn after(path: &Path, error: std::io::Error) -> Error {
    crate::tools::failures::ambiguous(&format!("{} could not be synced", path.display()), error)
}
