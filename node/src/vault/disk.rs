//! The key that authenticates this node's disk: random, of one data directory alone, and sealed under each data key that the node holds.
//! So a node that starts with any of them opens it: with an older one where a newer file is not there yet, and with the newer ones once an
//! older file is gone.
//!
//! A directory gets it before it holds anything. So a directory that holds rows and has none is refused: its file may have been removed
//! to have rows taken that somebody put there.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, MutexGuard, PoisonError},
};

use helve_proto::command::v1::SealingRow;
use helve_seal::{KEY_ID_BYTES, KeyId, Keyring, Place, SEAL_BYTES};
use zeroize::Zeroizing;

use super::{Vault, fresh, is_over};
use crate::{
    failpoint::{self, Failpoint},
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
/// Of the file, for one data key: its id, and the secret sealed under it.
const PART_BYTES: usize = KEY_ID_BYTES + SEAL_BYTES + SECRET_BYTES;
/// Of parts under newer keys than those that are held, how many the file keeps.
const PARTS_KEPT_MAX: usize = 8;

type Part = [u8; PART_BYTES];

/// The secret of this node's disk key, and where it is kept.
pub(super) struct Disk {
    directory: PathBuf,
    secret: Zeroizing<[u8; SECRET_BYTES]>,
    /// What its file holds, in the order of the data keys; nothing: there is no file yet.
    parts: Vec<Part>,
}

impl Vault {
    /// The disk keys of data directories, under the data keys of this vault.
    #[must_use]
    pub fn disk_keys(&self) -> DiskKeys<'_> {
        DiskKeys(self)
    }
}

/// The disk keys of data directories, under the data keys of a vault.
pub struct DiskKeys<'a>(&'a Vault);

impl DiskKeys<'_> {
    /// The disk key of a data directory; `None` if it has none, or this node holds no data key. Blocks.
    ///
    /// # Errors
    /// If none of the data keys opens it, or the disk fails.
    pub fn open(&self, directory: &Path) -> Result<Option<Arc<DiskKey>>, Refusal> {
        let ring = self.0.ring.load();
        if ring.is_empty() {
            return Ok(None);
        }
        let Some(content) = disk_key::read_file(directory).map_err(|e| unusable(&e))? else {
            return Ok(None);
        };
        let (secret, parts) = opened(&ring, &content).map_err(Unopened::in_member)?;
        let key = DiskKey::new(&secret);
        *self.lock() = Some(Disk {
            directory: directory.to_owned(),
            secret,
            parts,
        });
        Ok(Some(key))
    }

    /// The disk key that a stopped node's rows and log must fit, and are written under; `None` if they need none. Its file stays as it
    /// is: the keys that are given here may be fewer than the node's. Blocks.
    ///
    /// # Errors
    /// If the data keys are missing, or as [`open`](Self::open) says.
    pub fn open_stopped(&self, directory: &Path) -> Result<Option<Arc<DiskKey>>, Refusal> {
        let Some(content) = disk_key::read_file(directory).map_err(|e| unusable(&e))? else {
            return Ok(None);
        };
        if self.0.has_keys() {
            let opened = opened(&self.0.ring.load(), &content);
            let (secret, _) = opened.map_err(Unopened::in_survivor)?;
            return Ok(Some(DiskKey::new(&secret)));
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
    pub fn make(&self) -> Result<Option<NewDiskKey>, Refusal> {
        if self.0.ring.load().is_empty() {
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
    pub fn keep(&self, directory: &Path, made: NewDiskKey) -> Result<Arc<DiskKey>, Refusal> {
        let key = made.key();
        *self.lock() = Some(Disk {
            directory: directory.to_owned(),
            secret: made.0,
            parts: Vec::new(),
        });
        self.reseal()?;
        Ok(key)
    }

    /// Seals the disk key under the data keys that are held, if its file has it under others. Only for a node that may start with these
    /// keys: with others it may have to start next. Blocks.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn reseal(&self) -> Result<(), Refusal> {
        let sealed = self.seal(&self.0.ring.load());
        sealed.map_err(|error| {
            Refusal::new(
                "--data-dir",
                error,
                "look at the disk of the data directory",
            )
        })
    }

    /// Whether what a data directory without a disk key holds may be taken as it is, where its rows say this of sealing.
    ///
    /// # Errors
    /// The flag at fault, and what to do.
    pub fn may_adopt(&self, row: Option<&SealingRow>) -> Result<(), Refusal> {
        if self.0.files.may_migrate() {
            return Ok(());
        }
        let problem = "the rows and the log of this node have no disk key: they were written without data keys, or by a version before it, \
                       or its file `disk-key` was removed";
        if row.is_some_and(|row| !is_over(row)) {
            return Err(Refusal::new(
                "--data-dir",
                format!("{problem}; and its cluster seals, so that it should have one"),
                "replace this node: start it with an empty --data-dir, while a majority of the cluster is whole without it. If an earlier \
                 version wrote it last, and nothing else can have, pass --data-key-migrate for one start",
            ));
        }
        Err(Refusal::new(
            "--data-key-file",
            problem,
            "if nothing but helve can have written this disk, pass --data-key-migrate on every node, one after the other, and take it \
             out again once values are sealed; or start without keys; else start with an empty --data-dir",
        ))
    }

    /// Seals the disk key under each of these data keys. A part under an older key that is not among them goes; one under a newer key
    /// stays, since the file of that key may only be missing on this node. Blocks.
    ///
    /// # Errors
    /// Why it stays as it was.
    pub(super) fn seal(&self, ring: &Keyring) -> Result<(), String> {
        let mut disk = self.lock();
        let Some(disk) = &mut *disk else {
            return Ok(());
        };
        let held = ring.ids();
        let is_held = |part: &Part| id_of(part).is_some_and(|id| held.contains(&id));
        let newest = disk.parts.iter().rposition(is_held);
        let newer = newest.map_or(&[][..], |at| &disk.parts[at + 1..]);
        let newer = &newer[newer.len().saturating_sub(PARTS_KEPT_MAX)..];
        let wanted = held.iter().copied().map(Some);
        let wanted = wanted.chain(newer.iter().map(id_of));
        if held.is_empty() || disk.parts.iter().map(id_of).eq(wanted) {
            return Ok(());
        }
        let mut parts = Vec::with_capacity(held.len() + newer.len());
        for key in held.iter().filter_map(|id| ring.find(*id)) {
            let random = fresh().map_err(|error| error.to_string())?;
            let sealed = key.seal(&random, &PLACE, &*disk.secret);
            let part = [&key.id().bytes()[..], &sealed].concat();
            parts.push(part.try_into().expect("a sealed secret has one length"));
        }
        parts.extend(newer);
        failpoint::pass(Failpoint::DiskKeyBeforeWrite);
        disk_key::write_file(&disk.directory, parts.as_flattened())
            .map_err(|error| error.to_string())?;
        failpoint::pass(Failpoint::DiskKeyWritten);
        disk.parts = parts;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Disk>> {
        self.0.disk.lock().unwrap_or_else(PoisonError::into_inner)
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

/// The data key that a part is sealed under.
fn id_of(part: &Part) -> Option<KeyId> {
    KeyId::from_bytes(&part[..KEY_ID_BYTES])
}

/// Why the content of a file does not open.
#[derive(Debug)]
enum Unopened {
    /// It is not what was written.
    Changed,
    /// None of the data keys that it is sealed under is held: their ids.
    Keyless(Vec<String>),
}

impl Unopened {
    fn flag_and_problem(&self) -> (&'static str, String) {
        match self {
            Self::Changed => (
                "--data-dir",
                "its file `disk-key` does not open under its data key: somebody changed it"
                    .to_owned(),
            ),
            Self::Keyless(ids) => (
                "--data-key-file",
                format!(
                    "the rows and the log of this node are sealed against changes under key {}, which none of the given files holds",
                    ids.join(" or ")
                ),
            ),
        }
    }

    /// The refusal of a node that is to serve: the other members may have all that it holds.
    fn in_member(self) -> Refusal {
        let (flag, problem) = self.flag_and_problem();
        let remedy = match self {
            Self::Changed => {
                "replace this node: start it with an empty --data-dir, while a majority of the cluster is whole without it"
            }
            Self::Keyless(_) => {
                "give the file of such a key too, before the newest one, until this node has started once; if the key is lost, or this \
                 node was first started with a wrong one, replace it: start it with an empty --data-dir, while a majority of the cluster \
                 is whole without it"
            }
        };
        Refusal::new(flag, problem, remedy)
    }

    /// The refusal of a stopped node, which may be all that is left of its cluster: no remedy empties it.
    fn in_survivor(self) -> Refusal {
        let (flag, problem) = self.flag_and_problem();
        let remedy = match self {
            Self::Changed => {
                "this directory may hold the only copy of the data: keep it as it is; recover another node that is left, or restore a \
                 backup into another directory (`helve restore`)"
            }
            Self::Keyless(_) => {
                "this directory may hold the only copy of the data: keep it as it is, and find the file of that key, on the other nodes' \
                 machines or where keys are kept; no new key opens it"
            }
        };
        Refusal::new(flag, problem, remedy)
    }
}

/// The secret in the content of a file, and its parts.
fn opened(
    ring: &Keyring,
    content: &[u8],
) -> Result<(Zeroizing<[u8; SECRET_BYTES]>, Vec<Part>), Unopened> {
    let (parts, rest) = content.as_chunks::<PART_BYTES>();
    if parts.is_empty() || !rest.is_empty() {
        return Err(Unopened::Changed);
    }
    let (mut secret, mut missing) = (None, Vec::new());
    for part in parts {
        let id = id_of(part).ok_or(Unopened::Changed)?;
        let Some(key) = ring.find(id) else {
            missing.push(id.to_string());
            continue;
        };
        let opened = key.open(&PLACE, &part[KEY_ID_BYTES..]);
        let opened = opened.and_then(|opened| opened.as_slice().try_into().ok());
        let opened = Zeroizing::new(opened.ok_or(Unopened::Changed)?);
        if secret.as_ref().is_some_and(|secret| *secret != opened) {
            return Err(Unopened::Changed);
        }
        secret = Some(opened);
    }
    let secret = secret.ok_or(Unopened::Keyless(missing))?;
    Ok((secret, parts.to_vec()))
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
