//! The operator's key.

use std::{fmt, fs, io::Read, path::Path};

use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD, HEXLOWER_PERMISSIVE};
use zeroize::Zeroizing;

use super::random;
use crate::error::{Error, ErrorKind};

/// Bytes that a key must have at least.
pub const OPERATOR_KEY_BYTES_MIN: usize = 32;
/// More than this is no key.
const FILE_BYTES_MAX: u64 = 4096;

/// A secret of at least 32 bytes, from which the codecs derive their keys. Wiped from memory when dropped; never printed.
#[derive(Clone)]
pub struct OperatorKey {
    bytes: Zeroizing<Vec<u8>>,
}

impl OperatorKey {
    /// This secret. It must be random: a passphrase is no key.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if it is shorter than [`OPERATOR_KEY_BYTES_MIN`].
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, Error> {
        let bytes = Zeroizing::new(bytes.into());
        if bytes.len() < OPERATOR_KEY_BYTES_MIN {
            let message = format!(
                "a key of {} bytes: it must be at least {OPERATOR_KEY_BYTES_MIN} bytes long",
                bytes.len()
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(Self { bytes })
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
        let bytes = Zeroizing::new(random::<OPERATOR_KEY_BYTES_MIN>()?);
        Self::new(bytes.to_vec())
    }

    /// The secret in a file: 64 or more hexadecimal digits, or base64 of at least 32 bytes, white space around them aside;
    /// else the file's bytes as they are.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if the file cannot be read, is open to other users of the machine, or holds too little or
    /// too much.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let refused = |what: &str| {
            let message = format!("the key file {}: {what}", path.display());
            Error::new(ErrorKind::Invalid, message)
        };
        let unreadable = |error| refused("it cannot be read").with_source(error);
        let file = fs::File::open(path).map_err(unreadable)?;
        // Of the open file: its name may lead elsewhere by now.
        let metadata = file.metadata().map_err(unreadable)?;
        if open_to_others(&metadata) {
            return Err(refused(
                "other users of this machine may read or write it: chmod 600 it",
            ));
        }
        let mut content = Zeroizing::new(Vec::new());
        file.take(FILE_BYTES_MAX + 1)
            .read_to_end(&mut content)
            .map_err(unreadable)?;
        if content.len() as u64 > FILE_BYTES_MAX {
            return Err(refused("it is too long for a key"));
        }
        Self::new(decode(&content)).map_err(|error| refused(error.message()))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for OperatorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OperatorKey(..)")
    }
}

#[cfg(unix)]
fn open_to_others(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    metadata.mode() & 0o007 != 0
}

#[cfg(not(unix))]
fn open_to_others(_: &fs::Metadata) -> bool {
    false
}

fn decode(content: &[u8]) -> Vec<u8> {
    let text = content.trim_ascii();
    let encodings = [
        HEXLOWER_PERMISSIVE,
        BASE64,
        BASE64URL,
        BASE64_NOPAD,
        BASE64URL_NOPAD,
    ];
    encodings
        .iter()
        .filter_map(|encoding| encoding.decode(text).ok())
        .find(|bytes| bytes.len() >= OPERATOR_KEY_BYTES_MIN)
        .unwrap_or_else(|| content.to_vec())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const KEY: [u8; 32] = *b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f";

    fn written(content: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        file
    }

    #[test]
    fn a_key_file_is_hex_base64_or_the_bytes_themselves() {
        let hex = data_encoding::HEXUPPER.encode(&KEY);
        let base64 = format!("  {}\n", BASE64.encode(&KEY));
        let unpadded = BASE64URL_NOPAD.encode(&KEY);
        for content in [hex.as_bytes(), base64.as_bytes(), unpadded.as_bytes(), &KEY] {
            let key = OperatorKey::read(written(content).path()).unwrap();
            assert_eq!(key.bytes(), KEY);
        }
        let text = b"this is not base64, and used as it is\n";
        let key = OperatorKey::read(written(text).path()).unwrap();
        assert_eq!(key.bytes(), text, "a raw key may end in any byte");
    }

    #[test]
    fn short_long_and_missing_keys_are_refused_and_say_which() {
        for content in [&b""[..], &KEY[..31], &[7; 4097][..]] {
            let file = written(content);
            let error = OperatorKey::read(file.path()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            let path = file.path().to_str().unwrap();
            assert!(error.message().contains(path), "{error}");
        }
        assert!(OperatorKey::read(Path::new("/no/such/key")).is_err());
        assert!(OperatorKey::new(*b"31 bytes are one byte too short").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_key_that_other_users_may_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let file = written(&KEY);
        for mode in [0o604, 0o602, 0o644] {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
            let error = OperatorKey::read(file.path()).unwrap_err();
            assert!(error.message().contains("chmod"), "{error}");
        }
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o640)).unwrap();
        assert!(OperatorKey::read(file.path()).is_ok());
    }

    #[test]
    fn a_key_is_never_printed() {
        let key = OperatorKey::new(KEY).unwrap();
        assert_eq!(format!("{key:?}"), "OperatorKey(..)");
    }
}
