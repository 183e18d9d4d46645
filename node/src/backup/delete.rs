//! What the deletion of one backup removes: its manifest, and the files and archived segments that
//! no other backup needs.

use std::{collections::BTreeSet, path::Path, time::Duration};

use super::{
    Backup, BackupError,
    archive::Archive,
    directory::{Listed, stored_name},
};

/// A file where backups are kept, needed or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    /// The uuid of the node that sent it.
    pub(super) node: String,
    /// Its name there.
    pub(super) name: String,
    pub(super) size_bytes: u64,
    /// When it was written, in seconds since the Unix epoch.
    pub(super) written_s: i64,
}

/// How a deletion is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run {
    /// It deletes.
    Real,
    /// It says what it would delete.
    Dry,
}

/// What a deletion will do.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) files: Vec<Stored>,
    /// Segments of the archived log, by their names.
    pub(super) segments: Vec<String>,
    pub(super) deleted: Deleted,
}

/// What became of a backup that was deleted, or would become of it.
#[derive(Debug)]
pub struct Deleted {
    /// The backup.
    pub backup: Backup,
    /// Files that no other backup needs, and that went with it.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that no backup needs, and that are too young to go: one that was interrupted may go on
    /// with them.
    pub left_files: u64,
    /// Their bytes.
    pub left_bytes: u64,
    /// Segments of the archived log that no other backup needs, and that went with it.
    pub segments: u64,
    /// Their bytes.
    pub segment_bytes: u64,
    /// Backups that are left.
    pub backups: u64,
}

/// Decides what goes. A file goes if no other backup needs it, and this one did, or it was written
/// at least `unfinished_min` ago.
///
/// # Errors
/// If there is no such backup, or any manifest cannot be used, since its files are not known then.
pub(super) fn plan(
    place: &Path,
    listed: Vec<Listed>,
    (stored, archive): (Vec<Stored>, &Archive),
    id: &str,
    (now_s, unfinished_min): (i64, Duration),
) -> Result<Plan, BackupError> {
    let mut others = Vec::new();
    let mut found = None;
    for Listed { id: of, backup } in listed {
        match backup {
            Ok(backup) if of == id => found = Some(backup),
            Ok(backup) => others.push(backup),
            Err(error) => {
                return Err(BackupError::Unreadable {
                    path: place.to_owned(),
                    id: of,
                    why: error.to_string(),
                });
            }
        }
    }
    let Some(backup) = found else {
        return Err(BackupError::NoSuch {
            path: place.to_owned(),
            id: id.to_owned(),
        });
    };
    let needed: BTreeSet<_> = others.iter().flat_map(names).collect();
    let own: BTreeSet<_> = names(&backup).collect();
    let unfinished_s = i64::try_from(unfinished_min.as_secs()).unwrap_or(i64::MAX);
    let mut files = Vec::new();
    let (mut bytes, mut left_files, mut left_bytes) = (0, 0, 0);
    for file in stored {
        let key = (file.node.clone(), file.name.clone());
        if needed.contains(&key) {
            continue;
        }
        if own.contains(&key) || now_s.saturating_sub(file.written_s) >= unfinished_s {
            bytes += file.size_bytes;
            files.push(file);
        } else {
            left_files += 1;
            left_bytes += file.size_bytes;
        }
    }
    let left: Vec<_> = others.iter().map(Backup::id).collect();
    let unneeded = archive.unneeded(&left);
    let deleted = Deleted {
        segments: unneeded.len() as u64,
        segment_bytes: unneeded.iter().map(|(_, bytes)| bytes).sum(),
        backup,
        files: files.len() as u64,
        bytes,
        left_files,
        left_bytes,
        backups: others.len() as u64,
    };
    Ok(Plan {
        files,
        segments: unneeded.into_iter().map(|(name, _)| name).collect(),
        deleted,
    })
}

/// The files of a backup, by node and name.
fn names(backup: &Backup) -> impl Iterator<Item = (String, String)> {
    let node = &backup.manifest().node_uuid;
    let files = backup.files().iter();
    files.map(|file| (node.clone(), stored_name(file)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::backup::{directory::BackupDir, tests::Node};

    const DAY: Duration = Duration::from_secs(24 * 3_600);

    /// The names of all files that backups of the node share.
    fn files(node: &Node) -> BTreeSet<String> {
        let entries = fs::read_dir(node.to().join("files/node-0001")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect()
    }

    fn names_of(backup: &Backup) -> BTreeSet<String> {
        backup.files().iter().map(stored_name).collect()
    }

    #[test]
    fn deleted_backup_takes_along_only_files_that_no_other_needs() {
        let mut node = Node::new();
        let first = node.back_up("1").backup;
        let second = node.back_up("2").backup;
        let before = files(&node);
        let directory = BackupDir::create(&node.to()).unwrap();
        let dry = directory.delete(&first.id(), Run::Dry, DAY).unwrap();
        assert_eq!((files(&node), directory.list().unwrap().len()), (before, 2));
        let deleted = directory.delete(&first.id(), Run::Real, DAY).unwrap();
        let own = names_of(&first).difference(&names_of(&second)).count();
        assert!(own > 0, "both have the same files");
        assert_eq!((dry.files, deleted.files), (own as u64, own as u64));
        assert_eq!(deleted.backups, 1);
        assert_eq!(files(&node), names_of(&second));
        assert_eq!(directory.list().unwrap()[0].id, second.id());
        assert!(directory.verify(&[&second], |_| {}).is_empty());
        let gone = directory.delete(&first.id(), Run::Real, DAY);
        assert!(matches!(gone, Err(BackupError::NoSuch { .. })), "{gone:?}");
    }

    #[test]
    fn manifest_that_cannot_be_read_stops_a_deletion() {
        let mut node = Node::new();
        let first = node.back_up("1").backup;
        let second = node.back_up("2").backup;
        let before = files(&node);
        let damaged = node.to().join("backups").join(second.id());
        fs::write(&damaged, "no manifest").unwrap();
        let directory = BackupDir::create(&node.to()).unwrap();
        for id in [first.id(), second.id()] {
            let refused = directory.delete(&id, Run::Real, Duration::ZERO);
            let of_second = matches!(
                &refused,
                Err(BackupError::Unreadable { id, .. }) if *id == second.id()
            );
            assert!(of_second, "{refused:?}");
        }
        assert_eq!(files(&node), before);
        assert!(directory.find(Some(&first.id())).is_ok());
    }

    #[test]
    fn file_of_an_interrupted_backup_goes_once_it_is_old() {
        let mut node = Node::new();
        let ids = ["1", "2", "3"].map(|row| node.back_up(row).backup.id());
        let stray = node.to().join("files/node-0001/000099.sst.4.00000000");
        fs::write(&stray, "part").unwrap();
        let directory = BackupDir::create(&node.to()).unwrap();
        let young = directory.delete(&ids[0], Run::Real, DAY).unwrap();
        assert_eq!((young.left_files, young.left_bytes), (1, 4));
        assert!(stray.exists());
        let old = directory
            .delete(&ids[1], Run::Real, Duration::ZERO)
            .unwrap();
        assert_eq!((old.left_files, old.left_bytes), (0, 0));
        assert!(!stray.exists());
        let third = directory.find(Some(&ids[2])).unwrap();
        assert!(directory.verify(&[&third], |_| {}).is_empty());
    }

    #[test]
    fn file_that_no_backup_names_so_is_not_deleted() {
        let mut node = Node::new();
        let id = node.back_up("1").backup.id();
        let others = ["app.log.2.1", "app.log.02.00000001", "app.log.2.0000000A"];
        for other in others {
            fs::write(node.to().join("files/node-0001").join(other), "it").unwrap();
        }
        let directory = BackupDir::create(&node.to()).unwrap();
        directory.delete(&id, Run::Real, Duration::ZERO).unwrap();
        let left = BTreeSet::from(others.map(str::to_owned));
        assert_eq!(files(&node), left);
    }
}
