//! What a node has on disk, opened.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use helve_machine::planted::{self, Plant};

use super::rows;
use crate::{
    config::Config,
    limits::{GROUP_ID, LOG_TAIL_BYTES},
    node::refusal::StartError,
    raft::{
        acknowledged::{Position, Run},
        identity::Identity,
        log_store::{LogStore, PurgeGate},
    },
    stamp,
    storage::{
        checkpoint::Snapshots,
        data_dir::{DataDir, NodeIdentity},
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
}

impl Storage {
    pub(super) fn open(config: &Config) -> Result<Self, StartError> {
        let uuid = if planted::is(Plant::ReuseId) {
            format!("seat-{}", config.seat)
        } else {
            stamp::mint_uuid()?
        };
        let data_dir = DataDir::open(&config.data_dir, config.seat, &uuid)?;
        let gate = PurgeGate::default();
        let log = LogStore::open(&data_dir.log_path(), GROUP_ID, LOG_TAIL_BYTES, gate.clone())?;
        let known = data_dir.identity().clone();
        let state = StateDb::open(data_dir.path(), config.tuning.rows)?;
        let vault = Vault::new(config.data_keys.clone(), config.keyring.clone());
        rows::check(config, &vault, &log, &state)?;
        let applied = state.applied()?;
        let has_rows = applied.is_some();
        let mut began = log.position();
        // An installed snapshot may be durable before the log knows.
        began.last = began.last.max(applied.map(|id| (id.term, id.index)));
        if log.is_pristine() && (has_rows || !known.cluster_id.is_empty()) {
            return Err(StartError::LogGone(config.data_dir.clone()));
        }
        let has_past = known.node_id != 0 || has_rows || !log.is_pristine();
        Ok(Self {
            path: data_dir.path().to_owned(),
            known,
            has_past,
            began,
            nonce: u64::from_le_bytes(stamp::random()?),
            log,
            gate,
            vault,
            state: Arc::new(state),
            snapshots: Arc::new(Snapshots::open(&data_dir.snapshots_path())?),
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
