//! What a node has on disk, opened.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use helve_machine::planted::{self, Plant};
use helve_proto::peer::v1::LogId;

use super::{disk, rows};
use crate::{
    config::Config,
    failpoint::{self, Failpoint},
    identity::{
        Identity,
        acknowledged::{Position, Run},
    },
    limits::{GROUP_ID, LOG_TAIL_BYTES},
    node::refusal::StartError,
    raft::log_store::LogStore,
    stamp,
    storage::{
        checkpoint::Snapshots,
        data_dir::{DataDir, NodeIdentity},
        level_hold::LevelHold,
        purge_gate::PurgeGate,
        state_db::StateDb,
    },
    vault::Vault,
};

/// What a node has on disk.
pub(super) struct Storage {
    pub(super) path: PathBuf,
    pub(super) known: NodeIdentity,
    /// It holds something of a cluster, or was given an id there.
    pub(super) has_past: bool,
    /// What its log and rows held when it was opened.
    pub(super) began: Position,
    /// Tells this process from any other on the same data.
    pub(super) nonce: u64,
    pub(super) data_dir: Arc<Mutex<DataDir>>,
    pub(super) log: LogStore,
    pub(super) gate: PurgeGate,
    pub(super) state: Arc<StateDb>,
    pub(super) snapshots: Arc<Snapshots>,
    pub(super) vault: Arc<Vault>,
    pub(super) hold: Arc<LevelHold>,
}

impl Storage {
    pub(super) fn open(config: &Config) -> Result<Self, StartError> {
        let uuid = if planted::is(Plant::ReuseId) {
            format!("seat-{}", config.seat)
        } else {
            stamp::mint_uuid()?
        };
        let data_dir = DataDir::open(&config.data_dir, config.seat, &uuid)?;
        let vault = Vault::new(config.data_keys.clone(), config.keyring.clone());
        let key = disk::key(config, &vault, &data_dir)?;
        let gate = PurgeGate::default();
        let log_path = data_dir.log_path();
        let log = LogStore::open_under(
            &log_path,
            GROUP_ID,
            LOG_TAIL_BYTES,
            gate.clone(),
            key.clone(),
        )?;
        let known = data_dir.identity().clone();
        let options = config.tuning.rows;
        let state = StateDb::open_under(data_dir.path(), options, key.clone())?;
        rows::check(config, &vault, &log, &state)?;
        match &key {
            Some(_) => vault.disk_keys().reseal()?,
            None => disk::forget(&data_dir)?,
        }
        let snapshots = Snapshots::open_under(&data_dir.snapshots_path(), options, key)?;
        let applied = state.applied()?;
        let snapshot = snapshots.current();
        let snapshot = snapshot.and_then(|snapshot| snapshot.manifest().last_log_id);
        let index = |id: Option<LogId>| id.map_or(0, |id| id.index);
        // Those of an installed snapshot may not be in use yet.
        log.check_reaches(index(applied).max(index(snapshot)))?;
        failpoint::pass(Failpoint::StorageOpened);
        let has_rows = applied.is_some();
        let mut began = log.position();
        // An installed snapshot may be durable before the log knows.
        began.last = began.last.max(applied.map(|id| (id.term, id.index)));
        if log.is_pristine() && (has_rows || !known.cluster_id.is_empty()) {
            return Err(StartError::LogGone(config.data_dir.clone()));
        }
        let has_past = known.node_id != 0 || has_rows || !log.is_pristine();
        Ok(Self {
            hold: Arc::new(LevelHold::open(data_dir.path())?),
            path: data_dir.path().to_owned(),
            known,
            has_past,
            began,
            nonce: u64::from_le_bytes(stamp::random()?),
            log,
            gate,
            vault,
            state: Arc::new(state),
            snapshots: Arc::new(snapshots),
            data_dir: Arc::new(Mutex::new(data_dir)),
        })
    }

    /// From here on this node knows what others acknowledged, and what it must hold itself.
    pub(super) fn begin_run(&self, identity: &Identity) {
        let acknowledged = identity.acknowledged();
        let data_dir = self.data_dir.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = data_dir.read_acknowledged();
        let run = Run {
            number: self.known.starts,
            nonce: self.nonce,
        };
        let own = &self.known.uuid;
        acknowledged.keep_in(self.path.clone());
        acknowledged.begin(own, run, self.began, stored.as_deref());
        if !self.known.put_back.is_empty() {
            acknowledged.set_put_back(&self.known.put_back);
        }
    }
}
