//! Keys that the hardened form seals under, and where they come from.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use data_encoding::HEXLOWER;
use helve_client::Error;
use subtle::ConstantTimeEq;

use super::{
    key::OperatorKey,
    primitives::{KEY_BYTES, Key, derive, hmac},
};

/// Bytes of a key's id.
pub(super) const KEY_ID_BYTES: usize = 8;
/// Bytes of a tag that binds one part of a context.
pub(super) const BINDING_BYTES: usize = 16;

/// Which key sealed a state. Derived from the key itself, so one key has one id wherever it is kept; it tells nothing of the key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId([u8; KEY_ID_BYTES]);

impl KeyId {
    pub(super) fn from_bytes(bytes: [u8; KEY_ID_BYTES]) -> Self {
        Self(bytes)
    }

    /// Of its 16 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = HEXLOWER.decode(text.as_bytes()).ok()?;
        bytes.try_into().ok().map(Self)
    }

    pub(super) fn bytes(&self) -> &[u8; KEY_ID_BYTES] {
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

/// One key of the hardened form. What it is used for has a key of its own each, derived from it: to seal, and to bind contexts.
pub struct SealingKey {
    id: KeyId,
    sealing: Key,
    binding: Key,
}

impl SealingKey {
    /// Derived from the operator's key.
    #[must_use]
    pub fn new(key: &OperatorKey) -> Self {
        let part = |info: &[u8]| derive(key.bytes(), &[b"helve request-state h1 ", info]);
        Self {
            id: KeyId(head(&part(b"key id"))),
            sealing: part(b"seal"),
            binding: part(b"bind"),
        }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The key for one state alone: a number of states may be sealed without counting nonces.
    pub(super) fn for_one(&self, salt: &[u8]) -> Key {
        derive(&*self.sealing, &[b"one state", salt])
    }

    /// Binds one part of a context, or its absence.
    pub(super) fn bind(&self, part: u8, value: Option<&[u8]>) -> [u8; BINDING_BYTES] {
        let presence = u8::from(value.is_some());
        let tag = hmac(
            &self.binding,
            &[&[part, presence], value.unwrap_or_default()],
        );
        head(&tag)
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealingKey")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

fn head<const N: usize>(bytes: &[u8; KEY_BYTES]) -> [u8; N] {
    *bytes.first_chunk().expect("shorter than a digest")
}

/// Whether both are the same, in constant time.
pub(super) fn same(one: &[u8], other: &[u8]) -> bool {
    one.ct_eq(other).into()
}

/// Where the hardened form's keys come from.
#[async_trait]
pub trait StateKeys: Send + Sync {
    /// The key that seals now.
    ///
    /// # Errors
    /// [`Unavailable`](helve_client::ErrorKind::Unavailable) if it cannot be had; what else a source says.
    async fn active(&self) -> Result<Arc<SealingKey>, Error>;

    /// The key of this id, if states that it sealed may still be opened.
    ///
    /// # Errors
    /// As [`active`](Self::active).
    async fn find(&self, id: KeyId) -> Result<Option<Arc<SealingKey>>, Error>;
}

/// Keys given at the start. The first one seals, all open. To rotate without refusing anybody, restart all replicas three times:
/// with `[old, new]`, with `[new, old]`, and after the states' lifetime with `[new]`.
#[derive(Debug)]
pub struct FixedKeys {
    active: Arc<SealingKey>,
    others: Vec<Arc<SealingKey>>,
}

impl FixedKeys {
    /// One key, which seals and opens.
    #[must_use]
    pub fn new(key: &OperatorKey) -> Self {
        Self {
            active: Arc::new(SealingKey::new(key)),
            others: Vec::new(),
        }
    }

    /// Opens with this key, too.
    #[must_use]
    pub fn and_open(mut self, key: &OperatorKey) -> Self {
        self.others.push(Arc::new(SealingKey::new(key)));
        self
    }
}

#[async_trait]
impl StateKeys for FixedKeys {
    async fn active(&self) -> Result<Arc<SealingKey>, Error> {
        Ok(Arc::clone(&self.active))
    }

    async fn find(&self, id: KeyId) -> Result<Option<Arc<SealingKey>>, Error> {
        let mut keys = [&self.active].into_iter().chain(&self.others);
        Ok(keys.find(|key| key.id == id).map(Arc::clone))
    }
}
