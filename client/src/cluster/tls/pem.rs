//! Certificates and keys in PEM, given or in a file.

use std::{fs, io::Read as _, path::PathBuf, sync::Arc};

use zeroize::Zeroizing;

use super::refused;
use crate::{cluster::bearer::exposed, error::Error};

/// Bytes of a file: a bundle of CAs has some hundred KiB.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where PEM comes from.
#[derive(Clone)]
pub(super) enum Pem {
    Given(Arc<Zeroizing<Vec<u8>>>),
    File {
        path: PathBuf,
        /// Whether other users must not be able to read it.
        is_secret: bool,
    },
}

impl Pem {
    pub(super) fn given(pem: impl AsRef<[u8]>) -> Self {
        Self::Given(Arc::new(Zeroizing::new(pem.as_ref().to_vec())))
    }

    pub(super) fn public(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let is_secret = false;
        Self::File { path, is_secret }
    }

    pub(super) fn secret(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let is_secret = true;
        Self::File { path, is_secret }
    }

    pub(super) fn is_given(&self) -> bool {
        matches!(self, Self::Given(_))
    }

    /// What it holds now.
    ///
    /// # Errors
    /// If a file cannot be read, is too large, or is open to all and must not be.
    pub(super) fn read(&self) -> Result<Arc<Zeroizing<Vec<u8>>>, Error> {
        let (path, is_secret) = match self {
            Self::Given(pem) => return Ok(Arc::clone(pem)),
            Self::File { path, is_secret } => (path, *is_secret),
        };
        let wrong = |what: &str| refused(format!("{}: {what}", path.display()));
        let unreadable = |error| wrong("it cannot be read").with_source(error);
        let file = fs::File::open(path).map_err(unreadable)?;
        // Of the open file: its name may lead elsewhere by now.
        let metadata = file.metadata().map_err(unreadable)?;
        if let Some(why) = exposed(path, &metadata).filter(|_| is_secret) {
            return Err(wrong(&why));
        }
        let mut pem = Zeroizing::new(Vec::new());
        let mut file = file.take(FILE_BYTES_MAX + 1);
        let bytes = file.read_to_end(&mut pem).map_err(unreadable)?;
        if bytes as u64 > FILE_BYTES_MAX {
            return Err(wrong("it has over 1 MiB, and holds something else"));
        }
        Ok(Arc::new(pem))
    }
}
