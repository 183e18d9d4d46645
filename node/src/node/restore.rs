//! The restore of a backup: its rows become a new cluster of one node, in a directory of their own.
//!
//! The rows are laid out as a snapshot from a leader is installed, take up the archived entries up to
//! a point in time, if one is asked for, and become those of a new cluster as a survivor's do.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use data_encoding::HEXLOWER;
use helve_machine::level;
use helve_proto::peer::v1::{NodeRecord, SnapshotChunk};
use helve_seal::{KeyId, Keyring};
use serde::Serialize;

use super::recover::{Founding, RecoverError};
use crate::{
    backup::{
        Backup, BackupError, PlainHttp, Until, data_key_ids,
        place::Place,
        point::{self, Point},
    },
    digest,
    failpoint::{self, Failpoint},
    limits::{GROUP_ID, LOG_TAIL_BYTES},
    log_replay::{FutureRowsError, refound::replay},
    raft::log_store::LogStore,
    refusal::Refusal,
    stamp::{self, EntropyError},
    storage::{
        checkpoint::Snapshots,
        data_dir::{DataDir, DataDirError},
        error::StorageError,
        options::StateOptions,
        purge_gate::PurgeGate,
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
    /// Up to where, by the archived log; `None`: the backup alone.
    pub until: Option<Until>,
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
    pub backup_revision: u64,
    /// The last entry whose effect was restored: of the archived log, if some of it was applied.
    pub revision: u64,
    /// The cluster's time in what was restored, milliseconds since the Unix epoch.
    pub clock_ms: u64,
    /// The rows that were restored, and their SHA-256.
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
    /// A newer version wrote entries of the archived log.
    #[error(
        "the archived log up to revision {revision} takes feature level {needed}, and this version supports {supported}: use the version \
         that the cluster had then, or restore an earlier revision"
    )]
    ArchiveTooNew {
        /// The last entry asked for.
        revision: u64,
        /// The level that it needs.
        needed: u32,
        /// The newest that this version supports.
        supported: u32,
    },
    /// An archived entry cannot be applied.
    #[error("the archived log: {0}; empty the data directory, and restore an earlier revision")]
    Unapplied(FutureRowsError),
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
    let backup = match request.until {
        Some(until) => point::base(&from, request.backup, until).await?,
        None => from.find(request.backup).await?,
    };
    let keys = request.data_keys.read()?;
    check(&backup, &keys)?;
    let point = match request.until {
        Some(until) => point::find(&from, backup, until, &keys, &mut read).await?,
        None => Point::alone(backup),
    };
    check_level(&point)?;
    let backup = &point.backup;
    let damaged = from.verify(&[backup], &mut read).await?;
    if let Some(damaged) = damaged.into_iter().next() {
        return Err(damaged.into());
    }
    let node = (backup.manifest().node_id, request.seat);
    let data_dir = DataDir::begin_restore(request.data_dir, node, &stamp::mint_uuid()?)?;
    failpoint::pass(Failpoint::RestoreBegun);
    let vault = Vault::new(request.data_keys.clone(), keys.clone());
    let made = vault.disk_keys().make().map_err(RestoreError::DiskKey)?;
    let key = made.map(|made| vault.disk_keys().keep(data_dir.path(), made));
    let key = key.transpose().map_err(RestoreError::DiskKey)?;
    let state = StateDb::open_under(data_dir.path(), StateOptions::default(), key.clone())?;
    lay_out(&from, backup, (&data_dir, &state), &mut read).await?;
    failpoint::pass(Failpoint::RestoreLaidOut);
    let mut shown = compare(backup, &state)?;
    if !point.segments.is_empty() {
        apply(&from, &point, (&state, &keys), &mut read).await?;
        shown = Shown::of(&state)?;
    }
    let (node_id, record) = member(backup, request.seat);
    let (log_path, gate) = (data_dir.log_path(), PurgeGate::default());
    let log = LogStore::open_under(&log_path, GROUP_ID, LOG_TAIL_BYTES, gate, key)?;
    let founding = Founding {
        data_dir,
        log,
        state: Arc::new(state),
    };
    let cluster_id = founding.found((node_id, record), point.revision).await?;
    Ok(Report {
        backup: backup.id(),
        former_cluster_id: backup.manifest().cluster_id.clone(),
        backup_revision: backup.manifest().revision,
        revision: point.revision,
        clock_ms: shown.clock_ms,
        rows: shown.rows,
        digest: shown.digest,
        cluster_id,
        data_dir: request.data_dir.to_owned(),
        node_id,
        seat: request.seat,
    })
}

/// Rows as they are shown.
struct Shown {
    clock_ms: u64,
    rows: u64,
    digest: String,
}

impl Shown {
    fn of(state: &StateDb) -> Result<Self, RestoreError> {
        state.read(|view| {
            let found = digest::hash(view, |_| true)?;
            let clock_ms = helve_machine::clock(view, GROUP_ID);
            let clock_ms = clock_ms.map_err(|fault| RestoreError::Unapplied(fault.into()))?;
            Ok::<_, RestoreError>(Self {
                clock_ms,
                rows: found.as_ref().map_or(0, |found| found.rows),
                digest: found.map_or_else(String::new, |found| HEXLOWER.encode(&found.digest)),
            })
        })
    }
}

/// Applies the archived entries behind a backup, and refuses rows that a node with these keys could
/// not serve.
async fn apply(
    from: &Place,
    point: &Point,
    (state, keys): (&StateDb, &Keyring),
    mut read: impl FnMut(u64),
) -> Result<(), RestoreError> {
    for checked in &point.segments {
        let segment = Point::segment(from, checked).await?;
        for piece in segment.pieces() {
            replay(state, &piece.entries, point.revision).map_err(unapplied)?;
        }
        read(segment.bytes());
    }
    let applied = state.applied()?.map_or(0, |id| id.index);
    if applied != point.revision {
        let why = format!(
            "its entries end with {applied}, and not with {}",
            point.revision
        );
        return Err(BackupError::damaged(from.path(), why).into());
    }
    let ids = state.read(|view| data_key_ids(view, || true));
    let ids = ids.map_err(|fault| RestoreError::Unapplied(fault.into()))?;
    let is_held = |id: &String| KeyId::parse(id).is_some_and(|id| keys.find(id).is_some());
    let mut missing = ids.unwrap_or_default();
    missing.retain(|id| !is_held(id));
    if missing.is_empty() {
        return Ok(());
    }
    Err(RestoreError::Backup(BackupError::KeyMissing {
        id: format!("{} up to revision {}", point.backup.id(), point.revision),
        missing: missing.join(", "),
    }))
}

fn unapplied(error: FutureRowsError) -> RestoreError {
    match error {
        FutureRowsError::Storage(error) => RestoreError::Storage(error),
        error => RestoreError::Unapplied(error),
    }
}

/// Refuses entries of the archived log that this version cannot apply.
fn check_level(point: &Point) -> Result<(), RestoreError> {
    let (needed, supported) = (point.feature_level, level::supported());
    if needed <= supported {
        return Ok(());
    }
    Err(RestoreError::ArchiveTooNew {
        revision: point.revision,
        needed,
        supported,
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
fn compare(backup: &Backup, state: &StateDb) -> Result<Shown, RestoreError> {
    let shown = Shown::of(state)?;
    let said = HEXLOWER.encode(&backup.manifest().digest);
    if shown.digest != said {
        return Err(RestoreError::OtherRows {
            id: backup.id(),
            found: shown.digest,
            said,
        });
    }
    Ok(shown)
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
