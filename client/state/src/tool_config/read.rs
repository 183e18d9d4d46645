//! Files that a document names.

use std::{
    fs,
    io::{self, Read as _},
    path::Path,
};

use helve_client::{Error, ErrorKind, extend::exposed};
use helve_proto::Reason;

/// Bytes of a document.
const DOCUMENT_BYTES_MAX: u64 = 1 << 20;

/// Whether what a file holds may be known to every user of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrecy {
    Public,
    Secret,
}

pub(super) fn read(path: &Path, secrecy: Secrecy) -> Result<String, Error> {
    let unreadable = |error: io::Error| {
        let message = format!("{}: {error}", path.display());
        Error::new(ErrorKind::Unavailable, message).with_source(error)
    };
    let file = fs::File::open(path).map_err(unreadable)?;
    // Of the open file: its name may lead elsewhere by now.
    let metadata = file.metadata().map_err(unreadable)?;
    if let Some(why) = exposed(path, &metadata).filter(|_| secrecy == Secrecy::Secret) {
        return Err(refused(format!(
            "{} holds a secret, and {why}, and change the secret if others may have read it",
            path.display()
        )));
    }
    let mut text = String::new();
    let mut file = file.take(DOCUMENT_BYTES_MAX + 1);
    let bytes = file.read_to_string(&mut text).map_err(unreadable)?;
    if bytes as u64 > DOCUMENT_BYTES_MAX {
        return Err(refused(format!(
            "{} has more than {DOCUMENT_BYTES_MAX} bytes",
            path.display()
        )));
    }
    Ok(text)
}

pub(super) fn refused(message: impl Into<String>) -> Error {
    Error::refused(Reason::BadRequest, message, 0, 0)
}
