//! Manifests that were edited.

use super::*;
use crate::storage::durable_file;

#[test]
fn manifest_of_another_revision_than_its_rows_is_refused() {
    let mut node = Node::new();
    let backup = node.back_up("1").backup;
    let rows_of = |last_log_id: Option<LogId>| {
        let snapshot = SnapshotManifest {
            last_log_id,
            ..backup.snapshot().clone()
        };
        BackupManifest {
            snapshot: snapshot.encode_to_vec().into(),
            ..backup.manifest().clone()
        }
    };
    let id = |index: u64| Some(LogId { term: 1, index });
    assert_eq!(Backup::read(rows_of(id(2))).unwrap(), backup);
    let directory = BackupDir::open(&node.to()).unwrap();
    let path = node.to().join("backups").join(backup.id());
    for edited in [rows_of(id(1)), rows_of(id(u64::MAX)), rows_of(None)] {
        durable_file::replace_sealed(&path, &edited.encode_to_vec()).unwrap();
        let refused = directory.find(Some(&backup.id())).unwrap_err().to_string();
        assert!(
            refused.contains("it is of revision 2, and its rows of"),
            "{refused}"
        );
        let next_step = "use another backup (--backup ID)";
        assert!(refused.contains(&path.display().to_string()), "{refused}");
        assert!(refused.contains(next_step), "{refused}");
    }
}

/// An edit of a manifest.
type Edit = fn(&mut BackupManifest);

const EDITS: [(&str, Edit); 12] = [
    ("format", |it| it.format = 0),
    ("version", |it| it.version = "0.0.1".to_owned()),
    ("feature level", |it| it.feature_level += 1),
    ("cluster id", |it| it.cluster_id = "01234567xx".to_owned()),
    ("node id", |it| it.node_id += 1),
    ("node uuid", |it| it.node_uuid = "node-0002".to_owned()),
    ("revision", |it| it.revision += 1),
    ("time", |it| it.clock_ms += 1),
    ("rows", |it| it.rows += 1),
    ("digest", |it| it.digest = vec![0; 32].into()),
    ("data keys", |it| {
        it.data_key_ids.push("0123456789abcdef".to_owned());
    }),
    ("snapshot", |it| {
        let mut snapshot = SnapshotManifest::decode(&*it.snapshot).unwrap();
        snapshot.membership = None;
        snapshot.files.truncate(1);
        it.snapshot = snapshot.encode_to_vec().into();
    }),
];

#[test]
fn manifest_with_an_edited_field_is_not_taken_with_data_keys() {
    let secret = Secret::new([1; 32]).unwrap();
    let keys = Keyring::new(&[secret], "backups of tests").unwrap();
    let mut node = Node::new();
    node.keys = keys.clone();
    let (_, manifest) = node.snapshot("1");
    let take = |manifest: BackupManifest| Backup::read(manifest)?.check_proof(&keys);
    take(manifest.clone()).unwrap();
    for (field, edit) in EDITS {
        let mut edited = manifest.clone();
        edit(&mut edited);
        assert_ne!(edited, manifest, "{field}");
        assert!(take(edited).is_err(), "{field} was edited, and it is taken");
    }
}
