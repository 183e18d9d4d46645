//! Tests of `data_dir`.

use std::{os::unix::fs::PermissionsExt as _, process};

use super::*;

fn open(path: &Path, seat: u64) -> Result<DataDir, DataDirError> {
    DataDir::open(path, seat, "a-uuid")
}

#[test]
fn an_identity_outlives_the_process() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("node");
    let mut directory = open(&path, 2).unwrap();
    directory.assign(5, "a-cluster").unwrap();
    drop(directory);
    let directory = DataDir::open(&path, 2, "another-uuid").unwrap();
    let identity = directory.identity();
    assert_eq!(
        (identity.node_id, identity.cluster_id.as_str()),
        (5, "a-cluster")
    );
    assert_eq!(identity.uuid, "a-uuid");
}

#[test]
fn an_open_directory_is_closed_to_others_if_it_is_a_nodes_alone() {
    let root = tempfile::tempdir().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let set_open = |path: &Path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    set_open(root.path());
    drop(open(root.path(), 1).unwrap());
    assert_eq!(mode(root.path()), 0o700);
    set_open(root.path());
    drop(open(root.path(), 1).unwrap());
    assert_eq!(mode(root.path()), 0o700);
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("letter"), "").unwrap();
    set_open(other.path());
    assert!(matches!(
        open(other.path(), 1),
        Err(DataDirError::NotOurs(_))
    ));
    assert_eq!(mode(other.path()), 0o755, "it is not ours to close");
}

#[test]
fn a_second_process_is_refused_and_told_the_first() {
    let root = tempfile::tempdir().unwrap();
    let _first = open(root.path(), 1).unwrap();
    let error = open(root.path(), 1).unwrap_err();
    assert!(matches!(&error, DataDirError::InUse { pid, .. } if *pid == process::id().to_string()));
    assert!(error.to_string().contains("--data-dir"));
}

#[test]
fn a_directory_of_another_seat_or_cluster_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let mut directory = open(root.path(), 1).unwrap();
    directory.assign(1, "a-cluster").unwrap();
    let other = directory.assign(1, "another-cluster");
    assert!(matches!(other, Err(DataDirError::OtherCluster { .. })));
    drop(directory);
    assert!(matches!(
        open(root.path(), 2),
        Err(DataDirError::OtherSeat { found: 1, .. })
    ));
}

#[test]
fn a_directory_of_something_else_is_refused() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("thesis.tex"), "").unwrap();
    assert!(matches!(
        open(root.path(), 1),
        Err(DataDirError::NotOurs(_))
    ));
    // Of neither command is the remedy another directory's content.
    for file in ["thesis.tex", "thesis.tex/data"] {
        let path = root.path().join(file);
        for opened in [open(&path, 1), DataDir::open_stopped(&path)] {
            assert!(
                matches!(opened, Err(DataDirError::NotADirectory(_))),
                "{file}: {opened:?}"
            );
        }
    }
}

#[test]
fn a_directory_without_parent_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("absent/node");
    assert!(matches!(open(&path, 1), Err(DataDirError::Missing(_))));
    assert!(!root.path().join("absent").exists());
}

#[test]
fn a_newer_or_damaged_identity_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join(IDENTITY_NAME);
    fs::write(&path, r#"{"format": 2, "new": true}"#).unwrap();
    assert!(matches!(
        open(root.path(), 1),
        Err(DataDirError::NewerFormat { found: 2, .. })
    ));
    fs::write(&path, "{").unwrap();
    assert!(matches!(
        open(root.path(), 1),
        Err(DataDirError::Damaged { .. })
    ));
}

#[test]
fn a_standing_outlives_the_process_and_an_older_identity_has_none() {
    let root = tempfile::tempdir().unwrap();
    let mut directory = open(root.path(), 2).unwrap();
    directory.assign(5, "a-cluster").unwrap();
    directory.admit(17).unwrap();
    directory.retire().unwrap();
    drop(directory);
    let directory = open(root.path(), 2).unwrap();
    let identity = directory.identity();
    assert_eq!(
        (identity.node_id, identity.member_at, identity.removed),
        (5, 17, true)
    );
    drop(directory);
    let older = r#"{"format": 1, "uuid": "u", "seat": 2, "node_id": 5, "cluster_id": "c"}"#;
    fs::write(root.path().join(IDENTITY_NAME), older).unwrap();
    let directory = open(root.path(), 2).unwrap();
    let identity = directory.identity();
    assert_eq!((identity.member_at, identity.removed), (0, false));
}

#[test]
fn a_link_that_leads_nowhere_is_named_as_one() {
    let root = tempfile::tempdir().unwrap();
    let link = root.path().join("link");
    std::os::unix::fs::symlink(root.path().join("none"), &link).unwrap();
    let refused = open(&link, 1).unwrap_err();
    assert!(matches!(refused, DataDirError::Dangling(_)), "{refused}");
    fs::create_dir(root.path().join("none")).unwrap();
    open(&link, 1).unwrap();
}
