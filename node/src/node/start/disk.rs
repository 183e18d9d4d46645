//! The key that a node's disk must fit, before anything on it is used.

use std::sync::Arc;

use super::rows;
use crate::{
    config::Config,
    failpoint::{self, Failpoint},
    limits::{GROUP_ID, LOG_TAIL_BYTES},
    node::refusal::StartError,
    raft::log_store::{LogStore, PurgeGate},
    storage::{
        checkpoint::Snapshots,
        data_dir::DataDir,
        disk_key::{self, DiskKey},
        log_db::LogDb,
        state_db::StateDb,
    },
    vault::{self, Vault},
};

/// The disk key of a data directory; `None` for a node without data keys. A directory that holds nothing gets one.
pub(super) fn key(
    config: &Config,
    vault: &Vault,
    data_dir: &DataDir,
) -> Result<Option<Arc<DiskKey>>, StartError> {
    let path = data_dir.path();
    if let Some(key) = vault.disk_key(path)? {
        return Ok(Some(key));
    }
    let Some(made) = vault.new_disk_key()? else {
        return Ok(None);
    };
    if !disk_key::is_fresh(path) {
        adopt(config, vault, data_dir, &made.key())?;
    }
    // Last: a crash before it has the next start take up all of it again.
    Ok(Some(vault.keep_disk_key(path, made)?))
}

/// Has rows and log fit a new key as they are, if the operator vouches for them. Snapshots go, and are made again.
fn adopt(
    config: &Config,
    vault: &Vault,
    data_dir: &DataDir,
    key: &Arc<DiskKey>,
) -> Result<(), StartError> {
    let state = StateDb::open(data_dir.path(), config.tuning.rows)?;
    let log_path = data_dir.log_path();
    let log = LogStore::open(&log_path, GROUP_ID, LOG_TAIL_BYTES, PurgeGate::default())?;
    rows::look(config, &log, &state, |rows| {
        let (sealing, _) = vault::read_rows(rows)?;
        Ok(vault.may_adopt(sealing.as_ref())?)
    })?;
    log.stop();
    drop(log);
    tracing::warn!("the rows and the log get a disk key as they are, as --data-key-migrate says");
    state.adopt(key)?;
    failpoint::pass(Failpoint::RowsAdopted);
    let (log, _) = LogDb::open(&log_path, GROUP_ID, LOG_TAIL_BYTES)?;
    log.adopt(key)?;
    failpoint::pass(Failpoint::LogAdopted);
    Ok(Snapshots::remove_all(&data_dir.snapshots_path())?)
}

/// A node without data keys, whose rows need none, writes without the key from here on: the file must not vouch for them later.
pub(super) fn forget(data_dir: &DataDir) -> Result<(), StartError> {
    if disk_key::remove_file(data_dir.path())? {
        tracing::warn!(
            "no data key is given: from here on, changes on this node's disk are not found"
        );
    }
    Ok(())
}
