//! Consensus: the one place that knows openraft. It offers replication, read index and leadership in the node's own types.
//!
//! ```text
//! propose.rs ── write_many ──► openraft ── append ──► log_store ──► storage/log_writer (group fsync)
//! read_index.rs ─ read_index ─►    │    ── network ──► peers
//!                                  └──── apply ────► state_machine ──► machine::apply ──► storage/state_db (one write)
//! ```

pub mod acknowledged;
mod address_book;
pub mod bootstrap;
pub mod change;
pub mod codec;
mod compaction;
pub mod forced;
pub mod foresight;
pub mod identity;
pub mod log_store;
pub mod membership;
mod network;
pub mod receive;
pub mod reception;
pub mod records;
pub mod refound;
pub mod rejoin;
pub mod snapshot;
pub mod standing;
pub mod state_machine;
mod stopped;
pub mod strangers;
mod succession;
pub mod types;
pub mod unapplied;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use helve_machine::planted::{self, Plant};
use helve_proto::{command::v1::Outcome, peer::v1::NodeRecord};
use openraft::{
    ReadPolicy, ServerState, SnapshotPolicy,
    async_runtime::watch::WatchReceiver as _,
    errors::{ClientWriteError, InitializeError, RaftError},
};
use tokio::sync::watch;

pub use self::stopped::Stopped;
use self::{
    address_book::AddressBook,
    change::Changes,
    identity::Identity,
    log_store::LogStore,
    receive::Receiving,
    state_machine::{Milestones, Progress, StateMachine, apply_queue::ApplyQueue},
    types::{NodeInfo, Proposal, TypeConfig},
};
use crate::{metrics::Observed, stamp::Stamper};

type Raft = openraft::Raft<TypeConfig, StateMachine>;

/// What became of one proposed command.
#[derive(Debug, Clone)]
pub enum Answer {
    /// It was committed and applied.
    Outcome(Box<Outcome>),
    /// It was rejected before it was appended: nothing happened.
    NotLeading,
    /// It may or may not take effect.
    Unknown(String),
}

/// Who leads, as this node knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leading {
    /// The current term.
    pub term: u64,
    /// The leader of that term; `None` if unknown.
    pub leader: Option<u64>,
    /// This node leads.
    pub here: bool,
}

/// How consensus is timed and bounded. Durations in milliseconds.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Between heartbeats.
    pub heartbeat_ms: u64,
    /// The shortest time without a leader before an election.
    pub election_ms_min: u64,
    /// The longest.
    pub election_ms_max: u64,
    /// A snapshot is taken after this many entries.
    pub snapshot_entries: u64,
    /// Entries kept in the log behind a snapshot.
    pub log_keep_entries: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            heartbeat_ms: 60,
            election_ms_min: 300,
            election_ms_max: 600,
            snapshot_entries: 100_000,
            log_keep_entries: 50_000,
        }
    }
}

impl Settings {
    fn config(&self) -> Result<openraft::Config, Stopped> {
        openraft::Config {
            cluster_name: "helve".to_owned(),
            heartbeat_interval: self.heartbeat_ms,
            heartbeat_min_interval: Some(self.heartbeat_ms / 2),
            election_timeout_min: self.election_ms_min,
            election_timeout_max: self.election_ms_max,
            install_snapshot_timeout: 60_000,
            max_payload_entries: 1024,
            max_append_entries: Some(4096),
            replication_lag_threshold: self.snapshot_entries.max(self.log_keep_entries) * 2,
            snapshot_policy: SnapshotPolicy::LogsSinceLast(self.snapshot_entries),
            // The node purges: it knows who is still receiving a snapshot.
            max_in_snapshot_log_to_keep: u64::MAX,
            enable_pre_vote: Some(true),
            // State is applied unsynced, so a leader must not resume its office over a state that fell behind.
            enable_leader_restore: Some(false),
            quorum_loss_probe_interval: Some(self.election_ms_max * 3),
            allow_log_reversion: None,
            backoff: format!("{}ms", self.heartbeat_ms),
            ..openraft::Config::default()
        }
        .validate()
        .map_err(|e| Stopped(e.to_string()))
    }
}

/// This node's part in consensus. Cheap to clone.
#[derive(Clone)]
pub struct Consensus {
    raft: Raft,
    identity: Arc<Identity>,
    stamper: Arc<Stamper>,
    applied: Arc<AtomicU64>,
    rows: watch::Receiver<Progress>,
    apply_queue: Arc<ApplyQueue>,
    milestones: watch::Receiver<Milestones>,
    book: Arc<AddressBook>,
    /// The last term in which this node was asked as the leader, and since when.
    leads_since: Arc<Mutex<(u64, Instant)>>,
    changes: Arc<Changes>,
    receiving: Receiving,
}

impl Consensus {
    /// Starts consensus under the identity's node id, on the current tokio runtime, from what storage holds.
    ///
    /// # Errors
    /// If the settings contradict each other or storage fails.
    pub async fn start(
        identity: Arc<Identity>,
        stamper: Arc<Stamper>,
        observed: Observed,
        settings: &Settings,
        log: LogStore,
        state: StateMachine,
    ) -> Result<Self, Stopped> {
        let (applied, rows) = (state.applied(), state.rows());
        let (apply_queue, milestones) = (state.queue(), state.milestones());
        let book = Arc::<AddressBook>::default();
        let network = network::Network::new(
            Arc::clone(&identity),
            Arc::clone(&book),
            Arc::clone(&stamper),
            log.flushed(),
            observed,
        );
        let mut config = settings.config()?;
        // A node that asks its peers first must not ask for votes meanwhile.
        config.enable_elect = identity.acknowledged().takes_part();
        let config = Arc::new(config);
        let raft = Raft::new(identity.node_id(), config, network, log, state)
            .await
            .map_err(|e| Stopped(e.to_string()))?;
        tokio::spawn(address_book::keep(raft.clone(), Arc::clone(&book)));
        Ok(Self {
            raft,
            identity,
            stamper,
            applied,
            rows,
            apply_queue,
            milestones,
            book,
            leads_since: Arc::new(Mutex::new((0, Instant::now()))),
            changes: Arc::default(),
            receiving: Receiving::default(),
        })
    }

    /// This node, as its peers know it.
    #[must_use]
    pub fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    /// How far this node's rows are; changes with every write of some.
    #[must_use]
    pub fn rows(&self) -> watch::Receiver<Progress> {
        self.rows.clone()
    }

    /// How far this node's rows are now.
    #[must_use]
    pub fn progress(&self) -> Progress {
        *self.rows.borrow()
    }

    /// Waits until this node's rows are as of this entry, or a later one.
    ///
    /// # Errors
    /// If consensus stops first.
    pub async fn wait_rows(&self, index: u64) -> Result<(), Stopped> {
        self.apply_queue.want(index);
        let mut rows = self.rows.clone();
        let reached = rows.wait_for(|progress| progress.index >= index).await;
        reached.map_err(|_| Stopped("stopped".to_owned()))?;
        Ok(())
    }

    /// Waits until entries are not applied any more: rows could not be written, or an entry was none that this version may apply. The
    /// node cannot go on then.
    pub async fn applying_ended(&self) -> Stopped {
        Stopped(self.apply_queue.ended().await)
    }

    /// Rarely changing fields, on a watch channel of their own so that other updates wake no one.
    #[must_use]
    pub fn milestones(&self) -> watch::Receiver<Milestones> {
        self.milestones.clone()
    }

    /// The last entry that has been applied here. Its rows may be written a moment later: see [`wait_rows`](Self::wait_rows).
    #[must_use]
    pub fn applied_index(&self) -> u64 {
        self.applied.load(Ordering::Acquire)
    }

    /// Proposes encoded commands, in order. The stream answers each, in the same order.
    ///
    /// # Errors
    /// If consensus stopped before the commands reached it: nothing happened.
    pub async fn write_many(
        &self,
        commands: Vec<Bytes>,
    ) -> Result<BoxStream<'static, Answer>, Stopped> {
        let proposals = commands.into_iter().map(|command| Proposal { command });
        let answers = self.raft.client_write_many(proposals).await;
        let answers = answers.map_err(|e| Stopped(e.to_string()))?;
        Ok(answers.map(answer).boxed())
    }

    /// The index up to which a read that arrived before this call must see, confirmed by a quorum that was asked after it.
    ///
    /// # Errors
    /// `None` if this node does not lead, or cannot reach a quorum.
    pub async fn read_index(&self) -> Option<u64> {
        if self.leading().here && planted::is(Plant::ReadWithoutQuorum) {
            return Some(self.applied_index());
        }
        let linearizer = self
            .raft
            .get_read_linearizer(ReadPolicy::ReadIndex)
            .await
            .ok()?;
        Some(linearizer.read_log_id().index())
    }

    /// The leader, as this node knows; none, once it was removed: what it knew of the cluster grows
    /// old.
    #[must_use]
    pub fn leading(&self) -> Leading {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        self.as_led(
            metrics.vote.leader_id.term,
            metrics.state,
            metrics.current_leader,
        )
    }

    /// What openraft says of leadership, as this node may rely on it.
    fn as_led(&self, term: u64, state: ServerState, leader: Option<u64>) -> Leading {
        let me = *self.raft.node_id();
        let stands = self.identity.may_take_part();
        let here = stands && state == ServerState::Leader && leader == Some(me);
        Leading {
            term,
            // After a restart the vote on its disk still says that it leads.
            leader: leader.filter(|leader| stands && (here || *leader != me)),
            here,
        }
    }

    /// Waits until this condition on leadership holds.
    ///
    /// # Errors
    /// If consensus stops first.
    pub async fn wait_leading(
        &self,
        condition: impl Fn(&Leading) -> bool + Send,
    ) -> Result<Leading, Stopped> {
        let mut metrics = self.raft.server_metrics();
        loop {
            let leading = self.leading();
            if condition(&leading) {
                return Ok(leading);
            }
            metrics
                .changed()
                .await
                .map_err(|_| Stopped("stopped".to_owned()))?;
        }
    }

    /// Initialises the cluster with these voters, once. Doing it again changes nothing.
    ///
    /// # Errors
    /// If consensus stopped.
    pub async fn initialize(&self, voters: BTreeMap<u64, NodeRecord>) -> Result<(), Stopped> {
        let voters: BTreeMap<_, _> = voters
            .into_iter()
            .map(|(id, node)| (id, NodeInfo(node)))
            .collect();
        match self.raft.initialize(voters).await {
            Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Ok(()),
            Err(e) => Err(Stopped(e.to_string())),
        }
    }

    /// Stops consensus on this node.
    pub async fn shutdown(&self) {
        // It calls each message that comes later an error.
        self.receiving.end().await;
        if let Err(e) = self.raft.shutdown().await {
            tracing::error!(error = %e, "consensus did not stop cleanly");
        }
    }
}

fn answer(
    result: Result<openraft::raft::WriteResult<TypeConfig>, openraft::errors::Fatal<TypeConfig>>,
) -> Answer {
    match result {
        Ok(Ok(response)) => Answer::Outcome(Box::new(response.response.0)),
        Ok(Err(ClientWriteError::ForwardToLeader(_))) => Answer::NotLeading,
        Ok(Err(e)) => Answer::Unknown(e.to_string()),
        Err(fatal) => Answer::Unknown(fatal.to_string()),
    }
}
