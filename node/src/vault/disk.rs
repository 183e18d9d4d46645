//! The key that authenticates this node's disk: random, of one data directory alone, and sealed under the newest data key.
//!
//! A directory gets it before it holds anything. So a directory that holds rows and has none is refused: its file may have been removed
//! to have rows taken that somebody put there.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, MutexGuard, PoisonError},
};

use helve_proto::command::v1::SealingRow;
use helve_seal::{KEY_ID_BYTES, KeyId, Keyring, Place};
use zeroize::Zeroizing;

use super::{Vault, fresh, is_over};
use crate::{
    refusal::Refusal,
    storage::{
        disk_key::{self, DiskKey, SECRET_BYTES},
        error::StorageError,
    },
};

const PLACE: Place<'_> = Place {
    kind: "disk key",
    parts: &[],
};

/// The secret of this node's disk key, and where it is kept.
pub(super) struct Disk {
    directory: PathBuf,
    secret: Zeroizing<[u8; SECRET_BYTES]>,
    /// The data key that its file has it sealed under; `None`: there is no file yet.
    under: Option<KeyId>,
}

impl Vault {
    /// The disk key of a data directory; `None` if it has none, or this node holds no data key. Blocks.
    ///
    /// # Errors
    /// If none of the data keys opens it, or the disk fails.
    pub fn disk_key(&self, directory: &Path) -> Result<Option<Arc<DiskKey>>, Refusal> {
        let ring = self.ring.load();
        if ring.is_empty() {
            return Ok(None);
        }
        let Some(content) = disk_key::read_file(directory).map_err(|e| unusable(&e))? else {
            return Ok(None);
        };
        let (secret, under) = opened(&ring, &content)?;
        let disk = Disk {
            directory: directory.to_owned(),
            secret,
            under: Some(under),
        };
        self.keep(disk).map(Some)
    }

    /// The disk key that a stopped node's rows and log must fit, and are written under; `None` if they need none. Blocks.
    ///
    /// # Errors
    /// If the data keys are missing, or as [`disk_key`](Self::disk_key) says.
    pub fn disk_key_of_stopped(&self, directory: &Path) -> Result<Option<Arc<DiskKey>>, Refusal> {
        let has_file = disk_key::read_file(directory).map_err(|e| unusable(&e))?;
        if self.has_keys() || has_file.is_none() {
            return self.disk_key(directory);
        }
        Err(Refusal::new(
            "--data-key-file",
            "the rows and the log of this node are sealed against changes, and no data key is given",
            "give the key files that `helve serve` has",
        ))
    }

    /// A disk key that is kept nowhere yet; `None` if this node holds no data key.
    ///
    /// # Errors
    /// If the operating system gives no entropy.
    pub fn new_disk_key(&self) -> Result<Option<NewDiskKey>, Refusal> {
        if self.ring.load().is_empty() {
            return Ok(None);
        }
        let secret = fresh().map_err(|error| {
            Refusal::new(
                "--data-key-file",
                error.to_string(),
                "look at the operating system's source of entropy",
            )
        })?;
        Ok(Some(NewDiskKey(Zeroizing::new(secret))))
    }

    /// Keeps a new disk key in the file of a data directory. Blocks.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn keep_disk_key(
        &self,
        directory: &Path,
        made: NewDiskKey,
    ) -> Result<Arc<DiskKey>, Refusal> {
        self.keep(Disk {
            directory: directory.to_owned(),
            secret: made.0,
            under: None,
        })
    }

    /// Whether what a data directory without a disk key holds may be taken as it is, where its rows say this of sealing.
    ///
    /// # Errors
    /// The flag at fault, and what to do.
    pub fn may_adopt(&self, row: Option<&SealingRow>) -> Result<(), Refusal> {
        let problem = "the rows and the log of this node have no disk key: they were written without data keys, or by a version before it, \
                       or its file `disk-key` was removed";
        if row.is_some_and(|row| !is_over(row)) {
            return Err(Refusal::new(
                "--data-dir",
                format!("{problem}; and its cluster seals, so that it should have one"),
                "replace this node: start it with an empty --data-dir, while a majority of the cluster is whole without it. If an earlier \
                 version wrote the directory, `helve data-key unseal` under that version, and then --data-key-migrate, keep it too",
            ));
        }
        if self.files.may_migrate() {
            return Ok(());
        }
        Err(Refusal::new(
            "--data-key-file",
            problem,
            "if nothing but helve can have written this disk, pass --data-key-migrate on every node, one after the other, and take it \
             out again once values are sealed; or start without keys; else start with an empty --data-dir",
        ))
    }

    /// Takes a secret as this node's, and seals it under the newest data key if it is sealed under another.
    fn keep(&self, disk: Disk) -> Result<Arc<DiskKey>, Refusal> {
        let key = DiskKey::new(&disk.secret);
        *self.lock_disk() = Some(disk);
        let sealed = self.seal_disk_key(&self.ring.load());
        sealed.map_err(|error| {
            Refusal::new(
                "--data-dir",
                error,
                "look at the disk of the data directory",
            )
        })?;
        Ok(key)
    }

    /// Seals the disk key under the newest of these data keys, if there is one and it is sealed under another. Blocks.
    ///
    /// # Errors
    /// Why it stays as it was.
    pub(super) fn seal_disk_key(&self, ring: &Keyring) -> Result<(), String> {
        let mut disk = self.lock_disk();
        let (Some(disk), Some(newest)) = (&mut *disk, ring.newest()) else {
            return Ok(());
        };
        if disk.under == Some(newest.id()) {
            return Ok(());
        }
        let random = fresh().map_err(|error| error.to_string())?;
        let sealed = newest.seal(&random, &PLACE, &*disk.secret);
        let content = [&newest.id().bytes()[..], &sealed].concat();
        disk_key::write_file(&disk.directory, &content).map_err(|error| error.to_string())?;
        disk.under = Some(newest.id());
        Ok(())
    }

    fn lock_disk(&self) -> MutexGuard<'_, Option<Disk>> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A disk key that is kept nowhere yet.
pub struct NewDiskKey(Zeroizing<[u8; SECRET_BYTES]>);

impl NewDiskKey {
    /// The keys that it leads to.
    #[must_use]
    pub fn key(&self) -> Arc<DiskKey> {
        DiskKey::new(&self.0)
    }
}

impl std::fmt::Debug for NewDiskKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewDiskKey").finish_non_exhaustive()
    }
}

/// The secret in the content of a file, and the data key that it is sealed under.
fn opened(
    ring: &Keyring,
    content: &[u8],
) -> Result<(Zeroizing<[u8; SECRET_BYTES]>, KeyId), Refusal> {
    let parts = content.split_first_chunk::<KEY_ID_BYTES>();
    let parts = parts.and_then(|(id, sealed)| Some((KeyId::from_bytes(id)?, sealed)));
    let changed = || {
        Refusal::new(
            "--data-dir",
            "its file `disk-key` does not open under its data key: somebody changed it",
            "replace this node: start it with an empty --data-dir, while a majority of the cluster is whole without it",
        )
    };
    let (id, sealed) = parts.ok_or_else(changed)?;
    let key = ring.find(id).ok_or_else(|| {
        Refusal::new(
            "--data-key-file",
            format!("the rows and the log of this node are sealed against changes under key {id}, which none of the given files holds"),
            "give the file of that key too, before the newest one, until this node has started once; if the key is lost, or this node was \
             first started with a wrong one, replace it: start it with an empty --data-dir",
        )
    })?;
    let secret = key.open(&PLACE, sealed).ok_or_else(changed)?;
    match secret.as_slice().try_into() {
        Ok(secret) => Ok((Zeroizing::new(secret), id)),
        Err(_) => Err(changed()),
    }
}

fn unusable(error: &StorageError) -> Refusal {
    Refusal::new(
        "--data-dir",
        error.to_string(),
        "see `docs/security.md`, Sealing at rest",
    )
}

#[cfg(test)]
mod tests;
