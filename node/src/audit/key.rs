//! The operator's key for the audit log: its holder can check the chain, and find a record by the
//! hash of its id.

use std::{fmt, io, path::Path};

use helve_seal::{Exposed, Looks, NamedContent};
use zeroize::Zeroizing;

/// Fewer bytes are no key.
const BYTES_MIN: usize = 32;
/// Nor are more.
const BYTES_MAX: u64 = 4_096;

/// A secret of at least 32 bytes. Wiped from memory when dropped; never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct AuditKey(Zeroizing<Vec<u8>>);

/// Why a file holds no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It cannot be read.
    #[error("it cannot be read: {0}; name a file with a key that this user may read")]
    Io(#[from] io::Error),
    /// Others could read it, or put a key of their own in its place.
    #[error(transparent)]
    Exposed(#[from] Exposed),
    /// It may be public, or was saved in another encoding than the key.
    #[error(
        "it looks like {0}, and a key holds random bytes and nothing else, as `helve data-key new` writes them"
    )]
    NotAKey(Looks),
    /// It is too short or too long.
    #[error("it holds {0} bytes: write 32 to 4096 random ones, as in `head -c 32 /dev/urandom`")]
    Length(usize),
}

impl AuditKey {
    /// The bytes of this file, as they are. Base64 and hexadecimal digits are not decoded, so that
    /// logs that were written under such a file stay verifiable.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let NamedContent { bytes, metadata } = NamedContent::read(path, BYTES_MAX)?;
        Exposed::check(path, &metadata)?;
        if bytes.len() < BYTES_MIN || bytes.len() as u64 > BYTES_MAX {
            return Err(KeyError::Length(bytes.len()));
        }
        let looks = Looks::of(&bytes);
        let is_changed = matches!(looks, Looks::ByteOrderMark | Looks::Utf16 | Looks::Zeros);
        let public = Looks::public_in(&bytes);
        if let Some(looks) = public.or(is_changed.then_some(looks)) {
            return Err(KeyError::NotAKey(looks));
        }
        Ok(Self(bytes))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// A key that is no secret.
    #[cfg(test)]
    pub(super) fn for_tests(byte: u8) -> Self {
        Self(Zeroizing::new(vec![byte; BYTES_MIN]))
    }
}

impl fmt::Debug for AuditKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuditKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write as _, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[test]
    fn a_key_that_others_may_read_or_that_is_too_short_or_long_is_refused() {
        let read = |bytes: usize, mode: u32| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(&vec![7; bytes]).unwrap();
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
            AuditKey::read(file.path())
        };
        assert!(read(32, 0o600).is_ok());
        assert!(read(4_096, 0o640).is_ok());
        for mode in [0o644, 0o604, 0o602] {
            assert!(
                matches!(read(32, mode), Err(KeyError::Exposed(_))),
                "{mode:o}"
            );
        }
        for bytes in [0, 31, 4_097] {
            assert!(matches!(read(bytes, 0o600), Err(KeyError::Length(_))));
        }
    }

    #[test]
    fn what_may_be_public_is_no_audit_key() {
        let texts = [
            "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA7uP1RBIpDV7NaBdokzGZOMShVflH05CHqntjipxid+w=",
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO7j9UQSKQ1ezWgXaJMxmTjEoVX5R9OQ alice",
            "MCowBQYDK2VwAyEA7uP1RBIpDV7NaBdokzGZOMShVflH05CHqntjipxid+w=",
            "# ours\nssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO7j9UQSKQ1ezWgXaJMxmTjEoVX5R9OQ alice",
            "https://shop.example/.well-known/jwks.json",
            "<!DOCTYPE html><title>Log in to the shop</title>",
            "\u{feff}0123456789abcdef0123456789abcdef",
        ];
        for text in texts {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            let read = AuditKey::read(file.path());
            assert!(matches!(read, Err(KeyError::NotAKey(_))), "{text}");
        }
    }

    #[test]
    fn a_key_is_never_printed() {
        assert_eq!(format!("{:?}", AuditKey::for_tests(1)), "AuditKey(..)");
    }
}
