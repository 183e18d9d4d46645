//! Tests of `authentic`: a node's directory that somebody edits while the node is stopped.

use std::{fs, path::PathBuf};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use helve_proto::peer::v1::StoredMembership;

use crate::storage::{
    checkpoint::{Snapshots, write_manifest},
    state_db::StateDb,
};

type Row = (Bytes, Option<Bytes>);

fn options() -> StateOptions {
    StateOptions {
        block_cache_bytes: 1 << 20,
        memtable_bytes: 1 << 20,
    }
}

fn own_key() -> Arc<DiskKey> {
    DiskKey::new(&[1; 32])
}

fn id(index: u64) -> LogId {
    LogId { term: 1, index }
}

/// The row of a token; `None`: it is removed.
fn token(hash: &str, row: Option<&'static str>) -> Row {
    let key = [&[0, 0, 0, 1, 0, 8][..], hash.as_bytes()].concat();
    (key.into(), row.map(Bytes::from))
}

/// A node's directory, and how it is opened.
struct Node(TempDir);

impl Node {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// One with two tokens, the second of which was revoked.
    fn with_tokens() -> Self {
        let node = Self::new();
        let state = node.start().unwrap();
        let first = [token("a", Some("reader")), token("b", Some("admin"))];
        state.write(first, &id(4), None).unwrap();
        let second = [
            token("b", Some("revoked")),
            ("cart".into(), Some("tea".into())),
        ];
        state.write(second, &id(7), None).unwrap();
        state.sync().unwrap();
        node
    }

    fn start(&self) -> Result<StateDb, StorageError> {
        StateDb::open_under(self.0.path(), options(), Some(own_key()))
    }

    /// Writes behind the node's back.
    fn edit(&self, rows: impl IntoIterator<Item = Row>, applied: u64) {
        let state = StateDb::open(self.0.path(), options()).unwrap();
        state.write(rows, &id(applied), None).unwrap();
        state.sync().unwrap();
    }

    fn edit_mark(&self, edit: impl FnOnce(&DB)) {
        let state = StateDb::open(self.0.path(), options()).unwrap();
        edit(&state.generation().db);
        state.sync().unwrap();
    }

    fn snapshots(&self) -> PathBuf {
        self.0.path().join("snapshots")
    }

    fn open_snapshots(&self) -> Result<Snapshots, StorageError> {
        Snapshots::open_under(&self.snapshots(), options(), Some(own_key()))
    }
}

fn is_changed<T>(opened: &Result<T, StorageError>) -> bool {
    matches!(opened, Err(StorageError::Changed(_)))
}

#[test]
fn a_state_without_edits_opens_again_and_goes_on() {
    let node = Node::with_tokens();
    for index in 8..11 {
        let state = node.start().unwrap();
        let row = if index % 2 == 0 { Some("writer") } else { None };
        let rows = [token("c", row), ("cart".into(), None)];
        state.write(rows, &id(index), None).unwrap();
        state.sync().unwrap();
    }
    assert!(node.start().is_ok());
}

#[test]
fn each_edit_of_a_row_that_gives_rights_is_found() {
    let edits: [&[Row]; 6] = [
        &[token("c", Some("admin"))],
        &[token("a", Some("admin"))],
        &[token("a", None)],
        &[token("b", Some("admin"))],
        &[token("a", Some("revoked")), token("b", Some("reader"))],
        &[token("a", None), token("b", None)],
    ];
    for edit in edits {
        let node = Node::with_tokens();
        node.edit(edit.to_vec(), 7);
        assert!(is_changed(&node.start()), "{edit:?}");
    }
    let node = Node::with_tokens();
    node.edit([("cart".into(), Some("coffee".into()))], 7);
    assert!(node.start().is_ok(), "values have seals of their own");
}

#[test]
fn rows_and_mark_of_an_older_state_fit_no_newer_one() {
    let node = Node::with_tokens();
    let state = node.start().unwrap();
    let older = state
        .generation()
        .db
        .get_cf(&family(&state.generation().db, META), MARK_KEY);
    let older = older.unwrap().unwrap();
    let rows = [token("a", Some("revoked"))];
    state.write(rows, &id(9), None).unwrap();
    state.sync().unwrap();
    drop(state);
    node.edit([token("a", Some("reader"))], 9);
    node.edit_mark(|db| {
        let meta = family(db, META);
        db.put_cf_opt(&meta, MARK_KEY, &older, &options::unlogged())
            .unwrap();
    });
    assert!(is_changed(&node.start()));
    // Only with the entry that they are of, whose successors the log replays.
    node.edit([], 7);
    assert!(node.start().is_ok());
}

fn members(index: u64) -> StoredMembership {
    StoredMembership {
        log_id: Some(id(index)),
        ..StoredMembership::default()
    }
}

#[test]
fn members_that_were_edited_are_found() {
    let node = Node::with_tokens();
    let state = node.start().unwrap();
    state.write([], &id(8), Some(&members(8))).unwrap();
    state.write([], &id(9), None).unwrap();
    state.sync().unwrap();
    drop(state);
    assert!(node.start().is_ok());
    let state = StateDb::open(node.0.path(), options()).unwrap();
    state.write([], &id(9), Some(&members(7))).unwrap();
    state.sync().unwrap();
    drop(state);
    assert!(is_changed(&node.start()));
}

#[test]
fn a_snapshot_with_another_manifest_or_with_files_that_it_does_not_name_is_refused() {
    let node = Node::with_tokens();
    let built = {
        let snapshots = node.open_snapshots().unwrap();
        snapshots.build(&node.start().unwrap()).unwrap()
    };
    let (path, whole) = (built.path(), built.manifest().clone());
    let mut checksum = whole.clone();
    checksum.files[0].crc32c ^= 1;
    let other_members = SnapshotManifest {
        membership: Some(members(3)),
        ..whole.clone()
    };
    let newer = SnapshotManifest {
        last_log_id: Some(id(400)),
        ..whole.clone()
    };
    for edited in [checksum, other_members, newer] {
        write_manifest(&path, &edited).unwrap();
        assert!(is_changed(&node.open_snapshots()), "{edited:?}");
        assert!(path.exists());
    }
    write_manifest(&path, &whole).unwrap();
    assert!(node.open_snapshots().is_ok());
    // The engine would take up what it says, and hide a row that is sent to peers.
    let stray = path.join("999999.log");
    fs::write(&stray, b"").unwrap();
    assert!(is_changed(&node.open_snapshots()));
    fs::remove_file(&stray).unwrap();
    assert!(node.open_snapshots().unwrap().current().is_some());
}

#[test]
fn a_state_whose_mark_was_stripped_is_refused() {
    let node = Node::with_tokens();
    node.edit_mark(|db| {
        let meta = family(db, META);
        db.delete_cf_opt(&meta, MARK_KEY, &options::unlogged())
            .unwrap();
    });
    assert!(is_changed(&node.start()));
    let unkeyed = Node::new();
    unkeyed.edit([("cart".into(), Some("tea".into()))], 3);
    assert!(is_changed(&unkeyed.start()), "also without any token");
}

#[test]
fn a_state_that_is_taken_as_it_is_fits_its_key_from_then_on() {
    let node = Node::new();
    node.edit([token("a", Some("reader"))], 3);
    let state = StateDb::open(node.0.path(), options()).unwrap();
    state.adopt(&own_key()).unwrap();
    drop(state);
    assert!(node.start().is_ok());
    node.edit([token("a", Some("admin"))], 3);
    assert!(is_changed(&node.start()));
}

#[test]
fn an_installed_snapshot_fits_the_key_of_its_receiver() {
    let sender = Node::with_tokens();
    let snapshots = sender.open_snapshots().unwrap();
    let sent = snapshots.build(&sender.start().unwrap()).unwrap();
    let receiver = Node::new();
    let key = || Some(DiskKey::new(&[2; 32]));
    let start = || StateDb::open_under(receiver.0.path(), options(), key());
    let open = || Snapshots::open_under(&receiver.snapshots(), options(), key());
    let (state, snapshots) = (start().unwrap(), open().unwrap());
    let mut writer = snapshots.receive(sent.manifest().clone()).unwrap();
    for chunk in sent.chunks(1000) {
        writer.write(&chunk.unwrap()).unwrap();
    }
    let received = writer.finish().unwrap();
    state.install(&received).unwrap();
    snapshots.publish(&received).unwrap();
    state
        .write([token("c", Some("reader"))], &id(8), None)
        .unwrap();
    state.sync().unwrap();
    drop((state, snapshots));
    assert!(start().is_ok() && open().is_ok());
    receiver.edit([token("a", Some("admin"))], 8);
    assert!(is_changed(&start()));
}

#[test]
fn a_snapshot_that_somebody_put_there_or_edited_is_refused() {
    let node = Node::with_tokens();
    let built = {
        let snapshots = node.open_snapshots().unwrap();
        let built = snapshots.build(&node.start().unwrap()).unwrap();
        built.path()
    };
    assert!(node.open_snapshots().is_ok());
    let forger = Node::new();
    forger.edit([token("a", Some("admin"))], 20);
    let forged = {
        let state = StateDb::open(forger.0.path(), options()).unwrap();
        let snapshots = Snapshots::open(&forger.snapshots()).unwrap();
        snapshots.build(&state).unwrap().path()
    };
    let put = node.snapshots().join(forged.file_name().unwrap());
    fs::rename(&forged, &put).unwrap();
    assert!(is_changed(&node.open_snapshots()), "without a mark");
    fs::copy(built.join(SNAPSHOT_MARK_NAME), put.join(SNAPSHOT_MARK_NAME)).unwrap();
    assert!(is_changed(&node.open_snapshots()), "with another's mark");
    assert!(
        put.exists(),
        "what was found stays for those who look into it"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// However rows are written, in whatever order and batches, the mark is that of the rows that are there in the end.
    #[test]
    fn the_mark_follows_any_writes(
        batches in prop::collection::vec(
            prop::collection::vec((0..4_usize, prop::option::of(0..3_usize)), 0..6),
            1..5,
        ),
    ) {
        let hashes = ["a", "b", "c", "d"];
        let values = ["reader", "writer", "admin"];
        let node = Node::new();
        let state = node.start().unwrap();
        for (index, batch) in (1..).zip(&batches) {
            let rows = batch.iter().map(|(hash, value)| {
                token(hashes[*hash], value.map(|value| values[value]))
            });
            state.write(rows, &id(index), None).unwrap();
        }
        state.sync().unwrap();
        drop(state);
        prop_assert!(node.start().is_ok());
    }
}
