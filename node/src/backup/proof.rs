//! The proof of a backup: that a node which held a data key wrote its manifest, and with it the
//! digest of all rows.

use helve_proto::v1::BackupManifest;
use helve_seal::{DataKey, KEY_ID_BYTES, KeyId, Keyring, Place};
use prost::Message as _;
use sha2::{Digest as _, Sha256};

use crate::stamp::{self, EntropyError};

const PLACE: Place<'_> = Place {
    kind: "backup",
    parts: &[],
};

/// Why a manifest is not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unproven {
    /// It has no proof: a node without data keys made it, or somebody took it off.
    Missing,
    /// It was changed after it was made.
    Changed,
}

/// Adds the proof under a key.
///
/// # Errors
/// If the operating system gives no entropy.
pub(super) fn add(manifest: &mut BackupManifest, key: &DataKey) -> Result<(), EntropyError> {
    let sealed = key.seal(&stamp::random()?, &PLACE, &digest(manifest));
    manifest.proof = [&key.id().bytes()[..], &sealed].concat().into();
    Ok(())
}

/// The key that the proof is under; `None` without a proof.
pub(super) fn key_id(manifest: &BackupManifest) -> Option<KeyId> {
    KeyId::from_bytes(manifest.proof.get(..KEY_ID_BYTES)?)
}

/// Checks the proof under one of these keys.
///
/// # Errors
/// If there is none, or the manifest is not the one that it was made of.
pub(super) fn check(manifest: &BackupManifest, keys: &Keyring) -> Result<(), Unproven> {
    let id = key_id(manifest).ok_or(Unproven::Missing)?;
    let opened = keys
        .find(id)
        .and_then(|key| key.open(&PLACE, &manifest.proof[KEY_ID_BYTES..]));
    match opened {
        Some(opened) if opened[..] == digest(manifest) => Ok(()),
        _ => Err(Unproven::Changed),
    }
}

fn digest(manifest: &BackupManifest) -> [u8; 32] {
    let without = BackupManifest {
        proof: Default::default(),
        ..manifest.clone()
    };
    Sha256::digest(without.encode_to_vec()).into()
}

#[cfg(test)]
mod tests {
    use helve_seal::Secret;

    use super::*;

    fn ring(bytes: &[u8]) -> Keyring {
        let secrets: Vec<_> = bytes
            .iter()
            .map(|byte| Secret::new([*byte; 32]).unwrap())
            .collect();
        Keyring::new(&secrets, "backups of tests").unwrap()
    }

    fn proven(byte: u8) -> BackupManifest {
        let mut manifest = BackupManifest {
            cluster_id: "0123456789".to_owned(),
            digest: vec![7; 32].into(),
            ..BackupManifest::default()
        };
        add(&mut manifest, ring(&[byte]).newest().unwrap()).unwrap();
        manifest
    }

    #[test]
    fn manifest_as_it_was_made_is_taken_with_its_key_among_others() {
        let manifest = proven(2);
        assert_eq!(check(&manifest, &ring(&[1, 2, 3])), Ok(()));
        assert_eq!(key_id(&manifest), Some(ring(&[2]).ids()[0]));
    }

    #[test]
    fn manifest_that_was_changed_or_is_of_another_key_is_not_taken() {
        let whole = proven(2);
        let mut digest = whole.clone();
        digest.digest = vec![8; 32].into();
        let mut keys = whole.clone();
        keys.data_key_ids.push("0123456789abcdef".to_owned());
        let mut renamed = whole.clone();
        let id = *ring(&[1]).ids()[0].bytes();
        renamed.proof = [&id[..], &whole.proof[KEY_ID_BYTES..]].concat().into();
        let mut flipped = whole.proof.to_vec();
        *flipped.last_mut().unwrap() ^= 1;
        let mut cut = whole.clone();
        cut.proof.truncate(KEY_ID_BYTES);
        let flipped = BackupManifest {
            proof: flipped.into(),
            ..whole
        };
        for manifest in [digest, keys, renamed, flipped, cut, proven(3)] {
            let checked = check(&manifest, &ring(&[1, 2]));
            assert_eq!(checked, Err(Unproven::Changed), "{manifest:?}");
        }
        let bare = BackupManifest::default();
        assert_eq!(check(&bare, &ring(&[1])), Err(Unproven::Missing));
    }
}
