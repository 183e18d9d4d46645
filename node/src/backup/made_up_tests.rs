//! What anyone may make up who can write to the place of the backups.

use bytes::Bytes;
use helve_proto::{
    peer::v1::{LogId, SnapshotManifest},
    v1::BackupManifest,
};
use proptest::{collection::vec, prelude::*, sample::Index};
use prost::Message as _;

use super::{
    BackupFile, FORMAT,
    fuzzing::{archive_segment, backup_manifest},
    segment::tests::{closed, piece},
};
use crate::{properties::check, storage::checkpoint};

/// These bytes with one of them changed, and perhaps cut.
fn edited(real: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let cut = proptest::option::of(any::<Index>());
    (any::<Index>(), any::<u8>(), cut).prop_map(move |(at, byte, cut)| {
        let mut bytes = real.clone();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let length = cut.map_or(bytes.len(), |cut| cut.index(bytes.len()));
        bytes.truncate(length);
        bytes
    })
}

/// A file, contents of its frames, and pieces that are proven, as `archive_segment` takes them.
fn segments() -> impl Strategy<Value = Vec<u8>> {
    let closed = closed(5, 9, Bytes::from_static(b"before"));
    let file = [&[0_u8][..], &closed.content[..]].concat();
    let mut frames = vec![1_u8];
    for content in [closed.head.encode_to_vec(), piece(5, 9).encode_to_vec()] {
        let length = u16::try_from(content.len()).expect("it is short");
        frames.extend(length.to_be_bytes());
        frames.extend(content);
    }
    let mut pieces = vec![2_u8, 1, 20];
    for piece in [piece(5, 6), piece(7, 9)] {
        pieces.extend(piece.encode_length_delimited_to_vec());
    }
    prop_oneof![
        vec(any::<u8>(), 0..80),
        edited(file),
        edited(frames),
        edited(pieces),
    ]
}

#[test]
fn a_segment_that_a_bucket_makes_up_is_refused_or_holds_what_it_says() {
    check(&segments(), |bytes| {
        archive_segment(&bytes);
        Ok(())
    });
}

#[test]
fn a_listing_that_a_bucket_makes_up_names_segments_or_nothing() {
    let id = "(01234567|89abcdef|[ -~]{0,9})-[0-9]{1,20}";
    let name = "(01234567|89abcdef|[ -~]{0,9})-[0-9]{1,20}/(0{19}[0-9]|[0-9]{18,21}|[ -~]{0,5})";
    check(&vec(prop_oneof![id, name], 0..9), |names| {
        archive_segment(&[&[3_u8][..], names.join("\n").as_bytes()].concat());
        Ok(())
    });
}

/// Manifests of a snapshot's files, behind what `backup_manifest` reads first.
fn manifests() -> impl Strategy<Value = Vec<u8>> {
    let name = "[a-z0-9._-]{1,9}|\\PC{0,9}|\\.\\./[a-z]{1,3}";
    let size = prop_oneof![0..9_u64, any::<u64>()];
    let files = vec((name, size, any::<u32>()), 0..4);
    let ids = ("[0-9a-f-]{8,12}|\\PC{0,12}", "[0-9a-f-]{8,12}");
    let keys = vec("[0-9a-f]{16}|\\PC{0,4}", 0..2);
    let proof = vec(any::<u8>(), 0..90);
    let revision = prop_oneof![0..9_u64, any::<u64>()];
    let first = (any::<u8>(), any::<u8>());
    (first, files, ids, keys, proof, revision).prop_map(
        |((kind, byte), files, (cluster_id, node_uuid), data_key_ids, proof, revision)| {
            let files = files
                .into_iter()
                .map(|(name, size_bytes, crc32c)| BackupFile {
                    name,
                    size_bytes,
                    crc32c,
                });
            let snapshot = SnapshotManifest {
                format: 1,
                engine: checkpoint::ENGINE.to_owned(),
                last_log_id: Some(LogId {
                    term: 2,
                    index: revision,
                }),
                files: files.collect(),
                ..SnapshotManifest::default()
            };
            let manifest = BackupManifest {
                format: FORMAT,
                version: "0.1.0".to_owned(),
                cluster_id,
                node_uuid,
                data_key_ids,
                revision,
                snapshot: snapshot.encode_to_vec().into(),
                proof: proof.into(),
                ..BackupManifest::default()
            };
            [&[kind, byte][..], &manifest.encode_to_vec()[..]].concat()
        },
    )
}

#[test]
fn a_manifest_that_a_bucket_makes_up_is_refused_or_stays_in_its_place() {
    check(&manifests(), |bytes| {
        backup_manifest(&bytes);
        Ok(())
    });
}
