//! Keys from files, and their reload while the node runs.

mod names;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use helve_seal::{KeyId, Keyring, Secret};

use super::{PURPOSE, Vault, is_over};
use crate::refusal::Refusal;

/// How often files are looked at.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// What to do about a file where `--data-keys` wants a directory.
const A_FILE: &str =
    "name the directory that holds the key files, or give one file to --data-key-file";
/// What to do about a directory of keys that is not there.
const NOWHERE: &str = "name the directory that holds the key files, and see that it is mounted";

/// Whether a cluster that holds plaintext may become a sealed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Migration {
    /// A node with keys refuses such a cluster's data, and takes no value before sealing has begun.
    Refused,
    /// It takes values in plaintext until every member holds the key; then all are sealed.
    Allowed,
}

/// Where the keys lie. None named: values are not sealed.
#[derive(Debug, Clone)]
pub struct KeyFiles {
    /// `--data-key-file`: one key each, the newest last.
    pub files: Vec<PathBuf>,
    /// `--data-keys`: a directory of such files, the newest last by name.
    pub directory: Option<PathBuf>,
    /// `--data-key-migrate`.
    pub migration: Migration,
}

impl KeyFiles {
    /// No keys.
    #[must_use]
    pub fn none() -> Self {
        Self {
            files: Vec::new(),
            directory: None,
            migration: Migration::Refused,
        }
    }

    pub(super) fn may_migrate(&self) -> bool {
        self.migration == Migration::Allowed
    }

    fn is_none(&self) -> bool {
        self.files.is_empty() && self.directory.is_none()
    }

    /// Reads all keys.
    ///
    /// # Errors
    /// The flag at fault: a file that cannot be read, is open to other users, holds no key, or the same as another; or a directory whose
    /// last file by name is not the one with the highest number.
    pub fn read(&self) -> Result<Keyring, Refusal> {
        // A new key opens nothing that is sealed already, as in a node that starts again, in a survivor and in a backup.
        let remedy = "give a file of 32 random bytes that only this node's user may read: for data that is sealed already the file of the \
                      key that it is sealed under, and only for a cluster that is not sealed yet a new one, which `helve data-key new FILE` \
                      makes";
        let mut secrets = Vec::new();
        let mut read = |flag: &'static str, path: &Path| {
            let refused = |problem: String| Refusal::new(flag, problem, remedy);
            let secret = Secret::read(path);
            secrets.push(secret.map_err(|error| refused(format!("{}: {error}", path.display())))?);
            Ok(())
        };
        for path in &self.files {
            read("--data-key-file", path)?;
        }
        if let Some(directory) = &self.directory {
            let refused = |problem: String| Refusal::new("--data-keys", problem, remedy);
            let paths = in_order(directory).map_err(|error| {
                let problem = format!("{}: {error}", directory.display());
                match error.kind() {
                    io::ErrorKind::NotADirectory => Refusal::new("--data-keys", problem, A_FILE),
                    io::ErrorKind::NotFound => Refusal::new("--data-keys", problem, NOWHERE),
                    _ => refused(problem),
                }
            })?;
            if paths.is_empty() {
                return Err(refused(format!("{} holds no file", directory.display())));
            }
            names::check(&paths)?;
            for path in paths {
                read("--data-keys", &path)?;
            }
        }
        if self.is_none() && self.migration == Migration::Allowed {
            let problem = "there is no key to seal with";
            return Err(Refusal::new(
                "--data-key-migrate",
                problem,
                "give --data-key-file too",
            ));
        }
        Keyring::new(&secrets, PURPOSE).map_err(|error| {
            Refusal::new("--data-key-file", error.to_string(), "name each key once")
        })
    }
}

/// Files of a directory by name. Names that begin with a dot are not keys: so mounted secrets are replaced.
fn in_order(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !is_hidden && fs::metadata(entry.path())?.is_file() {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

/// Reads the files again whenever they may have changed. What cannot be read leaves the keys as they are.
pub async fn watch_files(vault: Arc<Vault>) {
    if vault.files.is_none() {
        return;
    }
    let mut said = String::new();
    loop {
        tokio::time::sleep(LOOK_PAUSE).await;
        let read_again = Arc::clone(&vault);
        let read = tokio::task::spawn_blocking(move || read_again.read_again());
        let Ok(read) = read.await else { return };
        let trouble = read.err().unwrap_or_default();
        if trouble != said && !trouble.is_empty() {
            tracing::warn!(%trouble, "the key files are not taken: the keys that were read before stay");
        }
        said = trouble;
    }
}

impl Vault {
    /// Whether it reads keys from files at all.
    #[must_use]
    pub fn has_files(&self) -> bool {
        !self.files.is_none()
    }

    /// Reads the key files again now, and returns the keys that are held. Blocks.
    ///
    /// # Errors
    /// Why they are not taken: then the keys that were read before stay.
    pub fn read_again(&self) -> Result<Vec<KeyId>, String> {
        let ring = self.files.read().map_err(|refusal| refusal.to_string())?;
        self.take_in(ring)?;
        Ok(self.ring.load().ids())
    }

    /// Takes keys in, unless one would go that is needed. Blocks.
    fn take_in(&self, ring: Keyring) -> Result<(), String> {
        let before = self.ring.load();
        if ring.ids() == before.ids() {
            return Ok(());
        }
        let row = self.row().filter(|row| !is_over(row));
        let needed = row.and_then(|row| KeyId::from_bytes(&row.secret_key_id));
        if let Some(needed) = needed.filter(|id| ring.find(*id).is_none()) {
            return Err(format!(
                "key {needed} seals, and its file is gone: put it back"
            ));
        }
        self.disk_keys().seal(&ring)?;
        tracing::info!(keys = ?ring.ids(), before = ?before.ids(), "the key files have changed");
        self.ring.store(Arc::new(ring));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use bytes::Bytes;
    use helve_proto::command::v1::SealingRow;

    use super::*;

    #[test]
    fn file_for_the_directory_of_keys_is_told_from_a_bad_key() {
        let directory = tempfile::tempdir().unwrap();
        let file = key(directory.path(), "one.key", 1);
        for (path, remedy) in [(file, A_FILE), (directory.path().join("none"), NOWHERE)] {
            let files = KeyFiles {
                directory: Some(path),
                ..KeyFiles::none()
            };
            assert_eq!(files.read().unwrap_err().remedy, remedy);
        }
    }

    fn key(directory: &Path, name: &str, byte: u8) -> PathBuf {
        let path = directory.join(name);
        fs::write(&path, [byte; 32]).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    fn in_directory(directory: &Path) -> KeyFiles {
        KeyFiles {
            directory: Some(directory.to_owned()),
            ..KeyFiles::none()
        }
    }

    #[test]
    fn the_newest_key_of_a_directory_is_the_last_by_name_and_hidden_files_are_none() {
        let directory = tempfile::tempdir().unwrap();
        let new = key(directory.path(), "2", 2);
        let old = key(directory.path(), "1", 1);
        key(directory.path(), ".3", 3);
        let ring = in_directory(directory.path()).read().unwrap();
        let files = KeyFiles {
            files: vec![old, new],
            ..KeyFiles::none()
        };
        assert_eq!(ring.ids(), files.read().unwrap().ids());
        assert_eq!(ring.ids().len(), 2);
    }

    #[test]
    fn directory_with_a_higher_number_before_its_last_name_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        key(directory.path(), "9.key", 19);
        let files = in_directory(directory.path());
        let vault = Vault::new(files.clone(), files.read().unwrap());
        let tenth = key(directory.path(), "10.key", 20);
        let refusal = files.read().unwrap_err();
        assert_eq!(refusal.flag, "--data-keys");
        for named in ["10.key", "9.key"] {
            assert!(refusal.problem.contains(named), "{refusal}");
        }
        assert!(refusal.remedy.contains("as 09.key"), "{refusal}");
        // A node that runs keeps the keys that it has, and says the same.
        let trouble = vault.read_again().unwrap_err();
        assert!(trouble.contains("as 09.key"), "{trouble}");
        assert_eq!(vault.key_ids().len(), 1);
        fs::rename(
            directory.path().join("9.key"),
            directory.path().join("09.key"),
        )
        .unwrap();
        let ids = vault.read_again().unwrap();
        let newest = KeyFiles {
            files: vec![tenth],
            ..KeyFiles::none()
        };
        assert_eq!(ids[1..], newest.read().unwrap().ids());
    }

    #[test]
    fn a_file_that_others_may_read_and_a_directory_without_keys_are_refused_by_their_flag() {
        let directory = tempfile::tempdir().unwrap();
        let refusal = in_directory(directory.path()).read().unwrap_err();
        assert_eq!(refusal.flag, "--data-keys");
        let open = key(directory.path(), "1", 1);
        fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
        let files = KeyFiles {
            files: vec![open],
            ..KeyFiles::none()
        };
        let refusal = files.read().unwrap_err();
        assert_eq!(refusal.flag, "--data-key-file");
        assert!(refusal.problem.contains("chmod 600"), "{refusal}");
        assert!(refusal.remedy.contains("sealed already"), "{refusal}");
    }

    /// A node with two keys of a directory, and what a cluster says that seals under the first.
    fn sealing(directory: &Path) -> (KeyFiles, Arc<Vault>, SealingRow) {
        key(directory, "1", 1);
        key(directory, "2", 2);
        let files = in_directory(directory);
        let vault = Vault::new(files.clone(), files.read().unwrap());
        let first = vault.key_ids()[0];
        let key_id = Bytes::copy_from_slice(first.bytes());
        let sealed = vault.ring.load().find(first).unwrap().seal(
            &[7; 28],
            &super::super::SECRET_PLACE,
            &[9; 32],
        );
        let row = SealingRow {
            key_id: key_id.clone(),
            secret: sealed.into(),
            secret_key_id: key_id,
            index: 1,
            done: true,
            ..SealingRow::default()
        };
        (files, vault, row)
    }

    #[test]
    fn a_reload_that_would_lose_the_key_that_seals_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let (files, vault, row) = sealing(directory.path());
        let first = vault.key_ids()[0];
        let opening = SealingRow {
            key_id: Bytes::new(),
            done: false,
            ..row.clone()
        };
        fs::remove_file(directory.path().join("1")).unwrap();
        for needing in [row, opening] {
            vault.learn(Some(needing)).unwrap();
            let trouble = vault.take_in(files.read().unwrap()).unwrap_err();
            assert!(trouble.contains("put it back"), "{trouble}");
            assert_eq!(vault.key_ids().len(), 2);
        }
        key(directory.path(), "1", 1);
        fs::remove_file(directory.path().join("2")).unwrap();
        vault.take_in(files.read().unwrap()).unwrap();
        assert_eq!(vault.key_ids(), [first]);
    }

    #[test]
    fn once_sealing_has_been_ended_a_reload_needs_the_last_key_no_more() {
        let directory = tempfile::tempdir().unwrap();
        let (files, vault, row) = sealing(directory.path());
        let second = vault.key_ids()[1];
        let over = SealingRow {
            key_id: Bytes::new(),
            ..row
        };
        vault.learn(Some(over)).unwrap();
        fs::remove_file(directory.path().join("1")).unwrap();
        vault.take_in(files.read().unwrap()).unwrap();
        assert_eq!(vault.key_ids(), [second]);
    }
}
