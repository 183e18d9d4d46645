//! A secret, from a file.

use std::{fmt, fs, io, io::Read, path::Path};

use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD, HEXLOWER_PERMISSIVE};
use zeroize::Zeroizing;

/// Bytes that a secret must have at least.
pub const SECRET_BYTES_MIN: usize = 32;
/// More than this is no key.
const FILE_BYTES_MAX: u64 = 4096;

/// Why there is no secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// It is too short to be one.
    #[error("a key of {0} bytes: it must be at least {SECRET_BYTES_MIN} bytes long")]
    TooShort(usize),
    /// It is too long to be one.
    #[error("it is too long for a key")]
    TooLong,
    /// Its file is open to others.
    #[error("other users of this machine may read or write it: chmod 600 it")]
    OpenToOthers,
    /// Its file cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
}

/// A secret of at least 32 bytes, from which keys are derived. Wiped from memory when dropped; never printed.
#[derive(Clone)]
pub struct Secret {
    bytes: Zeroizing<Vec<u8>>,
}

impl Secret {
    /// This secret. It must be random: a passphrase is no key.
    ///
    /// # Errors
    /// [`TooShort`](SecretError::TooShort) if it has fewer than [`SECRET_BYTES_MIN`] bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, SecretError> {
        let bytes = Zeroizing::new(bytes.into());
        if bytes.len() < SECRET_BYTES_MIN {
            return Err(SecretError::TooShort(bytes.len()));
        }
        Ok(Self { bytes })
    }

    /// The secret in a file: 64 or more hexadecimal digits, or base64 of at least 32 bytes, white space around them aside;
    /// else the file's bytes as they are.
    ///
    /// # Errors
    /// If the file cannot be read, is open to other users of the machine, or holds too little or too much.
    pub fn read(path: &Path) -> Result<Self, SecretError> {
        let file = fs::File::open(path)?;
        // Of the open file: its name may lead elsewhere by now.
        if open_to_others(&file.metadata()?) {
            return Err(SecretError::OpenToOthers);
        }
        let mut content = Zeroizing::new(Vec::new());
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut content)?;
        if content.len() as u64 > FILE_BYTES_MAX {
            return Err(SecretError::TooLong);
        }
        Self::new(decode(&content))
    }

    /// What it is.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
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
        .find(|bytes| bytes.len() >= SECRET_BYTES_MIN)
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
            let key = Secret::read(written(content).path()).unwrap();
            assert_eq!(key.bytes(), KEY);
        }
        let text = b"this is not base64, and used as it is\n";
        let key = Secret::read(written(text).path()).unwrap();
        assert_eq!(key.bytes(), text, "a raw key may end in any byte");
    }

    #[test]
    fn short_long_and_missing_keys_are_refused() {
        for content in [&b""[..], &KEY[..31]] {
            let read = Secret::read(written(content).path());
            assert!(matches!(read, Err(SecretError::TooShort(bytes)) if bytes == content.len()));
        }
        let long = Secret::read(written(&[7; 4097]).path());
        assert!(matches!(long, Err(SecretError::TooLong)));
        let missing = Secret::read(Path::new("/no/such/key"));
        assert!(matches!(missing, Err(SecretError::Unreadable(_))));
    }

    #[cfg(unix)]
    #[test]
    fn a_key_that_other_users_may_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let file = written(&KEY);
        for mode in [0o604, 0o602, 0o644] {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
            let read = Secret::read(file.path());
            assert!(matches!(read, Err(SecretError::OpenToOthers)), "{read:?}");
        }
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o640)).unwrap();
        assert!(Secret::read(file.path()).is_ok());
    }
}
