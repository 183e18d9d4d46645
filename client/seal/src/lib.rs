//! Keys from files, and values sealed under them.
//!
//! A node seals at rest what it receives, and the client seals end to end what it sends: both do it with this. Sealing reads no clock
//! and draws no randomness: who seals brings it.
//!
//! # How a value is sealed
//! ```text
//! secret --HKDF--> sealing key --HKDF(salt)--> key of this value --AES-256-GCM(nonce, associated data)--> sealed value
//! sealed value = version (1 byte) | salt (16) | nonce (12) | ciphertext | tag (16)
//! ```
//! NIST SP 800-38D, section 8.3, allows 2^32 values under one key if nonces are random, since two of the same would give the
//! plaintexts' difference and the authentication key away. A cluster writes that many in some weeks. So each value has a key of
//! its own, derived from 16 random bytes, and a nonce of 12: for two values to share both, 28 random bytes must come twice. After
//! 2^64 values under one secret the odds of that are below 2^-96; of one value alone, its key has sealed once.
//!
//! The associated data binds form, key id and place. A sealed value that was moved to another place does not open.

mod exposed;
mod keyring;
mod looks;
mod named;
mod place;
pub mod primitives;
mod sealed;
mod secret;

pub use self::{
    exposed::Exposed,
    keyring::{GivenTwice, Keyring},
    looks::{Looks, decode_line},
    named::NamedContent,
    place::Place,
    sealed::{DataKey, KEY_ID_BYTES, KeyId, RANDOM_BYTES, SEAL_BYTES},
    secret::{SECRET_BYTES_MIN, Secret, SecretError},
};
