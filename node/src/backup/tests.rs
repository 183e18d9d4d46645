//! Tests of the directory of backups.

mod manifest;

use std::{collections::BTreeSet, fs, path::PathBuf};

use bytes::Bytes;
use helve_machine::cluster_row;
use helve_proto::{peer::v1::LogId, v1::BackupChunk};
use helve_seal::Secret;
use tempfile::TempDir;

use super::{directory::BackupDir, *};
use crate::{
    limits::GROUP_ID,
    storage::{
        checkpoint::{SnapshotDir, Snapshots},
        options::StateOptions,
        state_db::StateDb,
    },
};

/// A node's state, and a directory for its backups.
pub(super) struct Node {
    directory: TempDir,
    state: StateDb,
    snapshots: Snapshots,
    index: u64,
    keys: Keyring,
    /// Of the entries behind its rows from now on.
    pub(super) term: u64,
}

impl Node {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDb::open(directory.path(), StateOptions::default()).unwrap();
        let snapshots = Snapshots::open(&directory.path().join("snapshots")).unwrap();
        let mut node = Self {
            directory,
            state,
            snapshots,
            index: 0,
            keys: Keyring::default(),
            term: 1,
        };
        let (key, row) = cluster_row(GROUP_ID, "0123456789");
        node.write(key, row);
        node
    }

    fn write(&mut self, key: Bytes, row: Bytes) {
        self.index += 1;
        let log_id = LogId {
            term: self.term,
            index: self.index,
        };
        self.state.write([(key, Some(row))], &log_id, None).unwrap();
    }

    /// Writes a row of a table that no version knows, and takes a snapshot.
    pub(super) fn snapshot(&mut self, row: &'static str) -> (SnapshotDir, BackupManifest) {
        self.write(Bytes::from_static(b"\xff\xffrow"), row.into());
        let snapshot = self.snapshots.build(&self.state).unwrap();
        let maker = Maker {
            node_id: 1,
            node_uuid: "node-0001".to_owned(),
            keys: self.keys.clone(),
        };
        let manifest = describe(&snapshot, &maker, |_| true).unwrap().unwrap();
        (snapshot, manifest)
    }

    pub(super) fn to(&self) -> PathBuf {
        self.directory.path().join("to")
    }

    /// Backs up as a node does that is told what is held.
    pub(super) fn back_up(&mut self, row: &'static str) -> Received {
        let (snapshot, manifest) = self.snapshot(row);
        let directory = BackupDir::create(&self.to()).unwrap();
        let left_out = left_out(&directory, &snapshot);
        receive(&directory, &snapshot, manifest, left_out).unwrap()
    }
}

fn left_out(directory: &BackupDir, snapshot: &SnapshotDir) -> BTreeSet<usize> {
    let held = directory.held("node-0001").unwrap();
    let held: Vec<_> = held.chunks(FILE_KEY_BYTES).collect();
    let files = snapshot.manifest().files.iter().enumerate();
    let files = files.filter(|(_, file)| held.contains(&&file_key(file)[..]));
    files.map(|(at, _)| at).collect()
}

fn receive(
    directory: &BackupDir,
    snapshot: &SnapshotDir,
    manifest: BackupManifest,
    left_out: BTreeSet<usize>,
) -> Result<Received, BackupError> {
    let mut receiver = Receiver::begin(directory, manifest)?;
    for chunk in snapshot.chunks_without(left_out, 100) {
        let chunk = chunk.unwrap();
        receiver.write(&BackupChunk {
            file: chunk.file,
            data: chunk.data,
        })?;
    }
    receiver.finish()
}

#[test]
fn second_backup_brings_only_files_that_are_new() {
    let mut node = Node::new();
    let first = node.back_up("1");
    assert_eq!(
        (first.kept_bytes, first.backup.id()),
        (0, "01234567-2".into())
    );
    assert_eq!(first.sent_bytes, first.backup.bytes());
    let second = node.back_up("2");
    assert!(second.kept_bytes > 0 && second.sent_bytes > 0, "{second:?}");
    assert_eq!(second.sent_bytes + second.kept_bytes, second.backup.bytes());
    let directory = BackupDir::open(&node.to()).unwrap();
    let ids: Vec<_> = directory
        .list()
        .unwrap()
        .into_iter()
        .map(|it| it.id)
        .collect();
    assert_eq!(ids, ["01234567-2", "01234567-3"]);
    let both = [&first.backup, &second.backup];
    assert!(directory.verify(&both, |_| {}).is_empty());
    let found = directory.find(Some("01234567-2")).unwrap();
    assert_eq!(found, first.backup);
    assert!(matches!(
        directory.find(Some("../backups/01234567-2")),
        Err(BackupError::NoSuch { .. })
    ));
}

#[test]
fn flipped_bit_in_any_file_is_found_and_named() {
    let mut node = Node::new();
    let backup = node.back_up("1").backup;
    let directory = BackupDir::open(&node.to()).unwrap();
    for file in backup.files() {
        let path = directory.file_path(&backup, file);
        let whole = fs::read(&path).unwrap();
        if whole.is_empty() {
            continue;
        }
        let mut flipped = whole.clone();
        let middle = flipped.len() / 2;
        flipped[middle] ^= 1;
        fs::write(&path, &flipped).unwrap();
        let damaged = directory.verify(&[&backup], |_| {});
        let said: Vec<_> = damaged.iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains(&path.display().to_string()), "{said:?}");
        fs::write(&path, &whole).unwrap();
    }
    let manifest = node.to().join("backups/01234567-2");
    let mut sealed = fs::read(&manifest).unwrap();
    sealed[20] ^= 1;
    fs::write(&manifest, &sealed).unwrap();
    let error = directory.find(None).unwrap_err().to_string();
    assert!(error.contains("01234567-2 is damaged"), "{error}");
}

#[test]
fn backup_that_is_cut_off_counts_for_nothing_and_its_files_are_kept() {
    let mut node = Node::new();
    let (snapshot, manifest) = node.snapshot("1");
    let directory = BackupDir::create(&node.to()).unwrap();
    let mut receiver = Receiver::begin(&directory, manifest.clone()).unwrap();
    let chunks: Vec<_> = snapshot.chunks(100).map(Result::unwrap).collect();
    for chunk in &chunks[..chunks.len() - 1] {
        let (file, data) = (chunk.file, chunk.data.clone());
        receiver.write(&BackupChunk { file, data }).unwrap();
    }
    drop(receiver);
    assert!(matches!(directory.find(None), Err(BackupError::Nothing(_))));
    let left_out = left_out(&directory, &snapshot);
    assert!(!left_out.is_empty(), "no file was kept");
    let received = receive(&directory, &snapshot, manifest, left_out).unwrap();
    assert!(received.kept_bytes > 0);
    assert_eq!(directory.find(None).unwrap(), received.backup);
}

#[test]
fn damaged_file_of_an_earlier_backup_is_removed_and_sent_again() {
    let mut node = Node::new();
    let first = node.back_up("1").backup;
    let (snapshot, manifest) = node.snapshot("2");
    let directory = BackupDir::create(&node.to()).unwrap();
    let kept = left_out(&directory, &snapshot);
    let files = &snapshot.manifest().files;
    let has_bytes = |at: &&usize| files[**at].size_bytes > 0;
    let at = *kept.iter().find(has_bytes).unwrap();
    let path = directory.file_path(&first, &snapshot.manifest().files[at]);
    let mut content = fs::read(&path).unwrap();
    content[0] ^= 1;
    fs::write(&path, &content).unwrap();
    let error = receive(&directory, &snapshot, manifest.clone(), kept).unwrap_err();
    assert!(
        matches!(&error, BackupError::KeptDamaged(paths) if *paths == [path]),
        "{error}"
    );
    let left_out = left_out(&directory, &snapshot);
    let received = receive(&directory, &snapshot, manifest, left_out).unwrap();
    assert!(directory.verify(&[&received.backup], |_| {}).is_empty());
}

#[test]
fn what_a_node_sends_otherwise_than_it_said_is_refused() {
    let mut node = Node::new();
    let (snapshot, manifest) = node.snapshot("1");
    let directory = BackupDir::create(&node.to()).unwrap();
    let chunks: Vec<_> = snapshot.chunks(100).map(Result::unwrap).collect();
    let chunk = |at: usize| BackupChunk {
        file: chunks[at].file,
        data: chunks[at].data.clone(),
    };
    let last = chunks.len() - 1;
    let other = BackupChunk {
        data: vec![0; chunks[0].data.len()].into(),
        ..chunk(0)
    };
    let beyond = BackupChunk {
        file: 1_000,
        ..chunk(0)
    };
    for sent in [
        vec![chunk(last)],
        vec![chunk(0), chunk(0), chunk(0)],
        vec![other],
        vec![beyond],
        vec![],
    ] {
        let mut receiver = Receiver::begin(&directory, manifest.clone()).unwrap();
        let written: Result<(), _> = sent.iter().try_for_each(|chunk| receiver.write(chunk));
        let ended = written.and_then(|()| receiver.finish().map(drop));
        assert!(matches!(ended, Err(BackupError::Stream(_))), "{ended:?}");
    }
}

#[test]
fn manifest_of_a_newer_version_or_with_names_that_lead_elsewhere_is_refused() {
    let mut node = Node::new();
    let (_, manifest) = node.snapshot("1");
    let newer = BackupManifest {
        format: FORMAT + 1,
        version: "9.9.9".to_owned(),
        ..manifest.clone()
    };
    let error = Backup::read(newer).unwrap_err().to_string();
    assert!(
        error.contains("use version 9.9.9 or a newer one"),
        "{error}"
    );
    for version in ["1.0\u{1b}[2J", &"1".repeat(65)] {
        let odd = BackupManifest {
            version: version.to_owned(),
            format: FORMAT + 1,
            ..manifest.clone()
        };
        let error = Backup::read(odd).unwrap_err();
        assert!(matches!(error, BackupError::Manifest(_)), "{error}");
    }
    for uuid in ["../../etc", "", "a"] {
        let elsewhere = BackupManifest {
            node_uuid: uuid.to_owned(),
            ..manifest.clone()
        };
        assert!(Backup::read(elsewhere).is_err(), "{uuid}");
    }
    let mut snapshot = SnapshotManifest::decode(&*manifest.snapshot).unwrap();
    snapshot.files[0].name = "../1.sst".to_owned();
    let elsewhere = BackupManifest {
        snapshot: snapshot.encode_to_vec().into(),
        ..manifest
    };
    assert!(Backup::read(elsewhere).is_err());
}

#[test]
fn backup_of_a_node_with_data_keys_is_taken_with_them_alone_and_as_it_was_made() {
    let secret = |byte: u8| Secret::new([byte; 32]).unwrap();
    let ring = |secrets: &[Secret]| Keyring::new(secrets, "backups of tests").unwrap();
    let (keys, none) = (ring(&[secret(1)]), Keyring::default());
    let mut node = Node::new();
    let plain = Backup::read(node.snapshot("1").1).unwrap();
    assert!(plain.check_proof(&none).is_ok());
    let unproven = plain.check_proof(&keys);
    assert!(
        matches!(unproven, Err(BackupError::Unproven(_))),
        "{unproven:?}"
    );
    node.keys = keys.clone();
    let (_, manifest) = node.snapshot("2");
    let backup = Backup::read(manifest.clone()).unwrap();
    let id = keys.ids()[0].to_string();
    assert_eq!(backup.data_key_ids(), [id]);
    assert!(backup.check_proof(&keys).is_ok());
    for others in [none, ring(&[secret(2)])] {
        let missing = backup.check_proof(&others);
        assert!(
            matches!(missing, Err(BackupError::KeyMissing { .. })),
            "{missing:?}"
        );
    }
    let forged = BackupManifest {
        digest: vec![0; 32].into(),
        ..manifest
    };
    let forged = Backup::read(forged).unwrap().check_proof(&keys);
    assert!(matches!(forged, Err(BackupError::Forged(_))), "{forged:?}");
}

#[test]
fn directory_is_for_backups_alone_and_for_one_writer_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("to");
    assert!(matches!(
        BackupDir::open(&path),
        Err(BackupError::Nothing(_))
    ));
    let writer = BackupDir::create(&path).unwrap();
    // As where the first backup was cut off.
    let listed = BackupDir::open(&path).unwrap().list();
    assert!(matches!(listed, Err(BackupError::Nothing(_))), "{listed:?}");
    assert!(matches!(
        BackupDir::create(&path),
        Err(BackupError::InUse(_))
    ));
    drop(writer);
    assert!(BackupDir::create(&path).is_ok());
    fs::write(directory.path().join("photo"), "").unwrap();
    assert!(matches!(
        BackupDir::create(directory.path()),
        Err(BackupError::NotOurs(_))
    ));
}
