//! Consensus: the one place that knows openraft. It offers replication, read index and leadership in the node's own types.
//!
//! ```text
//! propose.rs ── write_many ──► openraft ── append ──► log_store ──► storage/log_writer (group fsync)
//! read_index.rs ─ read_index ─►    │    ── network ──► peers
//!                                  └──── apply ────► state_machine ──► machine::apply ──► storage/state_db (one write)
//! ```

pub mod codec;
mod committed_log;
mod compaction;
#[cfg(test)]
pub(crate) mod fake_group;
mod group;
mod leading;
pub mod log_store;
mod member_set;
mod network;
pub mod overview;
pub mod receive;
pub mod snapshot;
pub mod state_machine;
pub mod types;

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use helve_machine::planted::{self, Plant};
use helve_proto::{command::v1::Outcome, peer::v1::NodeRecord};
use openraft::{
    ReadPolicy, SnapshotPolicy,
    async_runtime::watch::WatchReceiver as _,
    errors::{ClientWriteError, InitializeError, RaftError},
};

use self::{
    committed_log::CommittedLog,
    compaction::Compaction,
    log_store::LogStore,
    overview::Overview,
    receive::PeerRequests,
    state_machine::{Raft, StateMachine},
    types::{NodeInfo, Proposal, TypeConfig},
};
pub use self::{
    committed_log::Following,
    group::{Group, MembershipEdit, NotCommitted},
    leading::Leading,
    member_set::MemberSet,
};
// What calls of this room end with, too.
pub use crate::apply::Stopped;
use crate::{
    apply::AppliedLog, identity::Identity, metrics::Observed,
    peer_channel::address_book::AddressBook, stamp::Stamper, storage::level_hold::LevelHold,
    traces::Passage,
};

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
            replication_lag_threshold: self
                .snapshot_entries
                .max(self.log_keep_entries)
                .saturating_mul(2),
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
        .map_err(Stopped::by)
    }
}

/// This node's part in consensus. Cheap to clone.
#[derive(Clone)]
pub struct Consensus {
    raft: Raft,
    identity: Arc<Identity>,
    book: Arc<AddressBook>,
    applied: AppliedLog,
    committed: CommittedLog,
    compaction: Compaction,
    requests: PeerRequests,
    hold: Arc<LevelHold>,
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
        hold: Arc<LevelHold>,
    ) -> Result<Self, Stopped> {
        let applied = state.applied_log();
        let committed = CommittedLog::new(log.clone(), applied.clone());
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
            .map_err(Stopped::by)?;
        tokio::spawn(network::keep_addresses(raft.clone(), Arc::clone(&book)));
        Ok(Self {
            compaction: Compaction::new(raft.clone(), applied.clone()),
            requests: PeerRequests::new(raft.clone(), Arc::clone(&identity), stamper),
            raft,
            identity,
            book,
            applied,
            committed,
            hold,
        })
    }

    /// This node, as its peers know it.
    #[must_use]
    pub fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    /// How far this node has applied the log.
    #[must_use]
    pub fn applied(&self) -> &AppliedLog {
        &self.applied
    }

    /// The committed entries of this node's log.
    #[must_use]
    pub fn committed_log(&self) -> &CommittedLog {
        &self.committed
    }

    /// Takes snapshots, and shortens the log.
    #[must_use]
    pub fn compaction(&self) -> &Compaction {
        &self.compaction
    }

    /// Whether this node holds the cluster at its feature level.
    #[must_use]
    pub fn level_hold(&self) -> &Arc<LevelHold> {
        &self.hold
    }

    /// Takes what peers ask.
    #[must_use]
    pub fn peer_requests(&self) -> &PeerRequests {
        &self.requests
    }

    /// Proposes encoded commands, in order, each with what notes its way. The stream answers each, in the same order.
    ///
    /// # Errors
    /// If consensus stopped before the commands reached it: nothing happened.
    pub async fn write_many(
        &self,
        commands: Vec<(Bytes, Passage)>,
    ) -> Result<BoxStream<'static, Answer>, Stopped> {
        let proposals = commands.into_iter();
        let proposals = proposals.map(|(command, passage)| Proposal { command, passage });
        let answers = self.raft.client_write_many(proposals).await;
        let answers = answers.map_err(Stopped::by)?;
        Ok(answers.map(answer).boxed())
    }

    /// The index up to which a read that arrived before this call must see, confirmed by a quorum that was asked after it.
    ///
    /// # Errors
    /// `None` if this node does not lead, or cannot reach a quorum.
    pub async fn read_index(&self) -> Option<u64> {
        if self.leading().here && planted::is(Plant::ReadWithoutQuorum) {
            return Some(self.applied.index());
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
        let (term, leader) = (metrics.vote.leader_id.term, metrics.current_leader);
        Leading::reliable(&self.identity, term, metrics.state, leader)
    }

    /// Waits until this condition on leadership holds.
    ///
    /// # Errors
    /// If consensus stops first.
    pub async fn wait_leading(
        &self,
        condition: impl Fn(&Leading) -> bool + Send + Sync,
    ) -> Result<Leading, Stopped> {
        self.wait(|| Some(self.leading()).filter(&condition)).await
    }

    /// Waits until this finds something in who leads and who the members are, and returns that.
    ///
    /// # Errors
    /// If consensus stops first.
    pub async fn wait<T>(&self, find: impl Fn() -> Option<T> + Send) -> Result<T, Stopped> {
        let mut metrics = self.raft.server_metrics();
        loop {
            if let Some(found) = find() {
                return Ok(found);
            }
            let changed = metrics.changed().await;
            changed.map_err(|_| Stopped::meanwhile())?;
        }
    }

    /// This node's progress, and what it knows of the others.
    #[must_use]
    pub fn overview(&self) -> Overview {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched().clone();
        let (term, leader) = (metrics.vote.leader_id.term, metrics.current_leader);
        // Of the same moment as the rest: openraft tells those who ask for leadership alone a little earlier.
        let leading = Leading::reliable(&self.identity, term, metrics.state, leader);
        // What openraft says of it comes later than the answers to the calls.
        Overview::new(&metrics, leading, self.applied.index())
    }

    /// The members, as this node's log has them, committed or not.
    #[must_use]
    pub fn members(&self) -> MemberSet {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        MemberSet::new(Arc::clone(&metrics.membership_config))
    }

    /// The members, as the newest committed entry that this node knows sets them.
    #[must_use]
    pub fn committed_members(&self) -> MemberSet {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        MemberSet::new(Arc::clone(&metrics.committed_membership_config))
    }

    /// Where a member's peer port is reached.
    #[must_use]
    pub fn peer_address(&self, id: u64) -> Option<String> {
        let members = self.members();
        let record = members.member(id)?;
        let address = self.book.address(id, &record.uuid);
        Some(address.unwrap_or_else(|| record.peer_address.clone()))
    }

    /// The member with this uuid answered at this address, where it is reached from now on. Of a node that is no member, nothing is
    /// noted.
    pub fn note_met(&self, uuid: &str, address: &str) {
        self.book.note_met(uuid, address);
    }

    /// This node has been a member of a cluster.
    ///
    /// # Errors
    /// If consensus stopped.
    pub async fn is_initialized(&self) -> Result<bool, Stopped> {
        self.raft.is_initialized().await.map_err(Stopped::by)
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
            Err(e) => Err(Stopped::by(e)),
        }
    }

    /// From now on this node votes, and stores what it is sent.
    pub fn take_part(&self) {
        self.identity.acknowledged().take_part();
        self.raft.runtime_config().elect(true);
    }

    /// From now on this node asks for no votes.
    pub fn retire(&self) {
        self.raft.runtime_config().elect(false);
    }

    /// Stops consensus on this node.
    pub async fn shutdown(&self) {
        // It calls each message that comes later an error.
        self.requests.end().await;
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
