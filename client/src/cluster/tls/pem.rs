//! Certificates and keys in PEM, given or in a file.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use zeroize::Zeroizing;

use super::refused;
use crate::{
    cluster::{bearer::exposed, named},
    error::Error,
};

/// Bytes of a file: a bundle of CAs has some hundred KiB.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Bytes that are wiped from memory when the last one who holds them is done.
type Shared = Arc<Zeroizing<Vec<u8>>>;

/// Where PEM comes from.
#[derive(Clone)]
pub(super) enum Pem {
    Given(Shared),
    File {
        path: PathBuf,
        /// Whether other users must not be able to read it.
        is_secret: bool,
        /// What a pipe held, which can be read once.
        piped: Arc<Mutex<Option<Shared>>>,
    },
}

impl Pem {
    pub(super) fn given(pem: impl AsRef<[u8]>) -> Self {
        Self::Given(Arc::new(Zeroizing::new(pem.as_ref().to_vec())))
    }

    pub(super) fn public(path: impl Into<PathBuf>) -> Self {
        Self::File {
            path: path.into(),
            is_secret: false,
            piped: Arc::default(),
        }
    }

    pub(super) fn secret(path: impl Into<PathBuf>) -> Self {
        Self::File {
            path: path.into(),
            is_secret: true,
            piped: Arc::default(),
        }
    }

    pub(super) fn is_given(&self) -> bool {
        matches!(self, Self::Given(_))
    }

    /// What it holds now.
    ///
    /// # Errors
    /// If a file cannot be read, is too large, or is open to all and must not be.
    pub(super) fn read(&self) -> Result<Shared, Error> {
        let (path, is_secret, piped) = match self {
            Self::Given(pem) => return Ok(Arc::clone(pem)),
            Self::File {
                path,
                is_secret,
                piped,
            } => (path, *is_secret, piped),
        };
        // Locked while it is read: two readers of a pipe would each have a part of it.
        let mut piped = piped.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pem) = &*piped {
            return Ok(Arc::clone(pem));
        }
        let wrong = |what: &str| refused(format!("{}: {what}", path.display()));
        let unreadable = |error| {
            wrong("it cannot be read: name a file that this user may read").with_source(error)
        };
        let named::Content { bytes, metadata } =
            named::read(path, FILE_BYTES_MAX).map_err(unreadable)?;
        if let Some(why) = exposed(path, &metadata).filter(|_| is_secret) {
            return Err(wrong(&why));
        }
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(wrong("it has over 1 MiB, and holds something else"));
        }
        let pem = Arc::new(bytes);
        if !metadata.is_file() {
            *piped = Some(Arc::clone(&pem));
        }
        Ok(pem)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::{fs, thread};

    use super::*;

    #[test]
    fn pem_of_a_pipe_is_read_once_for_all_connections() {
        let directory = tempfile::tempdir().expect("a place for files");
        let path = named::tests::pipe(directory.path());
        let pem = Pem::public(&path);
        let writer = thread::spawn(move || fs::write(path, "a certificate"));
        for _ in 0..2 {
            let read = pem.clone().read().expect("it has a writer");
            assert_eq!(read[..], *b"a certificate");
        }
        let written = writer.join().expect("the writer ends");
        written.expect("it is read");
    }
}
