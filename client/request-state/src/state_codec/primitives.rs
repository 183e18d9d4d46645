//! The primitives, as the codecs use them, canonical base64, and randomness.

use data_encoding::BASE64URL_NOPAD;
use helve_client::{Error, ErrorKind};
pub(crate) use helve_seal::primitives::{
    KEY_BYTES, Key, NONCE_BYTES, TAG_BYTES, derive, gcm_open, gcm_seal, hmac, hmac_holds,
};

pub(crate) fn base64(bytes: &[u8]) -> String {
    BASE64URL_NOPAD.encode(bytes)
}

/// The bytes, if this is their one spelling: no padding, no white space, no stray bits at the end.
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    BASE64URL_NOPAD.decode(text.as_bytes()).ok()
}

pub(crate) fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(error) => {
            let message = "the operating system gave no randomness: nothing was sealed";
            Err(Error::new(ErrorKind::Entropy, message).with_source(error))
        }
    }
}
