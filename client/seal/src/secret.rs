//! A secret, from a file.

use std::{fmt, io, path::Path};

use zeroize::Zeroizing;

use crate::{
    exposed::Exposed,
    looks::{Looks, decode_line},
    named::NamedContent,
};

/// Bytes that a secret must have at least.
pub const SECRET_BYTES_MIN: usize = 32;
/// More than this is no key.
const FILE_BYTES_MAX: u64 = 4096;
/// Lengths of keys that are stored as they are. A file of another length was cut off, has a line
/// end too many, or is no key.
const PLAIN_BYTES: [usize; 10] = [32, 48, 64, 96, 128, 256, 512, 1024, 2048, 4096];

/// Why there is no secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// It is too short to be one.
    #[error("a key of {0} bytes: it must be at least {SECRET_BYTES_MIN} bytes long")]
    TooShort(usize),
    /// It is too long to be one.
    #[error("it is too long for a key")]
    TooLong,
    /// It holds something else. Whatever it is, it is not taken for a secret: one stray character
    /// would make another key of it, and a file that is public would be one that everybody knows.
    #[error(
        "it looks like {looks}: a key file holds random bytes and nothing else, either as one line \
         of 64 or more hexadecimal digits or of base64, or as they are (32, 48, 64, 96, 128, 256, \
         512, 1024, 2048 or 4096 bytes){}", kept(*looks)
    )]
    NotAKey {
        /// Its form.
        looks: Looks,
    },
    /// Its file is open to others.
    #[error(transparent)]
    Exposed(#[from] Exposed),
    /// Its file cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
}

/// How to go on with a file that earlier versions took byte by byte.
fn kept(looks: Looks) -> &'static str {
    if looks.is_public() || matches!(looks, Looks::Repeated | Looks::Modulus) {
        return "";
    }
    ". If this file has been in use: earlier versions took its bytes as they are for the key, and \
     `base64 -w0 FILE >NEW` writes that key"
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

    /// Reads the secret in a file: one line of 64 or more hexadecimal digits, or of base64 for at
    /// least 32 bytes, white space around it aside; or 32, 48, 64, 96, 128, 256, 512, 1024, 2048 or
    /// 4096 bytes that are no text, as they are.
    ///
    /// # Errors
    /// If the file cannot be read, is open to other users of the machine, or holds anything else:
    /// the message says what it looks like.
    pub fn read(path: &Path) -> Result<Self, SecretError> {
        let NamedContent { bytes, metadata } = NamedContent::read(path, FILE_BYTES_MAX)?;
        Exposed::check(path, &metadata)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(SecretError::TooLong);
        }
        Self::parse(&bytes)
    }

    fn parse(content: &[u8]) -> Result<Self, SecretError> {
        let looks = Looks::of(content);
        if let Some(bytes) = decode_line(content, SECRET_BYTES_MIN) {
            // A public key is often copied without its PEM lines.
            let known = Looks::public_in(content);
            let is_token = |looks: &Looks| *looks == Looks::Token;
            let token = [looks, Looks::of(&bytes)].into_iter().find(is_token);
            let told = known.or(token).or_else(|| Looks::of_decoded(&bytes));
            return match told {
                Some(looks) => Err(SecretError::NotAKey { looks }),
                None => Ok(Self { bytes }),
            };
        }
        let line = (looks == Looks::Text).then(|| Looks::of_line(content));
        let looks = Looks::public_in(content)
            .or(line.flatten())
            .unwrap_or(looks);
        match looks {
            Looks::Binary(bytes) if PLAIN_BYTES.contains(&bytes) => Self::new(content),
            _ if content.len() < SECRET_BYTES_MIN => Err(SecretError::TooShort(content.len())),
            looks => Err(SecretError::NotAKey { looks }),
        }
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

#[cfg(test)]
mod tests {
    use std::{fs, io::Write};

    use data_encoding::{BASE64, BASE64URL_NOPAD};

    use super::*;

    const KEY: [u8; 32] = *b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f";

    fn written(content: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        file
    }

    fn read(content: &[u8]) -> Result<Secret, SecretError> {
        Secret::read(written(content).path())
    }

    fn looks(content: &[u8]) -> Looks {
        match read(content) {
            Err(SecretError::NotAKey { looks }) => looks,
            other => panic!("{other:?} of {content:?}"),
        }
    }

    #[test]
    fn a_key_file_is_hex_base64_or_the_bytes_themselves() {
        let hex = data_encoding::HEXUPPER.encode(&KEY);
        let base64 = format!("  {}\r\n", BASE64.encode(&KEY));
        let unpadded = BASE64URL_NOPAD.encode(&KEY);
        for content in [hex.as_bytes(), base64.as_bytes(), unpadded.as_bytes(), &KEY] {
            assert_eq!(read(content).unwrap().bytes(), KEY);
        }
        for bytes in PLAIN_BYTES {
            let key: Vec<u8> = KEY.iter().copied().cycle().take(bytes).collect();
            assert_eq!(read(&key).unwrap().bytes(), key);
        }
    }

    #[test]
    fn a_file_that_would_be_another_key_is_refused() {
        let base64 = BASE64.encode(&KEY);
        let hex = data_encoding::HEXLOWER.encode(&KEY);
        let der = "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=";
        let table = [
            (format!("\u{feff}{base64}"), Looks::ByteOrderMark),
            (format!("\"{base64}\""), Looks::Quoted),
            (format!("'{hex}'\n"), Looks::Quoted),
            (format!("0x{hex}"), Looks::Prefixed),
            (format!("base64:{base64}"), Looks::Prefixed),
            (
                format!("{}\n{}\n", &base64[..22], &base64[22..]),
                Looks::Wrapped,
            ),
            (
                format!("{}\r\n{}\r\n", &hex[..32], &hex[32..]),
                Looks::Wrapped,
            ),
            (format!("{hex} {hex}"), Looks::Wrapped),
            (hex[..60].to_owned(), Looks::Digits(60)),
            (format!("{hex}0"), Looks::Digits(65)),
            (format!("{base64}\0"), Looks::Text),
            (format!("{base64}\u{a0}"), Looks::Text),
            (format!("key={base64}"), Looks::Assigned),
            (format!("KEY={base64}\n"), Looks::Assigned),
            (format!("export KEY={base64}"), Looks::Assigned),
            (format!("KEY={hex}"), Looks::Assigned),
            (format!("{base64}{base64}"), Looks::Joined),
            (format!("{}={base64}", "A".repeat(4)), Looks::Assigned),
            ("0".repeat(64), Looks::Repeated),
            ("a".repeat(64), Looks::Repeated),
            ("z".repeat(64), Looks::Repeated),
            (BASE64.encode(&[0; 32]), Looks::Repeated),
            (BASE64URL_NOPAD.encode(&[0xff; 48]), Looks::Repeated),
            (format!("{base64}="), Looks::Text),
            (
                "correct horse battery staple and more".to_owned(),
                Looks::Text,
            ),
            (format!("hlv_{}", "A".repeat(43)), Looks::Token),
            (der.to_owned(), Looks::Der),
            (format!("-----BEGIN PUBLIC KEY-----\n{der}\n"), Looks::Pem),
            (format!("ssh-ed25519 {base64}"), Looks::Ssh),
            (format!("# ours\nssh-rsa AAAA{base64}\n"), Looks::Ssh),
            (format!("key: {der}"), Looks::Der),
            (format!("{}\n{}\n", &der[..40], &der[40..]), Looks::Der),
            (BASE64.encode(der.as_bytes()), Looks::Der),
            (BASE64.encode(b"HTTP/2 404\r\n\r\nnot found"), Looks::Http),
            (format!("{base64}\nand more\n"), Looks::Lines),
            (format!("<html>{base64}</html>"), Looks::Markup),
            (format!("{{\"keys\":[\"{base64}\"]}}"), Looks::Json),
        ];
        for (content, expected) in table {
            assert_eq!(looks(content.as_bytes()), expected, "{content}");
        }
        let utf16: Vec<u8> = base64.encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!(looks(&utf16), Looks::Utf16);
        assert_eq!(looks(&BASE64.decode(der.as_bytes()).unwrap()), Looks::Der);
        assert_eq!(looks(&[&KEY[..], b"\n"].concat()), Looks::Binary(33));
        assert_eq!(looks(&[0; 32]), Looks::Zeros);
    }

    /// A site that sends Web Push tells each browser such a key.
    #[test]
    fn a_published_point_is_no_secret() {
        let y = [0xa5; 32];
        let point = [&[4][..], &KEY, &y].concat();
        for content in [
            point.clone(),
            BASE64.encode(&point).into_bytes(),
            BASE64URL_NOPAD.encode(&point).into_bytes(),
            format!("\"{}\"", BASE64URL_NOPAD.encode(&point)).into_bytes(),
            data_encoding::HEXLOWER.encode(&point).into_bytes(),
        ] {
            assert_eq!(looks(&content), Looks::Point, "{content:?}");
            let refused = read(&content).unwrap_err().to_string();
            assert!(!refused.contains("base64 -w0"), "{refused}");
        }
    }

    /// What made a key before is made the same key by the remedy that the refusal names.
    #[test]
    fn the_remedy_of_a_refusal_keeps_the_key() {
        let before = b"\xef\xbb\xbfthis is not base64, and was used as it was\n";
        let refused = read(before).unwrap_err().to_string();
        assert!(refused.contains("base64 -w0"), "{refused}");
        let kept = read(BASE64.encode(before).as_bytes()).unwrap();
        assert_eq!(kept.bytes(), before);
        let refused = read(b"ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAB alice").unwrap_err();
        let refused = refused.to_string();
        assert!(!refused.contains("base64 -w0"), "{refused}");
    }

    #[test]
    fn short_long_and_missing_keys_are_refused() {
        for content in [&b""[..], &KEY[..31], b"0123456789abcdef"] {
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
            let refused = Secret::read(file.path()).unwrap_err().to_string();
            let remedy = format!("(mode {mode:o}): chmod 600 {}", file.path().display());
            assert!(refused.contains(&remedy), "{refused}");
        }
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o640)).unwrap();
        assert!(Secret::read(file.path()).is_ok());
    }
}
