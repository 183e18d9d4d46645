//! Sealing the values of a command.

use bytes::Bytes;
use helve_machine::{handle_id, level, limits::FINGERPRINT_BYTES};
use helve_proto::{
    command::v1::{Command, command::Operation},
    operations::Named,
};
use helve_seal::{DataKey, KeyId, Place, primitives};
use sha2::{Digest, Sha256};

use super::{Vault, fresh};
use crate::stamp::EntropyError;

/// Why a value is not sealed. Nothing was proposed.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// Sealing has not begun.
    #[error("{0}")]
    NotYet(String),
    /// The cluster seals under a key that this node does not hold.
    #[error("values are sealed under key {0}, which this node does not hold")]
    NoKey(String),
    /// The operating system gave no entropy.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
}

/// HMAC over the request.
pub(super) fn keyed(secret: &[u8; primitives::KEY_BYTES], request: &[u8]) -> Bytes {
    let tag = primitives::hmac(secret, &[b"helve fingerprint 1 ", request]);
    Bytes::copy_from_slice(&tag[..FINGERPRINT_BYTES])
}

/// A digest of the request.
pub(super) fn unkeyed(request: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&Sha256::digest(request)[..FINGERPRINT_BYTES])
}

impl Vault {
    /// A command with every value sealed as the cluster says now, stamped with the key and the level that know it. `None` if it stays
    /// as it is: it brings no value, or nothing is sealed. To try again after the cluster changed its mind, ask again.
    ///
    /// # Errors
    /// See [`SealError`].
    pub fn sealed(&self, plain: &Command) -> Result<Option<Box<Command>>, SealError> {
        let operation = plain.operation.as_ref();
        if !operation.is_some_and(helve_machine::sealing::brings_value) {
            return Ok(None);
        }
        self.ready().map_err(SealError::NotYet)?;
        let known = self.known.load();
        let Some(row) = known.row.as_ref().filter(|row| !row.key_id.is_empty()) else {
            return Ok(None);
        };
        let ring = self.ring.load();
        let key = KeyId::from_bytes(&row.key_id).and_then(|id| ring.find(id));
        let key = key.ok_or_else(|| SealError::NoKey(super::hex(&row.key_id)))?;
        let mut command = Box::new(plain.clone());
        if let Some(operation) = &mut command.operation {
            let into = Into {
                key,
                tenant: &command.tenant,
            };
            into.operation(operation, &command.minted_ids)?;
            command.feature_level = level::needed_sealed(operation, &row.key_id);
            command.sealed_under = row.key_id.clone();
        }
        Ok(Some(command))
    }
}

/// Under which key, and for whom.
pub(super) struct Into<'a> {
    pub(super) key: &'a DataKey,
    pub(super) tenant: &'a str,
}

impl Into<'_> {
    fn operation(&self, operation: &mut Operation, minted: &[String]) -> Result<(), EntropyError> {
        let mut minted = minted.iter();
        operation.values_mut(&mut |named, value| match named {
            Named::Handle { store, owner, id } => self.handle([store, owner, id], value),
            Named::Key { owner, key } => self.key([owner, key], value),
            Named::Minted {
                store,
                owner,
                id_prefix,
            } => {
                let id = minted.next().map_or("", String::as_str);
                self.handle([store, owner, &handle_id(id_prefix, id)], value)
            }
        })
    }

    pub(super) fn handle(
        &self,
        [store, owner, id]: [&str; 3],
        value: &mut Bytes,
    ) -> Result<(), EntropyError> {
        let parts = [self.tenant, store, owner, id];
        self.value(
            &Place {
                kind: HANDLE,
                parts: &parts,
            },
            value,
        )
    }

    pub(super) fn key(
        &self,
        [owner, key]: [&str; 2],
        value: &mut Bytes,
    ) -> Result<(), EntropyError> {
        let parts = [self.tenant, owner, key];
        self.value(
            &Place {
                kind: KEY,
                parts: &parts,
            },
            value,
        )
    }

    fn value(&self, place: &Place<'_>, value: &mut Bytes) -> Result<(), EntropyError> {
        *value = self.key.seal(&fresh()?, place, value).into();
        Ok(())
    }
}

/// What the places of handles are called: they bind tenant, store, owner and id.
pub(super) const HANDLE: &str = "handle";
/// What the places of keys are called: they bind tenant, owner and key.
pub(super) const KEY: &str = "key";
