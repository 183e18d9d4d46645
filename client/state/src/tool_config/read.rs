//! Files that a document names.

use std::{fs::Metadata, io, path::Path};

use helve_client::{
    Error, ErrorKind,
    extend::{NamedContent, exposed, read_named},
};
use helve_proto::Reason;

/// Bytes of a document.
const DOCUMENT_BYTES_MAX: u64 = 1 << 20;

/// Whether what a file holds may be known to every user of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrecy {
    Public,
    Secret,
}

/// The text of a file.
#[cfg(any(feature = "redis", feature = "postgres", feature = "s3"))]
pub(super) fn read(path: &Path, secrecy: Secrecy) -> Result<String, Error> {
    let content = content(path, secrecy)?;
    text(path, &content).map(str::to_owned)
}

/// What a file holds, or a pipe whose writer ends in time. What a pipe held is not there a second
/// time.
pub(super) fn content(path: &Path, secrecy: Secrecy) -> Result<NamedContent, Error> {
    let content = read_named(path, DOCUMENT_BYTES_MAX).map_err(|error| unreadable(path, error))?;
    if secrecy == Secrecy::Secret {
        check_secret(path, &content.metadata)?;
    }
    if content.bytes.len() as u64 > DOCUMENT_BYTES_MAX {
        return Err(refused(format!(
            "{} has more than {DOCUMENT_BYTES_MAX} bytes",
            path.display()
        )));
    }
    Ok(content)
}

/// Refuses a file with a secret that every user of the machine can read.
pub(super) fn check_secret(path: &Path, metadata: &Metadata) -> Result<(), Error> {
    match exposed(path, metadata) {
        None => Ok(()),
        Some(why) => Err(refused(format!(
            "{} holds a secret, and {why}, and change the secret if others may have read it",
            path.display()
        ))),
    }
}

/// It as text.
pub(super) fn text<'a>(path: &Path, content: &'a NamedContent) -> Result<&'a str, Error> {
    std::str::from_utf8(&content.bytes).map_err(|_| {
        let error = io::Error::new(io::ErrorKind::InvalidData, "it is no text in UTF-8");
        unreadable(path, error)
    })
}

fn unreadable(path: &Path, error: io::Error) -> Error {
    let message = format!("{}: {error}", path.display());
    Error::new(ErrorKind::Unavailable, message).with_source(error)
}

pub(super) fn refused(message: impl Into<String>) -> Error {
    Error::refused(Reason::BadRequest, message, 0, 0)
}
