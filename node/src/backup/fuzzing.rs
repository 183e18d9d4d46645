//! Backups and segments of the archived log that were made up, in a place that others write to.

use std::{collections::BTreeSet, path::Path, sync::LazyLock};

use bytes::Bytes;
use helve_proto::{
    peer::v1::LogId,
    v1::{BackupManifest, LogPiece},
};
use helve_seal::{Keyring, Secret};
use prost::Message as _;
use sha2::{Digest as _, Sha256};

use super::{
    Archive, Backup, Growing, LogRun, Segment, Tip,
    directory::{file_of, manifest_of, stored_name},
    proof,
    segment::archived,
    segment_path::first_of,
};
use crate::storage::durable_file;

const CLUSTER_ID: &str = "0123456789";
const PATH: &str = "log/01234567-4/00000000000000000005";
const MAGIC: &[u8] = b"helvelog";

/// The keys of the operator, which no input knows.
static KEYS: LazyLock<Keyring> = LazyLock::new(|| {
    let secret = Secret::new([7_u8; 32]).expect("it is long enough");
    Keyring::new([&secret], "backups that are made up").expect("it is one key")
});

/// Reads what may be in an archived log. The first byte says what the rest is: a file; the contents
/// of frames, each behind its length, which get their checksums here; pieces that a node sends,
/// each behind its length, and before them which byte of a proof is changed; or the names of files.
///
/// # Panics
/// If a segment holds other entries than it says, is proven without the key, or is not read as a
/// node wrote it; or if a name is taken for that of another segment.
pub fn archive_segment(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else {
        return;
    };
    match kind % 4 {
        0 => assert_segment(&Bytes::copy_from_slice(rest)),
        1 => assert_segment(&framed(rest)),
        2 => assert_proven(rest),
        _ => assert_names(rest),
    }
}

/// A file with these contents of frames.
fn framed(mut contents: &[u8]) -> Bytes {
    let mut file = MAGIC.to_vec();
    while let Some((length, rest)) = contents.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
        let (content, rest) = rest.split_at(length);
        let written = u32::try_from(length).expect("it has two bytes");
        file.extend(written.to_be_bytes());
        file.extend(crc32c::crc32c(content).to_be_bytes());
        file.extend(content);
        contents = rest;
    }
    file.into()
}

fn assert_segment(content: &Bytes) {
    let path = Path::new(PATH);
    let Ok(segment) = Segment::read(content, path) else {
        return;
    };
    assert_eq!(segment.bytes(), content.len() as u64);
    assert_eq!(segment.hash()[..], Sha256::digest(content)[..]);
    let entries = segment.pieces().iter().flat_map(|piece| &piece.entries);
    let ids = entries.map(|entry| archived(entry).expect("it was read").id);
    let ids: Vec<_> = ids.collect();
    for (before, id) in ids.iter().zip(ids.iter().skip(1)) {
        assert_eq!(before.index.checked_add(1), Some(id.index));
        assert!(before.term <= id.term, "{before:?} {id:?}");
    }
    let first = ids.first().map(|id| id.index);
    assert_eq!(first, Some(segment.head().first_index));
    assert_eq!(ids.last(), Some(&segment.last()));
    assert!(segment.check_follows(&segment, path).is_err());
    // What a backup holds needs no proof, and anything else one that takes the key.
    let of_backup = segment.check_proof(&KEYS, u64::MAX, path);
    of_backup.expect("no entry is behind it");
    assert!(segment.check_proof(&KEYS, 0, path).is_err());
}

fn assert_proven(bytes: &[u8]) {
    let Some((change, mut rest)) = bytes.split_first_chunk::<2>() else {
        return;
    };
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let Ok(piece) = LogPiece::decode_length_delimited(&mut rest) else {
            return;
        };
        if piece.entries.is_empty() {
            return;
        }
        let proven = proof::piece(CLUSTER_ID, piece.entries, &KEYS);
        pieces.push(proven.expect("there is entropy"));
    }
    let Some(whole) = written(&pieces) else {
        return;
    };
    assert_eq!(whole.pieces(), pieces);
    let path = Path::new(PATH);
    let checked = whole.check_proof(&KEYS, 0, path);
    checked.expect("a node with the key sent it");
    let [at, byte] = change.map(usize::from);
    let at = at % pieces.len();
    pieces[at].proof = changed(&pieces[at].proof, byte);
    let forged = written(&pieces).expect("proofs are not looked at");
    assert!(forged.check_proof(&KEYS, 0, path).is_err());
}

/// A segment of these pieces, as it is read from where it was kept; `None` if they do not follow.
fn written(pieces: &[LogPiece]) -> Option<Segment> {
    let first = archived(pieces.first()?.entries.first()?).ok()?.id;
    let after = LogId {
        term: 0,
        index: first.index.checked_sub(1)?,
    };
    let mut growing = Growing::begin(CLUSTER_ID, after, Bytes::new());
    for piece in pieces {
        growing.add(piece).ok()?;
    }
    let closed = growing.close();
    let segment = Segment::read(&closed.content, Path::new(PATH));
    let segment = segment.expect("it was written so");
    assert_eq!(segment.head(), &closed.head);
    assert_eq!(segment.hash(), &closed.hash);
    Some(segment)
}

fn changed(proof: &[u8], byte: usize) -> Bytes {
    let mut proof = proof.to_vec();
    let byte = byte % proof.len();
    proof[byte] ^= 1;
    proof.into()
}

/// Names of files, one a line.
fn assert_names(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<_> = text.lines().map(str::to_owned).collect();
    // As large as a listing can say.
    let files = lines.iter().map(|line| (line.clone(), u64::MAX));
    let archive = Archive::of(files);
    for run in archive.runs() {
        assert!(run.bytes() > 0);
        for first in run.firsts() {
            let name = run.name(first);
            assert_eq!(first_of(Path::new(&name)), Some(first));
            let listed = name.strip_prefix("log/").map(str::to_owned);
            assert!(listed.is_some_and(|listed| lines.contains(&listed)));
        }
        let held = run.names_after(run.begins_after());
        assert!(held.len() <= run.segments());
    }
    // Lines may be the names of a backup's files, and the ids of backups, too.
    for line in &lines {
        let file = file_of(line);
        assert!(file.is_none_or(|file| stored_name(&file) == *line && !line.contains('/')));
    }
    let unneeded = archive.unneeded(&lines).len();
    let all: usize = archive.runs().iter().map(LogRun::segments).sum();
    assert!(unneeded <= all);
    assert_eq!(archive.unneeded(&[]).len(), all);
}

/// Reads the manifest of a backup. The first byte says whether a node with the key proves it, and
/// the second one which byte of the proof is changed then.
///
/// # Panics
/// If a file of it would be elsewhere, or it is proven without the key.
pub fn backup_manifest(bytes: &[u8]) {
    let Some((&[kind, byte], rest)) = bytes.split_first_chunk::<2>() else {
        return;
    };
    let path = Path::new("backups/01234567-7");
    if let Ok(backup) = manifest_of(rest, path, "01234567-7") {
        assert_eq!(backup.id(), "01234567-7");
    }
    let Ok(mut manifest) = BackupManifest::decode(rest) else {
        return;
    };
    let is_proven = kind % 2 == 1;
    if is_proven {
        let key = KEYS.newest().expect("it has one");
        proof::add(&mut manifest, key).expect("there is entropy");
    }
    let Ok(backup) = Backup::read(manifest.clone()) else {
        return;
    };
    let mut names = BTreeSet::new();
    for file in backup.files() {
        let is_inside = !file.name.contains(['/', '\\']) && file.name.contains(|c: char| c != '.');
        assert!(is_inside && names.insert(&file.name), "{}", file.name);
        assert!(file.size_bytes <= backup.bytes());
    }
    let id = backup.id();
    assert!(!id.contains(['/', '.']), "{id}");
    let sealed = durable_file::seal(&manifest.encode_to_vec());
    assert!(manifest_of(&sealed, path, &id).is_ok_and(|read| read == backup));
    assert!(manifest_of(&sealed, path, "another").is_err());
    let tip = Tip::behind(&backup);
    assert!(tip.is_reached_by(&[id]));
    let next = manifest.revision.saturating_add(1);
    assert_eq!(first_of(Path::new(&tip.next_name())), Some(next));
    let takes = backup.data_key_ids();
    let without = backup.check_proof(&Keyring::default());
    assert_eq!(without.is_ok(), takes.is_empty());
    let checked = backup.check_proof(&KEYS);
    if !is_proven {
        assert!(checked.is_err());
        return;
    }
    let own = KEYS.ids()[0].to_string();
    if takes.iter().all(|id| *id == own) {
        checked.expect("a node with the key made it");
    }
    let forged = BackupManifest {
        proof: changed(&manifest.proof, byte.into()),
        ..manifest.clone()
    };
    let altered = BackupManifest {
        rows: manifest.rows ^ 1,
        ..manifest
    };
    for manifest in [forged, altered] {
        let backup = Backup::read(manifest).expect("neither is looked at there");
        assert!(backup.check_proof(&KEYS).is_err());
    }
}
