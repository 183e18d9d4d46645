//! Tests of `disk`.

use std::{fs, os::unix::fs::PermissionsExt as _};

use bytes::Bytes;
use tempfile::TempDir;

use super::*;
use crate::vault::{KeyFiles, Migration};

/// A node with a data directory, and a directory of data keys.
struct Node {
    data: TempDir,
    keys: TempDir,
}

/// Whether the rows let a node with these keys start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rows {
    LetIn,
    Refuse,
}

impl Node {
    /// One whose disk key is sealed under the data key of this byte.
    fn under(byte: u8) -> (Self, Arc<Vault>) {
        let node = Self {
            data: tempfile::tempdir().unwrap(),
            keys: tempfile::tempdir().unwrap(),
        };
        node.add(byte);
        let vault = node.vault(Migration::Refused);
        let made = vault.disk_keys().make().unwrap().unwrap();
        vault.disk_keys().keep(node.data.path(), made).unwrap();
        (node, vault)
    }

    fn add(&self, byte: u8) {
        let path = self.keys.path().join(format!("{byte:03}.key"));
        fs::write(&path, [byte; 32]).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn withdraw(&self, byte: u8) {
        fs::remove_file(self.keys.path().join(format!("{byte:03}.key"))).unwrap();
    }

    fn vault(&self, migration: Migration) -> Arc<Vault> {
        let files = KeyFiles {
            directory: Some(self.keys.path().to_owned()),
            migration,
            ..KeyFiles::none()
        };
        Vault::new(files.clone(), files.read().unwrap())
    }

    /// What a start with the keys that are there now finds: whether it is the same key as before.
    fn starts_as(&self, rows: Rows) -> Result<bool, Refusal> {
        let vault = self.vault(Migration::Refused);
        let found = vault.disk_keys().open(self.data.path())?;
        let secret = *vault.disk_keys().lock().as_ref().unwrap().secret;
        if rows == Rows::LetIn {
            vault.disk_keys().reseal()?;
        }
        let again = disk_key::read_file(self.data.path()).unwrap().unwrap();
        let opened = opened(&vault.ring.load(), &again);
        let (kept, parts) = opened.map_err(Unopened::in_member)?;
        if rows == Rows::LetIn {
            let under: Vec<_> = parts.iter().filter_map(id_of).collect();
            assert!(under.starts_with(&vault.key_ids()), "{under:?}");
        }
        Ok(found.is_some() && secret == *kept)
    }

    fn starts(&self) -> Result<bool, Refusal> {
        self.starts_as(Rows::LetIn)
    }

    /// How many data keys the disk key is sealed under.
    fn parts(&self) -> usize {
        let content = disk_key::read_file(self.data.path()).unwrap().unwrap();
        content.len() / PART_BYTES
    }
}

#[test]
fn a_disk_key_is_found_again_under_each_data_key_that_came() {
    let (node, vault) = Node::under(1);
    let secret = vault.disk_keys().lock().as_ref().unwrap().secret.clone();
    assert!(node.starts().unwrap());
    // A start after the rotation of data keys.
    node.add(2);
    assert!(node.starts().unwrap());
    node.withdraw(1);
    assert!(node.starts().unwrap());
    assert_eq!(node.parts(), 1, "the older key opens it no more");
    let later = node.vault(Migration::Refused);
    later.disk_keys().open(node.data.path()).unwrap();
    assert_eq!(later.disk_keys().lock().as_ref().unwrap().secret, secret);
}

#[test]
fn a_running_node_seals_its_disk_key_under_a_data_key_that_comes() {
    let (node, vault) = Node::under(1);
    node.add(2);
    vault.read_again().unwrap();
    // Before it is started again, either file may be the one that is there.
    for missing in [1, 2] {
        node.withdraw(missing);
        assert!(node.starts_as(Rows::Refuse).unwrap(), "without {missing}");
        node.add(missing);
    }
    assert_eq!(node.parts(), 2);
}

#[test]
fn a_start_before_the_newest_key_is_there_keeps_its_part() {
    let (node, vault) = Node::under(1);
    node.add(2);
    vault.read_again().unwrap();
    node.withdraw(2);
    assert!(node.starts().unwrap());
    assert_eq!(node.parts(), 2);
    node.add(2);
    node.withdraw(1);
    assert!(node.starts().unwrap());
    assert_eq!(node.parts(), 1);
}

#[test]
fn a_start_that_is_refused_leaves_the_parts_as_they_were() {
    let (node, vault) = Node::under(1);
    node.add(2);
    vault.read_again().unwrap();
    node.withdraw(1);
    assert!(node.starts_as(Rows::Refuse).unwrap());
    node.add(1);
    node.withdraw(2);
    assert!(node.starts_as(Rows::Refuse).unwrap());
}

#[test]
fn parts_under_keys_that_never_come_are_bounded() {
    let (node, vault) = Node::under(1);
    // No text.
    let newer = 200..200 + u8::try_from(PARTS_KEPT_MAX + 2).unwrap();
    for byte in newer.clone() {
        node.add(byte);
    }
    vault.read_again().unwrap();
    for byte in newer {
        node.withdraw(byte);
    }
    node.add(2);
    assert!(node.starts().unwrap());
    assert_eq!(node.parts(), 2 + PARTS_KEPT_MAX);
}

#[test]
fn a_disk_key_whose_data_key_is_gone_is_refused_by_its_id() {
    let (node, vault) = Node::under(1);
    let id = vault.key_ids()[0].to_string();
    node.add(2);
    node.withdraw(1);
    let refusal = node.starts().unwrap_err();
    assert_eq!(refusal.flag, "--data-key-file");
    assert!(refusal.problem.contains(&id), "{refusal}");
    let condition = "empty --data-dir, while a majority of the cluster is whole without it";
    assert!(refusal.remedy.contains(condition), "{refusal}");
}

#[test]
fn what_may_be_the_only_copy_is_never_to_be_emptied() {
    let (node, vault) = Node::under(1);
    let id = vault.key_ids()[0].to_string();
    node.add(2);
    node.withdraw(1);
    let refused = |vault: &Vault| {
        vault
            .disk_keys()
            .open_stopped(node.data.path())
            .unwrap_err()
    };
    let keyless = refused(&node.vault(Migration::Refused));
    assert_eq!(keyless.flag, "--data-key-file");
    assert!(keyless.problem.contains(&id), "{keyless}");
    assert!(keyless.remedy.contains("find the file"), "{keyless}");
    disk_key::write_file(node.data.path(), &[0; 20]).unwrap();
    let changed = refused(&vault);
    assert_eq!(changed.flag, "--data-dir");
    for refusal in [keyless, changed] {
        assert!(refusal.remedy.contains("keep it as it is"), "{refusal}");
        assert!(!refusal.remedy.contains("empty"), "{refusal}");
    }
}

#[test]
fn a_file_that_was_changed_or_made_up_is_refused() {
    let (node, _) = Node::under(1);
    let content = disk_key::read_file(node.data.path()).unwrap().unwrap();
    let mut flipped = content.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for changed in [flipped, content[..20].to_vec(), Vec::new()] {
        disk_key::write_file(node.data.path(), &changed).unwrap();
        let refusal = node.starts().unwrap_err();
        assert!(refusal.problem.contains("`disk-key`"), "{refusal}");
    }
}

#[test]
fn only_the_flag_adopts_a_directory() {
    let (node, _) = Node::under(1);
    let sealing = SealingRow {
        key_id: Bytes::from_static(&[1; 8]),
        index: 3,
        done: true,
        complete_index: 5,
        ..SealingRow::default()
    };
    let over = SealingRow {
        key_id: Bytes::new(),
        done: true,
        ..SealingRow::default()
    };
    let (refused, allowed) = (
        node.vault(Migration::Refused),
        node.vault(Migration::Allowed),
    );
    for (row, flag) in [
        (None, "--data-key-file"),
        (Some(&over), "--data-key-file"),
        (Some(&sealing), "--data-dir"),
    ] {
        assert!(allowed.disk_keys().may_adopt(row).is_ok());
        let refusal = refused.disk_keys().may_adopt(row).unwrap_err();
        assert_eq!(refusal.flag, flag);
        assert!(refusal.remedy.contains("--data-key-migrate"), "{refusal}");
    }
}

#[test]
fn a_stopped_node_with_a_disk_key_needs_its_data_keys() {
    let (node, vault) = Node::under(1);
    let keyless = Vault::new(KeyFiles::none(), Keyring::default());
    let refusal = keyless
        .disk_keys()
        .open_stopped(node.data.path())
        .unwrap_err();
    assert_eq!(refusal.flag, "--data-key-file");
    let found = vault.disk_keys().open_stopped(node.data.path()).unwrap();
    assert!(found.is_some());
    let other = tempfile::tempdir().unwrap();
    let found = keyless.disk_keys().open_stopped(other.path()).unwrap();
    assert!(found.is_none());
}
