//! The files with the keys that tokens are checked with.
//!
//! What a file is must be unmistakable, or said: a JWK set (RFC 7517), public keys in PEM, or what
//! the operator says is a secret. A public key that is not recognised must never become a secret:
//! everybody has it, and could sign tokens with it. So no form of a line makes it a secret: 32
//! random bytes look like an Ed25519 key, and 64 like a point on P-256.

use std::{io, path::Path};

use helve_proto::NotPem;
use helve_seal::{Exposed, Looks, NamedContent, decode_line};
use jsonwebtoken::Algorithm;
use zeroize::Zeroizing;

use super::{
    jwks,
    key::{Key, Origin, SECRET_BYTES_MIN},
    secret_form, tried,
};

/// Bytes of a file.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Bytes of a secret: the digits of a public RSA modulus of 2048 bits, as of a JWK, are more.
const SECRET_BYTES_MAX: usize = 255;
/// Bytes that one line encodes, from which on a refusal says that it may be a secret.
const UNSAID_BYTES_MIN: usize = 16;
/// Public keys in one PEM file.
const PEM_KEYS_MAX: usize = 16;
/// The label of a public key (RFC 7468, section 13).
const PUBLIC_KEY: &str = "PUBLIC KEY";

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
    /// The shared secret is as long as what is public of RSA.
    #[error(
        "the secret in {path} is {bytes} bytes, as many as a public RSA modulus may have: give \
         {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX}, as `openssl rand -base64 32` does"
    )]
    LongSecret {
        /// The file.
        path: String,
        /// Its length without the line end.
        bytes: usize,
    },
    /// The file of a secret is open to other users.
    #[error("{path} holds a secret, and {exposed}")]
    Exposed {
        /// The file.
        path: String,
        /// Its permissions.
        exposed: Exposed,
    },
    /// It is no form of a key.
    #[error(
        "{path} looks like {looks}: give a JWK set or public keys in PEM (name a shared secret with \
         --token-secret-file)"
    )]
    Unrecognised {
        /// The file.
        path: String,
        /// Its form.
        looks: Looks,
    },
    /// It is one line of bytes, which may be a secret or a public key.
    #[error(
        "{path} holds {bytes} bytes in base64 or hexadecimal, which may be a public key: name a \
         shared secret with --token-secret-file, or give a JWK set or public keys in PEM"
    )]
    Unsaid {
        /// The file.
        path: String,
        /// How many bytes its line encodes.
        bytes: usize,
    },
    /// It was said to hold a secret, and holds what may be public.
    #[error(
        "{path} looks like {looks}, and not like a secret: give one line of base64 or hexadecimal \
         digits, as `openssl rand -base64 32` writes, or give it as an `oct` entry of a JWK set with \
         --token-key-file, which takes public keys, too"
    )]
    NoSecret {
        /// The file.
        path: String,
        /// Its form.
        looks: Looks,
    },
    /// It is PEM, and holds no public key that can be used.
    #[error(
        "{path} is PEM, but {problem}: give public keys on P-256, of Ed25519 or of 2048 bit RSA, \
         as `openssl pkey -pubout` or, for a certificate, `openssl x509 -pubkey -noout` writes them"
    )]
    Pem {
        /// The file.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// It is a JWK set without a key that can be used.
    #[error(
        "{path} holds no usable key: give a public key on P-256, of Ed25519 or of 2048 bit RSA, as PEM or in a JWK set{}",
        listed(skipped)
    )]
    NoKey {
        /// The file.
        path: String,
        /// Its entries that cannot be used, and why.
        skipped: Vec<String>,
    },
    /// It holds keys of which a token would have to be tried against too many.
    #[error("{path} is refused: {problem}")]
    Alike {
        /// The file.
        path: String,
        /// Which keys, and what to do.
        problem: String,
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

/// The first reasons, behind a message.
fn listed(skipped: &[String]) -> String {
    let shown: Vec<_> = skipped.iter().take(3).map(String::as_str).collect();
    if shown.is_empty() {
        return String::new();
    }
    format!(" ({})", shown.join("; "))
}

/// What the operator said that a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// A JWK set or PEM. Only a set, which names the kind of each key, may hold a secret.
    Keys,
    /// A shared secret.
    Secret,
}

/// The keys of a file.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) keys: Vec<Key>,
    /// Entries that cannot be used, and why.
    pub(super) skipped: Vec<String>,
}

impl Keys {
    fn new(keys: Vec<Key>) -> Self {
        let skipped = Vec::new();
        Self { keys, skipped }
    }

    /// Whether a reader of the file could sign tokens.
    pub(super) fn hold_secret(&self) -> bool {
        let mut algorithms = self.keys.iter().map(|key| key.algorithm);
        algorithms.any(|algorithm| algorithm == Algorithm::HS256)
    }

    /// Itself, unless no token could hold under it.
    pub(super) fn some(self, path: &Path) -> Result<Self, KeyFileError> {
        if self.keys.is_empty() {
            return Err(KeyFileError::NoKey {
                path: path.display().to_string(),
                skipped: self.skipped,
            });
        }
        Ok(self)
    }
}

/// A file's content.
pub(super) struct Content {
    pub(super) bytes: Zeroizing<Vec<u8>>,
    /// Whether it can be read again: a pipe cannot.
    pub(super) is_regular: bool,
    /// Why it must hold no secret.
    pub(super) exposed: Option<Exposed>,
}

/// Reads a file.
pub(super) fn read(path: &Path) -> Result<Content, KeyFileError> {
    let name = || path.display().to_string();
    let unreadable = |source| KeyFileError::Unreadable {
        path: name(),
        source,
    };
    let content = NamedContent::read(path, FILE_BYTES_MAX).map_err(unreadable)?;
    let NamedContent { bytes, metadata } = content;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(KeyFileError::TooLarge { path: name() });
    }
    Ok(Content {
        bytes,
        is_regular: metadata.is_file(),
        exposed: Exposed::check(path, &metadata).err(),
    })
}

/// Makes keys of a content. A JWK set may turn out to hold none.
pub(super) fn parse(content: &Content, said: Said, path: &Path) -> Result<Keys, KeyFileError> {
    let keys = match said {
        Said::Keys => keys(&content.bytes, path)?,
        Said::Secret => said_secret(content, path)?,
    };
    let all: Vec<_> = keys.keys.iter().collect();
    tried::check(&all).map_err(|problem| KeyFileError::Alike {
        path: path.display().to_string(),
        problem,
    })?;
    match &content.exposed {
        Some(exposed) if keys.hold_secret() => Err(KeyFileError::Exposed {
            path: path.display().to_string(),
            exposed: exposed.clone(),
        }),
        _ => Ok(keys),
    }
}

fn keys(content: &[u8], path: &Path) -> Result<Keys, KeyFileError> {
    let name = || path.display().to_string();
    let looks = Looks::of(content);
    match looks {
        Looks::Json => {
            let found = jwks::parse(content, Origin::File);
            let found = found.map_err(|source| KeyFileError::Malformed {
                path: name(),
                source,
            })?;
            Ok(Keys {
                keys: found.keys,
                skipped: found.skipped,
            })
        }
        Looks::Pem => {
            let keys = of_pem(content).map_err(|problem| KeyFileError::Pem {
                path: name(),
                problem,
            })?;
            Ok(Keys::new(keys))
        }
        looks => Err(unrecognised(content, looks, name())),
    }
}

/// Why a file is refused that is neither JSON nor PEM. What its line encodes says more than the
/// line.
fn unrecognised(content: &[u8], looks: Looks, path: String) -> KeyFileError {
    // What has a name of its own, such as a prefix, is named so.
    let is_bare = matches!(looks, Looks::Text | Looks::Digits(_));
    let inside = decode_line(content, UNSAID_BYTES_MIN).filter(|_| is_bare);
    let Some(inside) = inside else {
        return KeyFileError::Unrecognised { path, looks };
    };
    match Looks::of(&inside) {
        looks if looks.is_public() => KeyFileError::Unrecognised { path, looks },
        _ => KeyFileError::Unsaid {
            path,
            bytes: inside.len(),
        },
    }
}

/// What was said to be a secret: a line or bytes as random generators write them, in which nothing
/// public is found: else every reader of the public text could sign tokens.
fn said_secret(content: &Content, path: &Path) -> Result<Keys, KeyFileError> {
    let name = || path.display().to_string();
    let secret = secret_form::secret_of(&content.bytes);
    let bytes = secret.len();
    if bytes < SECRET_BYTES_MIN {
        let path = name();
        return Err(KeyFileError::WeakSecret { path, bytes });
    }
    let looks = Looks::of(&content.bytes);
    let is_fit = matches!(looks, Looks::Text | Looks::Digits(_) | Looks::Binary(_));
    let unfit = (!is_fit).then_some(looks);
    if let Some(looks) = Looks::public_in(&content.bytes).or(unfit) {
        let path = name();
        return Err(KeyFileError::NoSecret { path, looks });
    }
    if bytes > SECRET_BYTES_MAX {
        let path = name();
        return Err(KeyFileError::LongSecret { path, bytes });
    }
    secret_form::check(secret).map_err(|looks| KeyFileError::NoSecret {
        path: name(),
        looks,
    })?;
    Ok(Keys::new(vec![Key::shared(secret)]))
}

/// The public keys of a PEM file (RFC 7468), whatever text is around them, such as a comment or
/// OpenSSL's "Bag Attributes". A private key has no place on a server that only verifies.
fn of_pem(content: &[u8]) -> Result<Vec<Key>, String> {
    let malformed = |why: String| NotPem::of(content).map_or(why, |flaw| flaw.to_string());
    let blocks = pem::parse_many(content).map_err(|error| malformed(error.to_string()))?;
    let text = String::from_utf8_lossy(content);
    if blocks.is_empty() || blocks.len() != text.matches("-----BEGIN ").count() {
        return Err(malformed("a block is malformed".to_owned()));
    }
    if blocks.len() > PEM_KEYS_MAX {
        return Err(format!("it holds over {PEM_KEYS_MAX} blocks"));
    }
    if let Some(other) = blocks.iter().find(|block| block.tag() != PUBLIC_KEY) {
        return Err(format!("it holds a block {:?}", other.tag()));
    }
    let keys = blocks.iter().map(|block| Key::of_spki(block.contents()));
    keys.collect::<Result<_, _>>().map_err(str::to_owned)
}
