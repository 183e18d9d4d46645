//! Several keys.

use std::sync::Arc;

use crate::{
    sealed::{DataKey, KeyId},
    secret::Secret,
};

/// The keys that open, in the order in which they came: the last one is the newest. Cloning is cheap.
#[derive(Debug, Clone, Default)]
pub struct Keyring {
    keys: Vec<Arc<DataKey>>,
}

/// Two keys of a ring have the same id: they are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("key {0} is given twice")]
pub struct GivenTwice(pub KeyId);

impl Keyring {
    /// A ring of these secrets, for one purpose; the last one is the newest.
    ///
    /// # Errors
    /// If one is given twice: name each file once.
    pub fn new<'a>(
        secrets: impl IntoIterator<Item = &'a Secret>,
        purpose: &'static str,
    ) -> Result<Self, GivenTwice> {
        let mut ring = Self::default();
        for secret in secrets {
            let key = DataKey::new(secret, purpose);
            if ring.find(key.id()).is_some() {
                return Err(GivenTwice(key.id()));
            }
            ring.keys.push(Arc::new(key));
        }
        Ok(ring)
    }

    /// The key of this id.
    #[must_use]
    pub fn find(&self, id: KeyId) -> Option<&Arc<DataKey>> {
        self.keys.iter().find(|key| key.id() == id)
    }

    /// The newest key; `None` of an empty ring.
    #[must_use]
    pub fn newest(&self) -> Option<&Arc<DataKey>> {
        self.keys.last()
    }

    /// All ids, the oldest first.
    #[must_use]
    pub fn ids(&self) -> Vec<KeyId> {
        self.keys.iter().map(|key| key.id()).collect()
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_finds_every_key_and_its_last_one_is_the_newest() {
        let secrets = [1, 2].map(|byte| Secret::new([byte; 32]).unwrap());
        let ring = Keyring::new(&secrets, "test").unwrap();
        let [old, new] = ring.ids()[..] else {
            panic!("not two keys: {ring:?}")
        };
        assert_eq!(ring.find(old).map(|key| key.id()), Some(old));
        assert_eq!(ring.newest().map(|key| key.id()), Some(new));
        assert!(
            ring.find(KeyId::parse("0123456789abcdef").unwrap())
                .is_none()
        );
        let twice = Keyring::new(secrets.iter().chain(&secrets[..1]), "test");
        assert_eq!(twice.unwrap_err(), GivenTwice(old));
    }
}
