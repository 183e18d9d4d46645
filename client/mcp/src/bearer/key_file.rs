//! The file with the keys that tokens are checked with.
//!
//! It is a JWK set (RFC 7517), a public key in PEM, or a shared secret. Which it is decides the algorithms, never the token: a
//! public key is not taken for a secret, nor `none` for an algorithm.

use std::{fs, io, path::Path};

use data_encoding::{BASE64, BASE64URL_NOPAD};
use ring::{
    hmac,
    signature::{
        ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
        UnparsedPublicKey,
    },
};
use serde::Deserialize;

/// Bytes of the file.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Bytes of a shared secret: as many as HMAC-SHA256 puts out (RFC 7518, section 3.2).
const SECRET_BYTES_MIN: usize = 32;
/// Bytes of a coordinate on P-256, and of an Ed25519 key.
const COORDINATE_BYTES: usize = 32;
/// Bytes of an RSA modulus (RFC 7518, section 3.3).
const MODULUS_BYTES_MIN: usize = 256;
/// What a key on P-256 begins with in PEM (RFC 5480), up to its 65 byte point.
const P256_HEAD: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// What an Ed25519 key begins with in PEM (RFC 8410), up to its 32 bytes.
const ED25519_HEAD: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];
/// What says in PEM that a key is of RSA (RFC 3279), behind the length of it all.
const RSA_ALGORITHM: [u8; 15] = [
    0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
];

/// Why a key file cannot be used. Each means that the server must not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// It cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// The file.
        path: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// It is too large.
    #[error("{path} is over {FILE_BYTES_MAX} bytes: it holds something else")]
    TooLarge {
        /// The file.
        path: String,
    },
    /// The shared secret is too short.
    #[error(
        "the secret in {path} is {bytes} bytes: give at least {SECRET_BYTES_MIN}, as `openssl rand -base64 32` does"
    )]
    WeakSecret {
        /// The file.
        path: String,
        /// Its length without the line end.
        bytes: usize,
    },
    /// It holds a key, but none that can be used.
    #[error(
        "{path} holds no usable key: give a public key on P-256, of Ed25519 or of 2048 bit RSA, as PEM or in a JWK set, or a secret"
    )]
    NoKey {
        /// The file.
        path: String,
    },
    /// It begins as a JWK set, and is none.
    #[error("{path} is no JWK set: {source}")]
    Malformed {
        /// The file.
        path: String,
        /// What is wrong.
        source: serde_json::Error,
    },
}

/// A key, and the one algorithm that it is for, as tokens name it.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) id: Option<String>,
    pub(super) algorithm: &'static str,
    secret: Secret,
}

#[derive(Debug)]
enum Secret {
    Shared(hmac::Key),
    Public(UnparsedPublicKey<Vec<u8>>),
    Rsa(RsaPublicKeyComponents<Vec<u8>>),
}

impl Key {
    fn new(algorithm: &'static str, secret: Secret) -> Self {
        Self {
            id: None,
            algorithm,
            secret,
        }
    }

    fn shared(bytes: &[u8]) -> Self {
        Self::new(
            "HS256",
            Secret::Shared(hmac::Key::new(hmac::HMAC_SHA256, bytes)),
        )
    }

    fn p256(point: Vec<u8>) -> Self {
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
        Self::new("ES256", Secret::Public(key))
    }

    fn ed25519(key: Vec<u8>) -> Self {
        Self::new(
            "EdDSA",
            Secret::Public(UnparsedPublicKey::new(&ED25519, key)),
        )
    }

    /// Whether this key signed that, in constant time.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.secret {
            Secret::Shared(key) => hmac::verify(key, message, signature).is_ok(),
            Secret::Public(key) => key.verify(message, signature).is_ok(),
            Secret::Rsa(key) => key
                .verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
                .is_ok(),
        }
    }
}

#[derive(Deserialize)]
struct Set {
    keys: Vec<Jwk>,
}

/// A key of a set, as far as it is looked at.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
    n: Option<String>,
    e: Option<String>,
    k: Option<String>,
}

impl Jwk {
    /// The key; none if it is for encryption, of another kind, too weak, or for another algorithm than its kind's.
    fn key(&self) -> Option<Key> {
        let bytes =
            |field: &Option<String>| BASE64URL_NOPAD.decode(field.as_ref()?.as_bytes()).ok();
        let coordinate = |field| bytes(field).filter(|bytes| bytes.len() == COORDINATE_BYTES);
        let mut key = match (&*self.kty, self.crv.as_deref()) {
            ("EC", Some("P-256")) => {
                Key::p256([vec![4], coordinate(&self.x)?, coordinate(&self.y)?].concat())
            }
            ("OKP", Some("Ed25519")) => Key::ed25519(coordinate(&self.x)?),
            ("RSA", None) => {
                let (n, e) = (bytes(&self.n)?, bytes(&self.e)?);
                if n.len() < MODULUS_BYTES_MIN {
                    return None;
                }
                Key::new("RS256", Secret::Rsa(RsaPublicKeyComponents { n, e }))
            }
            ("oct", None) => {
                Key::shared(&bytes(&self.k).filter(|bytes| bytes.len() >= SECRET_BYTES_MIN)?)
            }
            _ => return None,
        };
        let is_for = |field: &Option<String>, one: &str| field.as_ref().is_none_or(|is| is == one);
        key.id.clone_from(&self.kid);
        (is_for(&self.purpose, "sig") && is_for(&self.alg, key.algorithm)).then_some(key)
    }
}

/// Reads the keys.
pub(super) fn read(path: &Path) -> Result<Vec<Key>, KeyFileError> {
    let name = path.display().to_string();
    let unreadable = |source| KeyFileError::Unreadable {
        path: name.clone(),
        source,
    };
    if fs::metadata(path).map_err(unreadable)?.len() > FILE_BYTES_MAX {
        return Err(KeyFileError::TooLarge { path: name });
    }
    parse(&fs::read(path).map_err(unreadable)?, name)
}

fn parse(bytes: &[u8], path: String) -> Result<Vec<Key>, KeyFileError> {
    let text = bytes.trim_ascii();
    let keys: Vec<Key> = if text.starts_with(b"{") {
        match serde_json::from_slice::<Set>(text) {
            Ok(set) => set.keys.iter().filter_map(Jwk::key).collect(),
            Err(source) => return Err(KeyFileError::Malformed { path, source }),
        }
    } else if text.starts_with(b"-----BEGIN") {
        of_pem(text).into_iter().collect()
    } else {
        let secret = bytes.trim_ascii_end();
        if secret.len() < SECRET_BYTES_MIN {
            let bytes = secret.len();
            return Err(KeyFileError::WeakSecret { path, bytes });
        }
        vec![Key::shared(secret)]
    };
    if keys.is_empty() {
        return Err(KeyFileError::NoKey { path });
    }
    Ok(keys)
}

/// A public key (RFC 7468); a private one has no place on a server that only verifies.
fn of_pem(pem: &[u8]) -> Option<Key> {
    let base64 = pem
        .strip_prefix(b"-----BEGIN PUBLIC KEY-----")?
        .strip_suffix(b"-----END PUBLIC KEY-----")?;
    let base64: Vec<u8> = base64
        .iter()
        .copied()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    let der = BASE64.decode(&base64).ok()?;
    if let Some(point) = der.strip_prefix(&P256_HEAD) {
        return (point.len() == 2 * COORDINATE_BYTES + 1).then(|| Key::p256(point.to_vec()));
    }
    if let Some(key) = der.strip_prefix(&ED25519_HEAD) {
        return (key.len() == COORDINATE_BYTES).then(|| Key::ed25519(key.to_vec()));
    }
    // A sequence of the algorithm and a bit string, both so long that their lengths take two bytes.
    let key = der.strip_prefix(&[0x30, 0x82])?.get(2..)?;
    let key = key
        .strip_prefix(&RSA_ALGORITHM)?
        .strip_prefix(&[0x03, 0x82])?;
    let key = key.get(2..)?.strip_prefix(&[0x00])?.to_vec();
    if key.len() < MODULUS_BYTES_MIN {
        return None;
    }
    let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key);
    Some(Key::new("RS256", Secret::Public(key)))
}
