//! The proof of a backup: that a node which held a data key wrote its manifest, and with it the
//! digest of all rows. The same of archived entries.

use bytes::Bytes;
use helve_proto::v1::{BackupManifest, LogPiece};
use helve_seal::{DataKey, KEY_ID_BYTES, KeyId, Keyring, Place};
use prost::Message as _;
use sha2::{Digest as _, Sha256};

use crate::stamp::{self, EntropyError};

const PLACE: Place<'_> = Place {
    kind: "backup",
    parts: &[],
};

const PIECE_PLACE: Place<'_> = Place {
    kind: "archived-log",
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
    manifest.proof = prove(key, &PLACE, &digest(manifest))?;
    Ok(())
}

/// Entries of a cluster's log, with a proof if this node holds a data key.
///
/// # Errors
/// If the operating system gives no entropy.
pub(crate) fn piece(
    cluster_id: &str,
    entries: Vec<Bytes>,
    keys: &Keyring,
) -> Result<LogPiece, EntropyError> {
    let digest = piece_digest(cluster_id, &entries);
    let proof = keys.newest().map(|key| prove(key, &PIECE_PLACE, &digest));
    let proof = proof.transpose()?.unwrap_or_default();
    Ok(LogPiece { entries, proof })
}

fn prove(key: &DataKey, place: &Place<'_>, digest: &[u8]) -> Result<Bytes, EntropyError> {
    let sealed = key.seal(&stamp::random()?, place, digest);
    Ok([&key.id().bytes()[..], &sealed].concat().into())
}

/// The key that the proof is under; `None` without a proof.
pub(super) fn key_id(proof: &[u8]) -> Option<KeyId> {
    KeyId::from_bytes(proof.get(..KEY_ID_BYTES)?)
}

/// Checks the proof under one of these keys.
///
/// # Errors
/// If there is none, or the manifest is not the one that it was made of.
pub(super) fn check(manifest: &BackupManifest, keys: &Keyring) -> Result<(), Unproven> {
    check_proof(&manifest.proof, &PLACE, &digest(manifest), keys)
}

/// Checks the proof of archived entries under one of these keys.
///
/// # Errors
/// If there is none, or the entries are not those that it was made of.
pub(super) fn check_piece(
    cluster_id: &str,
    piece: &LogPiece,
    keys: &Keyring,
) -> Result<(), Unproven> {
    let digest = piece_digest(cluster_id, &piece.entries);
    check_proof(&piece.proof, &PIECE_PLACE, &digest, keys)
}

fn check_proof(
    proof: &[u8],
    place: &Place<'_>,
    digest: &[u8],
    keys: &Keyring,
) -> Result<(), Unproven> {
    let id = key_id(proof).ok_or(Unproven::Missing)?;
    let opened = keys
        .find(id)
        .and_then(|key| key.open(place, &proof[KEY_ID_BYTES..]));
    match opened {
        Some(opened) if opened[..] == *digest => Ok(()),
        _ => Err(Unproven::Changed),
    }
}

fn piece_digest(cluster_id: &str, entries: &[Bytes]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    let parts = entries.iter().map(|entry| &entry[..]);
    for part in std::iter::once(cluster_id.as_bytes()).chain(parts) {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
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
        assert_eq!(key_id(&manifest.proof), Some(ring(&[2]).ids()[0]));
    }

    #[test]
    fn entries_of_another_cluster_or_changed_ones_are_not_taken() {
        let entries = |text: [&'static str; 2]| text.map(Bytes::from).to_vec();
        let whole = piece("cluster", entries(["ab", "c"]), &ring(&[2])).unwrap();
        assert_eq!(check_piece("cluster", &whole, &ring(&[1, 2])), Ok(()));
        let moved = LogPiece {
            entries: entries(["a", "bc"]),
            ..whole.clone()
        };
        let changed = Err(Unproven::Changed);
        assert_eq!(check_piece("cluster", &moved, &ring(&[2])), changed);
        assert_eq!(check_piece("other", &whole, &ring(&[2])), changed);
        let bare = piece("cluster", entries(["ab", "c"]), &Keyring::default()).unwrap();
        let missing = Err(Unproven::Missing);
        assert_eq!(check_piece("cluster", &bare, &ring(&[2])), missing);
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
