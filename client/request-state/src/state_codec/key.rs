//! The operator's key.

use std::{fmt, path::Path};

use helve_client::{Error, ErrorKind};
use helve_seal::{Secret, SecretError};

use super::primitives::random;

/// Bytes that a key must have at least.
pub const OPERATOR_KEY_BYTES_MIN: usize = helve_seal::SECRET_BYTES_MIN;

/// A secret of at least 32 bytes, from which the codecs derive their keys. Wiped from memory when dropped; never printed.
#[derive(Clone)]
pub struct OperatorKey(Secret);

impl OperatorKey {
    /// This secret. It must be random: a passphrase is no key.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if it is shorter than [`OPERATOR_KEY_BYTES_MIN`].
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, Error> {
        let refused = |error: SecretError| Error::new(ErrorKind::Invalid, error.to_string());
        Secret::new(bytes).map(Self).map_err(refused)
    }

    /// A new random secret that only this process knows: states that it seals hold in no other replica and not after a restart.
    /// Says so in the log.
    ///
    /// # Errors
    /// [`Entropy`](ErrorKind::Entropy) if there is no randomness.
    pub fn ephemeral() -> Result<Self, Error> {
        tracing::warn!(
            "request states are sealed under an ephemeral key: no other replica opens them, nor this one after a restart"
        );
        Self::generate()
    }

    pub(super) fn generate() -> Result<Self, Error> {
        Self::new(random::<OPERATOR_KEY_BYTES_MIN>()?)
    }

    /// Reads the secret in a file: one line of 64 or more hexadecimal digits, or of base64 for at
    /// least 32 bytes, white space around it aside; or 32, 48, 64, 96, 128, 256, 512, 1024, 2048 or
    /// 4096 bytes that are no text, as they are.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if the file cannot be read, is open to other users of the
    /// machine, or holds anything else: the message says what it looks like.
    pub fn read(path: &Path) -> Result<Self, Error> {
        Secret::read(path).map(Self).map_err(|error| {
            let message = format!("the key file {}: {error}", path.display());
            Error::new(ErrorKind::Invalid, message).with_source(error)
        })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    pub(crate) fn secret(&self) -> &Secret {
        &self.0
    }
}

impl fmt::Debug for OperatorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OperatorKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_key_file_names_it() {
        let path = Path::new("/no/such/key");
        let error = OperatorKey::read(path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.message().contains("/no/such/key"), "{error}");
        assert!(OperatorKey::new(*b"31 bytes are one byte too short").is_err());
    }

    #[test]
    fn a_key_is_never_printed() {
        let key = OperatorKey::new([7; 32]).unwrap();
        assert_eq!(format!("{key:?}"), "OperatorKey(..)");
    }
}
