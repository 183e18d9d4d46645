//! One key, and what is sealed under it.

use std::fmt;

use data_encoding::HEXLOWER;
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::{
    place::Place,
    primitives::{KEY_BYTES, Key, NONCE_BYTES, TAG_BYTES, derive, gcm_open, gcm_seal},
    secret::Secret,
};

/// Bytes of a key's id.
pub const KEY_ID_BYTES: usize = 8;
/// Random bytes that sealing one value takes: salt and nonce. Never the same twice.
pub const RANDOM_BYTES: usize = SALT_BYTES + NONCE_BYTES;
/// Bytes that sealing adds to a value.
pub const SEAL_BYTES: usize = 1 + RANDOM_BYTES + TAG_BYTES;

const SALT_BYTES: usize = 16;
const VERSION: u8 = 1;

/// Which key sealed a value. Derived from the key, so one key has one id wherever it is kept; it tells nothing of the key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId([u8; KEY_ID_BYTES]);

impl KeyId {
    /// Of its bytes; `None` if they are not [`KEY_ID_BYTES`].
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Of its 16 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::from_bytes(&HEXLOWER.decode(text.as_bytes()).ok()?)
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8; KEY_ID_BYTES] {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

/// A key that values are sealed under. Wiped from memory when dropped; never printed.
pub struct DataKey {
    id: KeyId,
    purpose: &'static str,
    sealing: Key,
}

impl DataKey {
    /// Derived from a secret for one purpose: under the same secret, another purpose has another key and another id.
    #[must_use]
    pub fn new(secret: &Secret, purpose: &'static str) -> Self {
        let part = |info: &[u8]| derive(secret.bytes(), &[purpose.as_bytes(), info]);
        let id = part(b" key id");
        Self {
            id: KeyId(*id.first_chunk().expect("shorter than a digest")),
            purpose,
            sealing: part(b" seal"),
        }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// Seals a value for a place. `random` must be fresh from the operating system.
    #[must_use]
    pub fn seal(&self, random: &[u8; RANDOM_BYTES], place: &Place<'_>, plain: &[u8]) -> Vec<u8> {
        let (salt, nonce) = random.split_at(SALT_BYTES);
        let nonce = *nonce.first_chunk().expect("the rest is a nonce");
        let sealed = gcm_seal(&self.of_one(salt), nonce, &self.bound(place), plain);
        [&[VERSION], &random[..], &sealed].concat()
    }

    /// Opens a value at its place. `None`: it was changed or moved, or is not sealed under this key.
    #[must_use]
    pub fn open(&self, place: &Place<'_>, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (&version, rest) = sealed.split_first()?;
        let (salt, rest) = rest.split_at_checked(SALT_BYTES)?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_BYTES>()?;
        if version != VERSION {
            return None;
        }
        gcm_open(&self.of_one(salt), *nonce, &self.bound(place), sealed)
    }

    /// The key of one value alone. The sealing key comes of HKDF, so it is expanded as it is.
    fn of_one(&self, salt: &[u8]) -> Key {
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        Hkdf::<Sha256>::from_prk(&*self.sealing)
            .expect("a key has the length of a digest")
            .expand_multi_info(&[b"one value", salt], &mut *key)
            .expect("32 bytes are within the 8160 that HKDF gives");
        key
    }

    fn bound(&self, place: &Place<'_>) -> Vec<u8> {
        place.bound(&[self.purpose.as_bytes(), &[VERSION], &self.id.0])
    }
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataKey")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, test_runner::TestRunner};

    use super::*;

    const HERE: Place<'_> = Place {
        kind: "handle",
        parts: &["default", "carts", "ada", "cart-1"],
    };

    fn key(byte: u8) -> DataKey {
        DataKey::new(&Secret::new([byte; 32]).unwrap(), "test")
    }

    proptest! {
        #[test]
        fn what_is_sealed_opens_at_its_place_under_its_key_and_nowhere_else(
            plain in proptest::collection::vec(any::<u8>(), 0..300),
            random in any::<[u8; RANDOM_BYTES]>(),
            other in "[a-z]{1,4}",
        ) {
            let sealed = key(1).seal(&random, &HERE, &plain);
            prop_assert_eq!(sealed.len(), plain.len() + SEAL_BYTES);
            prop_assert_eq!(&**key(1).open(&HERE, &sealed).unwrap(), &plain[..]);
            prop_assert!(key(2).open(&HERE, &sealed).is_none());
            let elsewhere = Place { parts: &["default", "carts", "ada", &other], ..HERE };
            prop_assert!(key(1).open(&elsewhere, &sealed).is_none());
        }

        #[test]
        fn a_changed_bit_and_a_cut_end_are_refused(
            plain in proptest::collection::vec(any::<u8>(), 0..100),
            random in any::<[u8; RANDOM_BYTES]>(),
            at in any::<prop::sample::Index>(),
            bit in 0..8_u32,
        ) {
            let mut sealed = key(1).seal(&random, &HERE, &plain);
            let at = at.index(sealed.len());
            prop_assert!(key(1).open(&HERE, &sealed[..at]).is_none());
            sealed[at] ^= 1 << bit;
            prop_assert!(key(1).open(&HERE, &sealed).is_none());
        }

        #[test]
        fn nothing_that_is_made_up_opens(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(key(1).open(&HERE, &bytes).is_none());
        }
    }

    /// Ten thousand cases, or as many as the environment asks for.
    #[test]
    fn no_text_that_a_client_makes_up_is_an_id_unless_it_is_spelled_as_one() {
        let cases = std::env::var("HELVE_CASES").ok();
        let config = ProptestConfig {
            cases: cases.map_or(10_000, |cases| cases.parse().unwrap()),
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        let text = prop_oneof!["[0-9a-f]{16}", "[0-9A-Fa-f]{14,18}", "\\PC{0,20}"];
        TestRunner::new(config)
            .run(&text, |text| {
                let spelled = KeyId::parse(&text).map(|id| id.to_string());
                prop_assert!(spelled.is_none_or(|spelled| spelled == text));
                Ok(())
            })
            .unwrap_or_else(|failure| panic!("{failure}"));
    }

    /// What another implementation makes of it, `cryptography` of Python, by the form that the head
    /// of this crate describes.
    #[test]
    fn a_sealed_value_is_the_bytes_that_it_was_when_the_form_was_made() {
        let random = std::array::from_fn(|at| u8::try_from(at).unwrap());
        let sealed = concat!(
            "01000102030405060708090a0b0c0d0e0f101112131415161718191a1b",
            "45c06b3b8039a0ff043f5069851ac3ff7eb4a9",
        );
        assert_eq!(key(1).id().to_string(), "d3b8d5c1a485bed8");
        let made = key(1).seal(&random, &HERE, b"tea");
        assert_eq!(HEXLOWER.encode(&made), sealed);
        let sealed = HEXLOWER.decode(sealed.as_bytes()).unwrap();
        assert_eq!(&**key(1).open(&HERE, &sealed).unwrap(), b"tea");
    }

    #[test]
    fn two_purposes_of_one_secret_share_nothing() {
        let secret = Secret::new([1; 32]).unwrap();
        let (one, other) = (DataKey::new(&secret, "one"), DataKey::new(&secret, "other"));
        assert_ne!(one.id(), other.id());
        let sealed = one.seal(&[7; RANDOM_BYTES], &HERE, b"tea");
        assert!(other.open(&HERE, &sealed).is_none());
    }

    #[test]
    fn an_id_is_read_as_it_is_written_and_a_key_is_never_printed() {
        let key = key(1);
        assert_eq!(KeyId::parse(&key.id().to_string()), Some(key.id()));
        assert_eq!(KeyId::parse("no id"), None);
        assert_eq!(
            format!("{key:?}"),
            format!("DataKey {{ id: KeyId({}), .. }}", key.id())
        );
    }
}
