//! Tests of `checkpoint`.

use bytes::Bytes;
use helve_machine::View;
use helve_proto::peer::v1::{LogId, SnapshotChunk, SnapshotFile, StoredMembership};
use tempfile::TempDir;

use super::{snapshot_dir::is_immutable, *};
use crate::storage::options::StateOptions;

/// A node's state and snapshots in a directory.
struct Fixture {
    state: StateDb,
    snapshots: Snapshots,
    directory: TempDir,
}

fn fixture() -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let options = StateOptions {
        block_cache_bytes: 1 << 20,
        memtable_bytes: 1 << 20,
    };
    Fixture {
        state: StateDb::open(directory.path(), options).unwrap(),
        snapshots: Snapshots::open(&directory.path().join("snapshots")).unwrap(),
        directory,
    }
}

impl Fixture {
    fn put(&self, index: u64, value: &'static str) {
        let applied = LogId { term: 1, index };
        let membership = StoredMembership {
            log_id: Some(applied),
            membership: None,
        };
        let rows = [("cart".into(), Some(value.into()))];
        self.state.write(rows, &applied, Some(&membership)).unwrap();
    }

    fn get(&self) -> Option<Bytes> {
        self.state.read(|view| view.get(b"cart")).unwrap()
    }

    /// The names in the directory of snapshots.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.path().join("snapshots")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    /// Receives a snapshot, each chunk as `change` leaves it.
    fn receive(
        &self,
        sent: &SnapshotDir,
        mut change: impl FnMut(&mut SnapshotChunk),
    ) -> Result<SnapshotDir, StorageError> {
        let mut writer = self.snapshots.receive(sent.manifest().clone())?;
        for chunk in sent.chunks(1000) {
            let mut chunk = chunk?;
            change(&mut chunk);
            writer.write(&chunk)?;
        }
        writer.finish()
    }
}

fn name(index: u64) -> String {
    format!("snap-{index:020}")
}

#[test]
fn a_snapshot_makes_another_node_equal() {
    let leader = fixture();
    leader.put(5, "apple");
    let sent = leader.snapshots.build(&leader.state).unwrap();
    assert_eq!(
        sent.manifest().last_log_id.map(|log_id| log_id.index),
        Some(5)
    );

    let follower = fixture();
    follower.put(2, "pear");
    let received = follower.receive(&sent, |_| ()).unwrap();
    follower.state.install(&received).unwrap();
    follower.snapshots.publish(&received).unwrap();
    assert_eq!(follower.get(), Some("apple".into()));
    assert_eq!(
        follower.state.applied().unwrap(),
        leader.state.applied().unwrap()
    );
    assert_eq!(
        follower.state.membership().unwrap(),
        leader.state.membership().unwrap()
    );
    assert_eq!(follower.names(), [name(5)]);

    // It can be handed on, and the state that came from it goes on by itself.
    follower.put(6, "plum");
    let third = fixture();
    let handed_on = third
        .receive(&follower.snapshots.current().unwrap(), |_| ())
        .unwrap();
    third.state.install(&handed_on).unwrap();
    assert_eq!(third.get(), Some("apple".into()));
}

#[test]
fn a_flipped_byte_is_refused_and_leaves_nothing() {
    let leader = fixture();
    leader.put(5, "apple");
    let sent = leader.snapshots.build(&leader.state).unwrap();
    let files = sent.manifest().files.len() as u32;
    for file in 0..files {
        let follower = fixture();
        let received = follower.receive(&sent, |chunk| {
            if chunk.file == file {
                let mut data = chunk.data.to_vec();
                data[0] ^= 1;
                chunk.data = data.into();
            }
        });
        let touched = sent.manifest().files[file as usize].size_bytes > 0;
        assert_eq!(received.is_err(), touched);
        drop(received);
        assert!(follower.names().is_empty());
    }
}

#[test]
fn a_snapshot_that_ends_early_or_comes_out_of_order_is_refused() {
    let leader = fixture();
    leader.put(5, "apple");
    let sent = leader.snapshots.build(&leader.state).unwrap();
    let chunks: Vec<_> = sent.chunks(1000).map(Result::unwrap).collect();
    let follower = fixture();
    let begin = || follower.snapshots.receive(sent.manifest().clone()).unwrap();

    let mut writer = begin();
    for chunk in &chunks[..chunks.len() - 1] {
        writer.write(chunk).unwrap();
    }
    assert!(matches!(writer.finish(), Err(StorageError::Snapshot(_))));

    let mut writer = begin();
    assert!(
        chunks
            .iter()
            .rev()
            .try_for_each(|chunk| writer.write(chunk))
            .is_err()
    );
    let mut writer = begin();
    let beyond = SnapshotChunk {
        file: 1000,
        data: Bytes::new(),
    };
    assert!(matches!(
        writer.write(&beyond),
        Err(StorageError::Snapshot(_))
    ));
}

#[test]
fn names_that_lead_out_of_the_directory_are_refused() {
    let follower = fixture();
    let names = [
        "../escaped",
        "/etc/passwd",
        "a/b",
        "..",
        ".",
        "",
        "a\0b",
        MANIFEST_NAME,
    ];
    for name in names {
        let file = SnapshotFile {
            name: name.to_owned(),
            size_bytes: 1,
            crc32c: 0,
        };
        let manifest = SnapshotManifest {
            format: FORMAT,
            engine: ENGINE.to_owned(),
            files: vec![file],
            ..SnapshotManifest::default()
        };
        let refused = follower.snapshots.receive(manifest);
        assert!(matches!(refused, Err(StorageError::Snapshot(_))), "{name}");
    }
}

#[test]
fn a_snapshot_of_another_engine_or_a_newer_format_is_refused() {
    let leader = fixture();
    leader.put(5, "apple");
    let sent = leader.snapshots.build(&leader.state).unwrap();
    let manifest = SnapshotManifest {
        engine: "pebble-1".to_owned(),
        ..sent.manifest().clone()
    };
    assert!(matches!(
        leader.snapshots.receive(manifest),
        Err(StorageError::Snapshot(_))
    ));
    let manifest = SnapshotManifest {
        format: FORMAT + 1,
        ..sent.manifest().clone()
    };
    assert!(matches!(
        leader.snapshots.receive(manifest),
        Err(StorageError::NewerFormat { .. })
    ));
}

#[test]
fn a_manifest_that_names_another_entry_is_not_installed() {
    let leader = fixture();
    leader.put(5, "apple");
    let sent = leader.snapshots.build(&leader.state).unwrap();
    let mut manifest = sent.manifest().clone();
    manifest.last_log_id = Some(LogId { term: 1, index: 6 });
    let follower = fixture();
    follower.put(2, "pear");
    let mut writer = follower.snapshots.receive(manifest).unwrap();
    sent.chunks(1000)
        .for_each(|chunk| writer.write(&chunk.unwrap()).unwrap());
    let received = writer.finish().unwrap();
    assert!(matches!(
        follower.state.install(&received),
        Err(StorageError::Snapshot(_))
    ));
    assert_eq!(follower.get(), Some("pear".into()));
}

#[test]
fn the_newest_snapshot_stays_and_older_ones_as_long_as_they_are_read() {
    let node = fixture();
    node.put(5, "apple");
    let older = node.snapshots.build(&node.state).unwrap();
    node.put(7, "pear");
    node.snapshots.build(&node.state).unwrap();
    assert_eq!(node.names(), [name(5), name(7)]);
    assert!(older.chunks(1000).all(|chunk| chunk.is_ok()));
    drop(older);
    assert_eq!(node.names(), [name(7)]);

    let again = node.snapshots.build(&node.state).unwrap();
    assert_eq!(
        again.manifest(),
        node.snapshots.current().unwrap().manifest()
    );
    assert_eq!(node.names(), [name(7)]);
}

#[test]
fn the_newest_whole_snapshot_is_found_after_a_restart() {
    let Fixture {
        state,
        snapshots,
        directory,
    } = fixture();
    let node = Fixture {
        state,
        snapshots,
        directory,
    };
    node.put(5, "apple");
    node.snapshots.build(&node.state).unwrap();
    let root = node.directory.path().join("snapshots");
    fs::create_dir(root.join("tmp-received-3")).unwrap();
    fs::create_dir(root.join(name(9))).unwrap();

    let snapshots = Snapshots::open(&root).unwrap();
    let current = snapshots.current().unwrap();
    assert_eq!(
        current.manifest().last_log_id.map(|log_id| log_id.index),
        Some(5)
    );
    assert_eq!(node.names(), [name(5)]);
}

#[test]
fn a_table_file_is_read_once_for_all_snapshots_of_one_state() {
    let node = fixture();
    node.put(5, "apple");
    let first = node.snapshots.build(&node.state).unwrap();
    let table = |snapshot: &SnapshotDir| {
        let mut tables = snapshot.manifest().files.iter();
        tables
            .find(|file| is_immutable(&file.name))
            .unwrap()
            .clone()
    };
    // Read again, it would have another checksum.
    let path = first.path().join(table(&first).name);
    let content = fs::read(&path).unwrap();
    let mut flipped = content.clone();
    flipped[0] ^= 1;
    fs::write(&path, flipped).unwrap();
    node.put(6, "pear");
    let second = node.snapshots.build(&node.state).unwrap();
    assert_eq!(table(&second), table(&first));
    fs::write(&path, content).unwrap();

    // Another state may have other files of these names.
    node.state.install(&second).unwrap();
    node.put(7, "plum");
    let third = node.snapshots.build(&node.state).unwrap();
    let follower = fixture();
    let received = follower.receive(&third, |_| ()).unwrap();
    follower.state.install(&received).unwrap();
    assert_eq!(follower.get(), Some("plum".into()));
}
