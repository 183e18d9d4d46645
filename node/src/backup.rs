//! Backups: what a node says of the rows that it sends, and the directory or the bucket that keeps
//! them.
//!
//! ```text
//! node:  snapshot ── describe ──► manifest, files ──► gRPC stream (service/backup.rs)
//! here:  stream ── Receiver ──► TO/files/NODE/..., then TO/backups/ID ── restore (node/restore.rs) ──► data directory
//! ```
//!
//! A backup is a snapshot's files, named as they are on the node. A table file never changes, so a
//! node sends it once. Between backups, the committed entries of the log are archived in segments
//! (`archive.rs`), and a restore applies them up to a point in time (`point.rs`).

mod archive;
#[cfg(feature = "object-store")]
mod bucket;
mod delete;
mod describe;
pub mod directory;
mod error;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod kept_log;
#[cfg(test)]
mod made_up_tests;
pub mod place;
pub(crate) mod point;
mod proof;
mod receiver;
mod segment;
mod segment_path;
mod store_error;
#[cfg(test)]
mod tests;
mod until;
mod url;

use helve_proto::{peer::v1::SnapshotManifest, v1::BackupManifest};
use helve_seal::{KeyId, Keyring};
use prost::Message as _;
use sha2::{Digest as _, Sha256};

use self::proof::Unproven;
pub use self::{
    archive::{Archive, LogRun, Tip},
    delete::{Deleted, Run},
    error::BackupError,
    receiver::{Received, Receiver},
    segment::{Closed, Growing, Segment},
    store_error::{StoreError, StoreProblem},
    until::Until,
    url::PlainHttp,
};
pub(crate) use self::{
    describe::{DescribeError, Maker, data_key_ids, describe},
    proof::piece,
};
use crate::storage::snapshot_writer;

/// The format of backups that this version writes, and the newest that it reads.
const FORMAT: u32 = 1;

/// Bytes of a file's key.
const FILE_KEY_BYTES: usize = 8;

/// Bytes of a version's name.
const VERSION_BYTES_MAX: usize = 64;

/// Tells a file of a node from any other one of that node: see `BackupRequest.held`.
pub(crate) type FileKey = [u8; FILE_KEY_BYTES];

/// A file of a backup.
pub use helve_proto::peer::v1::SnapshotFile as BackupFile;

/// A backup, as its manifest says.
#[derive(Debug, Clone, PartialEq)]
pub struct Backup {
    manifest: BackupManifest,
    snapshot: SnapshotManifest,
}

impl Backup {
    /// Reads a manifest that a node or a directory says is a backup's.
    ///
    /// # Errors
    /// If a newer version wrote it, or it is not what a manifest is.
    pub fn read(manifest: BackupManifest) -> Result<Self, BackupError> {
        // It is shown on terminals.
        let version = &manifest.version;
        let is_of_version = |byte: u8| byte.is_ascii_alphanumeric() || b".+-".contains(&byte);
        if version.len() > VERSION_BYTES_MAX || !version.bytes().all(is_of_version) {
            return Err(BackupError::Manifest("its version is none".to_owned()));
        }
        if manifest.format > FORMAT {
            return Err(BackupError::NewerFormat {
                version: manifest.version,
                found: manifest.format,
            });
        }
        let snapshot = SnapshotManifest::decode(&*manifest.snapshot)
            .map_err(|error| BackupError::Manifest(error.to_string()))?;
        snapshot_writer::check(&snapshot)
            .map_err(|error| BackupError::Manifest(error.to_string()))?;
        // The rows are compared with the snapshot, and the archive goes on behind the revision.
        let last = snapshot.last_log_id.map_or(0, |last| last.index);
        if last != manifest.revision {
            let revision = manifest.revision;
            let why = format!("it is of revision {revision}, and its rows of revision {last}");
            return Err(BackupError::Manifest(why));
        }
        // It names a directory, and the manifest's file.
        for name in [&manifest.node_uuid, &manifest.cluster_id] {
            let is_id = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            if name.len() < CLUSTER_SHOWN || !name.bytes().all(is_id) {
                let why = format!("`{}` is no id", name.escape_debug());
                return Err(BackupError::Manifest(why));
            }
        }
        Ok(Self { manifest, snapshot })
    }

    /// Its name in its directory: the beginning of the cluster's id, and the revision. Backups of
    /// one revision hold the same rows.
    #[must_use]
    pub fn id(&self) -> String {
        let cluster = &self.manifest.cluster_id[..CLUSTER_SHOWN];
        format!("{cluster}-{}", self.manifest.revision)
    }

    /// What it says.
    #[must_use]
    pub fn manifest(&self) -> &BackupManifest {
        &self.manifest
    }

    /// The data keys that it takes to restore it, as 16 hexadecimal digits each: those of its values,
    /// and the one of its proof.
    #[must_use]
    pub fn data_key_ids(&self) -> Vec<String> {
        let mut ids = self.manifest.data_key_ids.clone();
        let proof = proof::key_id(&self.manifest.proof).map(|id| id.to_string());
        ids.extend(proof.filter(|id| !self.manifest.data_key_ids.contains(id)));
        ids
    }

    /// Whether a node with data keys made it.
    #[must_use]
    pub fn has_proof(&self) -> bool {
        !self.manifest.proof.is_empty()
    }

    /// Checks that a node which held one of these keys made it. Where none is given, there is
    /// nothing to check by, and a backup that needs one is refused.
    ///
    /// # Errors
    /// If a key is missing, or it was made without a key, or changed.
    pub fn check_proof(&self, keys: &Keyring) -> Result<(), BackupError> {
        let is_held = |id: &String| KeyId::parse(id).is_some_and(|id| keys.find(id).is_some());
        let mut missing = self.data_key_ids();
        missing.retain(|id| !is_held(id));
        if !missing.is_empty() {
            let (id, missing) = (self.id(), missing.join(", "));
            return Err(BackupError::KeyMissing { id, missing });
        }
        if keys.is_empty() {
            return Ok(());
        }
        proof::check(&self.manifest, keys).map_err(|unproven| match unproven {
            Unproven::Missing => BackupError::Unproven(self.id()),
            Unproven::Changed => BackupError::Forged(self.id()),
        })
    }

    /// Its files.
    #[must_use]
    pub fn files(&self) -> &[BackupFile] {
        &self.snapshot.files
    }

    /// Bytes of its files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let sizes = self.files().iter().map(|file| file.size_bytes);
        sizes.fold(0, u64::saturating_add)
    }

    /// The snapshot that it holds.
    pub(crate) fn snapshot(&self) -> &SnapshotManifest {
        &self.snapshot
    }
}

/// How much of the cluster's id is in a backup's.
const CLUSTER_SHOWN: usize = 8;

/// See [`FileKey`].
pub(crate) fn file_key(file: &BackupFile) -> FileKey {
    let mut hasher = Sha256::new();
    hasher.update(&file.name);
    hasher.update(file.size_bytes.to_be_bytes());
    hasher.update(file.crc32c.to_be_bytes());
    let hash = hasher.finalize();
    let mut key = FileKey::default();
    key.copy_from_slice(&hash[..FILE_KEY_BYTES]);
    key
}
