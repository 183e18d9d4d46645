//! The primitives, as the codecs use them: HMAC-SHA256, HKDF-SHA256, AES-256-GCM, canonical base64.

use aes_gcm::{
    Aes256Gcm, KeyInit as _, Nonce,
    aead::{Aead, Payload},
};
use data_encoding::BASE64URL_NOPAD;
use hkdf::Hkdf;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

/// Bytes of a key, of an HMAC and of a digest.
pub(crate) const KEY_BYTES: usize = 32;
/// Bytes of a nonce of AES-GCM.
pub(crate) const NONCE_BYTES: usize = 12;
/// Bytes of a tag of AES-GCM.
pub(crate) const TAG_BYTES: usize = 16;

/// A key that is wiped when dropped.
pub(crate) type Key = Zeroizing<[u8; KEY_BYTES]>;

/// RFC 5869, one block; the salt is 32 zero bytes, as it is where none is given.
pub(crate) fn derive(secret: &[u8], info: &[&[u8]]) -> Key {
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
pub(crate) fn hmac(key: &[u8; KEY_BYTES], parts: &[&[u8]]) -> [u8; KEY_BYTES] {
    mac(key, parts).finalize().into_bytes().into()
}

/// Whether it is the HMAC-SHA256 of the message, whole; in constant time.
pub(crate) fn hmac_holds(key: &[u8; KEY_BYTES], message: &[u8], claimed: &[u8]) -> bool {
    mac(key, &[message]).verify_slice(claimed).is_ok()
}

/// AES-256-GCM: the ciphertext, and the tag behind it.
pub(crate) fn gcm_seal(
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
        .expect("a state is shorter than the 64 GiB that GCM takes")
}

/// The plaintext, if ciphertext and associated data are authentic.
pub(crate) fn gcm_open(
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

pub(crate) fn base64(bytes: &[u8]) -> String {
    BASE64URL_NOPAD.encode(bytes)
}

/// The bytes, if this is their one spelling: no padding, no white space, no stray bits at the end.
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    BASE64URL_NOPAD.decode(text.as_bytes()).ok()
}
