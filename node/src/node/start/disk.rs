//! The key that a node's disk must fit, before anything on it is used.

use std::sync::Arc;

use super::rows;
use crate::{
    config::Config,
    failpoint::{self, Failpoint},
    limits::{GROUP_ID, LOG_TAIL_BYTES},
    node::refusal::StartError,
    raft::log_store::LogStore,
    storage::{
        checkpoint::Snapshots,
        data_dir::DataDir,
        disk_key::{self, DiskKey},
        log_db::LogDb,
        purge_gate::PurgeGate,
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
    let kept = vault.disk_keys().open(path);
    if let Ok(Some(key)) = kept {
        return Ok(Some(key));
    }
    let Some(made) = vault.disk_keys().make()? else {
        return Ok(None);
    };
    // One that holds nothing may have a disk key under a wrong data key, of a first start.
    if !holds_nothing(config, data_dir)? {
        kept?;
        adopt(config, vault, data_dir, &made.key())?;
    }
    // Last: a crash before it has the next start take up all of it again.
    Ok(Some(vault.disk_keys().keep(path, made)?))
}

/// Whether this node never took part in anything: then there is nothing that a key would have to fit.
fn holds_nothing(config: &Config, data_dir: &DataDir) -> Result<bool, StartError> {
    if disk_key::is_fresh(data_dir.path()) {
        return Ok(true);
    }
    let (gate, log_path) = (PurgeGate::default(), data_dir.log_path());
    // What cannot be read is something.
    let Ok(log) = LogStore::open(&log_path, GROUP_ID, LOG_TAIL_BYTES, gate) else {
        return Ok(false);
    };
    let is_pristine = log.is_pristine();
    log.stop();
    let state = StateDb::open(data_dir.path(), config.tuning.rows)?;
    Ok(is_pristine && state.applied()?.is_none())
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
        vault.disk_keys().may_adopt(sealing.as_ref())?;
        // Under a key that the cluster does not use, the right one would not open it.
        Ok(vault.learn(sealing)?)
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
