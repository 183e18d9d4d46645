//! The restore of a backup: its rows become a new cluster of one node, in a directory of their own.
//!
//! The rows are laid out as a snapshot from a leader is installed, and become those of a new
//! cluster as a survivor's do.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use data_encoding::HEXLOWER;
use helve_machine::level;
use helve_proto::peer::v1::{NodeRecord, SnapshotChunk};
use helve_seal::Keyring;
use serde::Serialize;

use super::recover::{Founding, RecoverError};
use crate::{
    backup::{Backup, BackupError, PlainHttp, place::Place},
    digest,
    failpoint::{self, Failpoint},
    limits::{GROUP_ID, LOG_TAIL_BYTES},
    raft::log_store::{LogStore, PurgeGate},
    refusal::Refusal,
    stamp::{self, EntropyError},
    storage::{
        checkpoint::Snapshots,
        data_dir::{DataDir, DataDirError},
        error::StorageError,
        options::StateOptions,
        state_db::StateDb,
    },
    vault::{KeyFiles, Vault},
};

/// What to restore, and to where.
pub struct Request<'a> {
    /// The directory of backups, or the URL of their bucket.
    pub from: &'a Path,
    /// Whether a bucket may be reached without TLS.
    pub http: PlainHttp,
    /// Which; `None`: the newest by the cluster's time.
    pub backup: Option<&'a str>,
    /// The new node's data directory: a new or an empty one.
    pub data_dir: &'a Path,
    /// The new node's seat.
    pub seat: u64,
    /// The keys that the new node will have.
    pub data_keys: KeyFiles,
}

/// What was restored.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The backup.
    pub backup: String,
    /// The cluster that it was made of.
    pub former_cluster_id: String,
    /// The last entry whose effect it holds.
    pub revision: u64,
    /// The cluster's time in it, milliseconds since the Unix epoch.
    pub clock_ms: u64,
    /// Its rows, and their SHA-256, as they were laid out and compared.
    pub rows: u64,
    /// See `rows`.
    pub digest: String,
    /// The new cluster.
    pub cluster_id: String,
    /// The node's directory, id and seat.
    pub data_dir: PathBuf,
    /// See `data_dir`.
    pub node_id: u64,
    /// See `data_dir`.
    pub seat: u64,
}

/// Why nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The backup cannot be used.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// A newer version made it.
    #[error(
        "backup {id} is at feature level {needed}, and this version supports {supported}: use version {version} or a newer one"
    )]
    TooNew {
        /// The backup.
        id: String,
        /// The version that made it.
        version: String,
        /// The level that it needs.
        needed: u32,
        /// The newest that this version supports.
        supported: u32,
    },
    /// The data keys cannot be read, or not be used.
    #[error(transparent)]
    Keys(#[from] Refusal),
    /// The key of the new node's disk cannot be made or kept.
    #[error(transparent)]
    DiskKey(Refusal),
    /// The data directory cannot be used.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// The rows cannot be laid out.
    #[error("--data-dir: {0}")]
    Storage(#[from] StorageError),
    /// The rows are not those of the backup.
    #[error(
        "backup {id} is damaged: its rows have the digest {found}, and its manifest says {said}; use another backup (--backup ID), and empty \
         the data directory"
    )]
    OtherRows {
        /// The backup.
        id: String,
        /// Of the rows.
        found: String,
        /// In the manifest.
        said: String,
    },
    /// The operating system gave no entropy.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// The new cluster cannot be founded.
    #[error(transparent)]
    Founding(#[from] RecoverError),
}

/// Restores a backup into an empty directory. `read` hears how many bytes of it were read; each is
/// read twice. Blocks now and then.
///
/// # Errors
/// See [`RestoreError`]. What refuses the backup itself wrote nothing; behind that, empty the
/// directory before the next try.
pub async fn restore(
    request: &Request<'_>,
    mut read: impl FnMut(u64),
) -> Result<Report, RestoreError> {
    let from = Place::open(request.from, request.http)?;
    let backup = from.find(request.backup).await?;
    let keys = request.data_keys.read()?;
    check(&backup, &keys)?;
    let damaged = from.verify(&[&backup], &mut read).await?;
    if let Some(damaged) = damaged.into_iter().next() {
        return Err(damaged.into());
    }
    let manifest = backup.manifest();
    let node = (manifest.node_id, request.seat);
    let data_dir = DataDir::begin_restore(request.data_dir, node, &stamp::mint_uuid()?)?;
    failpoint::pass(Failpoint::RestoreBegun);
    let vault = Vault::new(request.data_keys.clone(), keys);
    let made = vault.disk_keys().make().map_err(RestoreError::DiskKey)?;
    let key = made.map(|made| vault.disk_keys().keep(data_dir.path(), made));
    let key = key.transpose().map_err(RestoreError::DiskKey)?;
    let state = StateDb::open_under(data_dir.path(), StateOptions::default(), key.clone())?;
    lay_out(&from, &backup, (&data_dir, &state), &mut read).await?;
    failpoint::pass(Failpoint::RestoreLaidOut);
    compare(&backup, &state)?;
    let (node_id, record) = member(&backup, request.seat);
    let gate = PurgeGate::default();
    let log = LogStore::open_under(
        &data_dir.log_path(),
        GROUP_ID,
        LOG_TAIL_BYTES,
        gate.clone(),
        key,
    )?;
    let founding = Founding {
        data_dir,
        gate,
        log,
        state: Arc::new(state),
    };
    let cluster_id = founding.found((node_id, record), manifest.revision).await?;
    Ok(Report {
        backup: backup.id(),
        former_cluster_id: manifest.cluster_id.clone(),
        revision: manifest.revision,
        clock_ms: manifest.clock_ms,
        rows: manifest.rows,
        digest: HEXLOWER.encode(&manifest.digest),
        cluster_id,
        data_dir: request.data_dir.to_owned(),
        node_id,
        seat: request.seat,
    })
}

/// Refuses a backup that this version, or a node with these keys, cannot serve.
fn check(backup: &Backup, keys: &Keyring) -> Result<(), RestoreError> {
    let manifest = backup.manifest();
    let (needed, supported) = (manifest.feature_level, level::supported());
    if needed > supported {
        return Err(RestoreError::TooNew {
            id: backup.id(),
            version: manifest.version.clone(),
            needed,
            supported,
        });
    }
    Ok(backup.check_proof(keys)?)
}

/// Makes the rows of a backup those of an empty state.
async fn lay_out(
    from: &Place,
    backup: &Backup,
    (data_dir, state): (&DataDir, &StateDb),
    mut read: impl FnMut(u64),
) -> Result<(), RestoreError> {
    let snapshots = Snapshots::open(&data_dir.snapshots_path())?;
    let mut writer = snapshots.receive(backup.snapshot().clone())?;
    for (at, file) in (0..).zip(backup.files()) {
        from.read_file((backup, file), |data| {
            let bytes = data.len() as u64;
            writer.write(&SnapshotChunk { file: at, data })?;
            read(bytes);
            Ok::<_, RestoreError>(())
        })
        .await?;
    }
    state.install(&writer.finish()?)?;
    // Only the digest vouches for the rows, and it scans them.
    Ok(state.rewrite_rights()?)
}

/// Refuses rows that are not those which the node read when it made the backup.
fn compare(backup: &Backup, state: &StateDb) -> Result<(), RestoreError> {
    let found = state.read(|view| digest::hash(view, |_| true))?;
    let found = found.map_or_else(String::new, |found| HEXLOWER.encode(&found.digest));
    let said = HEXLOWER.encode(&backup.manifest().digest);
    if found != said {
        let id = backup.id();
        return Err(RestoreError::OtherRows { id, found, said });
    }
    Ok(())
}

/// The one member of the new cluster: the node that made the backup, on another seat. What its
/// record lacks, a start corrects.
fn member(backup: &Backup, seat: u64) -> (u64, NodeRecord) {
    let id = backup.manifest().node_id;
    let membership = backup.snapshot().membership.as_ref();
    let membership = membership.and_then(|stored| stored.membership.as_ref());
    let record = membership.and_then(|membership| membership.nodes.get(&id));
    let record = NodeRecord {
        seat,
        feature_level: level::supported(),
        ..record.cloned().unwrap_or_default()
    };
    (id, record)
}
