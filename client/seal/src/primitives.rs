//! The primitives: HMAC-SHA256 (RFC 2104), HKDF-SHA256 (RFC 5869), AES-256-GCM (NIST SP 800-38D).

use std::fmt;

use aes_gcm::{
    Aes256Gcm, KeyInit as _, Nonce,
    aead::{Aead, Payload},
};
use hkdf::Hkdf;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

/// Bytes of a key, of an HMAC and of a digest.
pub const KEY_BYTES: usize = 32;
/// Bytes of a nonce of AES-GCM.
pub const NONCE_BYTES: usize = 12;
/// Bytes of a tag of AES-GCM.
pub const TAG_BYTES: usize = 16;

/// A key that is wiped when dropped.
pub type Key = Zeroizing<[u8; KEY_BYTES]>;

/// RFC 5869, one block; the salt is 32 zero bytes, as it is where none is given.
#[must_use]
pub fn derive(secret: &[u8], info: &[&[u8]]) -> Key {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    Hkdf::<Sha256>::new(None, secret)
        .expand_multi_info(info, &mut *key)
        .expect("32 bytes are within the 8160 that HKDF gives");
    key
}

fn mac(key: &[u8; KEY_BYTES], parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    for part in parts {
        mac.update(part);
    }
    mac
}

/// HMAC-SHA256 of the parts, one after the other.
#[must_use]
pub fn hmac(key: &[u8; KEY_BYTES], parts: &[&[u8]]) -> [u8; KEY_BYTES] {
    mac(key, parts).finalize().into_bytes().into()
}

/// A key of HMAC-SHA256 for many short messages: its first block is hashed once.
#[derive(Clone)]
pub struct MacKey(Hmac<Sha256>);

impl MacKey {
    /// A key of these bytes.
    #[must_use]
    pub fn new(key: &[u8; KEY_BYTES]) -> Self {
        Self(mac(key, &[]))
    }

    /// HMAC-SHA256 of the parts, one after the other.
    #[must_use]
    pub fn tag(&self, parts: &[&[u8]]) -> [u8; KEY_BYTES] {
        let mut mac = self.0.clone();
        for part in parts {
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }
}

impl fmt::Debug for MacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MacKey").finish_non_exhaustive()
    }
}

/// Whether it is the HMAC-SHA256 of the message, whole; in constant time.
#[must_use]
pub fn hmac_holds(key: &[u8; KEY_BYTES], message: &[u8], claimed: &[u8]) -> bool {
    mac(key, &[message]).verify_slice(claimed).is_ok()
}

/// AES-256-GCM: the ciphertext, and the tag behind it. No nonce may come twice under one key.
///
/// # Panics
/// Never for what memory holds: GCM takes 64 GiB.
#[must_use]
pub fn gcm_seal(
    key: &[u8; KEY_BYTES],
    nonce: [u8; NONCE_BYTES],
    associated: &[u8],
    plain: &[u8],
) -> Vec<u8> {
    let payload = Payload {
        msg: plain,
        aad: associated,
    };
    Aes256Gcm::new(key.into())
        .encrypt(&Nonce::from(nonce), payload)
        .expect("it is shorter than the 64 GiB that GCM takes")
}

/// The plaintext, if ciphertext and associated data are authentic.
#[must_use]
pub fn gcm_open(
    key: &[u8; KEY_BYTES],
    nonce: [u8; NONCE_BYTES],
    associated: &[u8],
    sealed: &[u8],
) -> Option<Zeroizing<Vec<u8>>> {
    let payload = Payload {
        msg: sealed,
        aad: associated,
    };
    let opened = Aes256Gcm::new(key.into()).decrypt(&Nonce::from(nonce), payload);
    opened.ok().map(Zeroizing::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prepared_key_makes_the_same_tags() {
        let key = [7; KEY_BYTES];
        let prepared = MacKey::new(&key);
        for parts in [&[][..], &[&b"tea"[..]], &[&b"te"[..], b"a", &[0; 200]]] {
            assert_eq!(prepared.tag(parts), hmac(&key, parts));
        }
    }
}
