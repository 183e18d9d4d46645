//! Who the members are and how far they have come, and how one takes another's seat.

use std::{
    collections::BTreeSet,
    sync::PoisonError,
    time::{Duration, Instant},
};

use helve_proto::peer::v1::NodeRecord;
use openraft::{
    ChangeMembers, Instant as _, ServerState, async_runtime::watch::WatchReceiver as _,
};

use super::{Consensus, Stopped, types::NodeInfo};

/// A member that has been silent for longer may be replaced.
const SILENCE_MIN: Duration = Duration::from_secs(2);

/// A learner that lacks no more entries may vote.
pub(super) const LEARNER_LAG_MAX: u64 = 1_000;

/// This node's state in consensus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It leads.
    Leader,
    /// It follows a leader and votes.
    Follower,
    /// It asks to lead.
    Candidate,
    /// It receives entries, but does not vote.
    Learner,
    /// It stops.
    Stopping,
}

/// A member, as this node knows it.
#[derive(Debug, Clone)]
pub struct MemberProgress {
    /// Its id.
    pub id: u64,
    /// What the membership records of it.
    pub record: NodeRecord,
    /// It votes.
    pub voter: bool,
    /// The last entry it is known to hold; on the leader only.
    pub matched: Option<u64>,
    /// Time since it last answered; on the leader only.
    pub silent_for: Option<Duration>,
}

/// This node's progress, and what it knows of the others.
#[derive(Debug, Clone)]
pub struct Overview {
    /// This node's state.
    pub role: Role,
    /// The current term.
    pub term: u64,
    /// The leader; 0 if unknown.
    pub leader_id: u64,
    /// Indexes: the last entry, the last committed, the last applied, the last in a snapshot, the last purged.
    pub last_log: u64,
    /// See `last_log`.
    pub committed: u64,
    /// See `last_log`.
    pub applied: u64,
    /// See `last_log`.
    pub snapshot: u64,
    /// See `last_log`.
    pub purged: u64,
    /// All members, this node included.
    pub members: Vec<MemberProgress>,
    /// On a leader that is not alone: time since a majority last answered; `None` elsewhere, and before the first answer.
    pub majority_silent_for: Option<Duration>,
    /// Why consensus stopped here; `None` while it runs.
    pub stopped: Option<String>,
}

/// Why a member was not replaced or leadership not handed over.
#[derive(Debug, Clone, thiserror::Error)]
pub enum MembershipError {
    /// This node does not lead.
    #[error(
        "this node does not lead, and only the leader does this: `helve status` shows which one leads"
    )]
    NotLeading,
    /// There is no such voter, or none that has caught up.
    #[error(
        "there is no caught-up voter to hand leadership to: `helve status` shows how far each node is"
    )]
    NoSuccessor,
    /// The seat's member still answers.
    #[error("seat {0} is taken by a live node: stop it first, or use a free seat")]
    SeatTaken(u64),
    /// The change was not committed.
    #[error("the membership change was not committed: {0}")]
    NotCommitted(String),
    /// Consensus stopped here.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl Consensus {
    /// What the membership records of this member.
    #[must_use]
    pub fn member(&self, id: u64) -> Option<NodeRecord> {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        metrics
            .membership_config
            .get_node(&id)
            .map(|node| node.0.clone())
    }

    /// The member with this uuid, and whether it votes.
    #[must_use]
    pub fn member_by_uuid(&self, uuid: &str) -> Option<(u64, bool)> {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        let members = &metrics.membership_config;
        let id = members
            .nodes()
            .find(|(_, node)| node.0.uuid == uuid)
            .map(|(id, _)| *id)?;
        Some((id, members.voter_ids().any(|voter| voter == id)))
    }

    /// This node has been a member of a cluster.
    ///
    /// # Errors
    /// If consensus stopped.
    pub async fn is_initialized(&self) -> Result<bool, Stopped> {
        self.raft
            .is_initialized()
            .await
            .map_err(|e| Stopped(e.to_string()))
    }

    /// This node's progress, and what it knows of the others.
    #[must_use]
    pub fn overview(&self) -> Overview {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched().clone();
        let voters: BTreeSet<u64> = metrics.membership_config.voter_ids().collect();
        let member = |(id, node): (&u64, &NodeInfo)| MemberProgress {
            id: *id,
            record: node.0.clone(),
            voter: voters.contains(id),
            matched: metrics.replication.as_ref().and_then(|r| {
                r.get(id)
                    .map(|log_id| log_id.as_ref().map_or(0, |l| l.index))
            }),
            silent_for: metrics
                .heartbeat
                .as_ref()
                .and_then(|h| h.get(id).and_then(|at| at.as_ref().map(|at| at.elapsed()))),
        };
        Overview {
            role: role(metrics.state),
            term: metrics.vote.leader_id.term,
            leader_id: self.leading().leader.unwrap_or(0),
            last_log: metrics.last_log_index.unwrap_or(0),
            committed: metrics.local_committed.as_ref().map_or(0, |id| id.index),
            applied: metrics.last_applied.as_ref().map_or(0, |id| id.index),
            snapshot: metrics.snapshot.as_ref().map_or(0, |id| id.index),
            purged: metrics.purged.as_ref().map_or(0, |id| id.index),
            members: metrics.membership_config.nodes().map(member).collect(),
            majority_silent_for: metrics
                .last_quorum_acked
                .as_ref()
                .filter(|_| voters.len() > 1)
                .map(|at| at.elapsed()),
            stopped: metrics
                .running_state
                .as_ref()
                .err()
                .map(ToString::to_string),
        }
    }

    /// Gives a new node, which must be running under `id`, its seat: first as a learner, then, once it has caught up, in place of the
    /// seat's former member in one joint change.
    ///
    /// # Errors
    /// See [`MembershipError`].
    pub async fn seat(&self, id: u64, record: NodeRecord) -> Result<(), MembershipError> {
        let seat = record.seat;
        if self
            .member(id)
            .is_some_and(|member| member.uuid != record.uuid)
        {
            return Err(MembershipError::SeatTaken(seat));
        }
        self.former_members(id, seat)?;
        let not_committed =
            |e: &dyn std::fmt::Display| MembershipError::NotCommitted(e.to_string());
        let added = self.raft.add_learner(id, NodeInfo(record), true).await;
        added.map_err(|e| not_committed(&e))?;
        self.caught_up(id).await?;
        // The seat's former member may have come back in the meantime.
        let former = self.former_members(id, seat)?;
        let mut voters: BTreeSet<u64> = {
            let metrics = self.raft.server_metrics();
            let metrics = metrics.borrow_watched();
            metrics.membership_config.voter_ids().collect()
        };
        voters.retain(|voter| !former.contains(voter));
        voters.insert(id);
        let change = ChangeMembers::ReplaceAllVoters(voters);
        let changed = self.raft.change_membership(change, false).await;
        changed.map_err(|e| not_committed(&e))?;
        tracing::info!(id, seat, ?former, "a node took its seat");
        Ok(())
    }

    /// Waits until a learner lacks next to nothing: as a voter that lags it would hold up every commit.
    async fn caught_up(&self, id: u64) -> Result<(), MembershipError> {
        let mut metrics = self.raft.metrics();
        loop {
            let overview = self.overview();
            let learner = overview.members.iter().find(|m| m.id == id);
            if overview.leader_id != self.identity.node_id() {
                return Err(MembershipError::NotLeading);
            }
            let matched = learner.and_then(|m| m.matched).unwrap_or(0);
            if matched + LEARNER_LAG_MAX >= overview.last_log {
                return Ok(());
            }
            metrics
                .changed()
                .await
                .map_err(|_| Stopped("stopped".to_owned()))?;
        }
    }

    /// Finishes a change of members that its leader began and did not end: a joint configuration needs both majorities.
    ///
    /// # Errors
    /// If this node does not lead any more, or the change is not committed.
    pub async fn leave_joint(&self) -> Result<(), MembershipError> {
        let is_joint = {
            let metrics = self.raft.server_metrics();
            let metrics = metrics.borrow_watched();
            metrics.membership_config.get_joint_config().len() > 1
        };
        if !is_joint {
            return Ok(());
        }
        let change = ChangeMembers::AddVoterIds(BTreeSet::new());
        let changed = self.raft.change_membership(change, false).await;
        changed
            .map(|_| ())
            .map_err(|e| MembershipError::NotCommitted(e.to_string()))
    }

    /// The members that hold a seat, all silent.
    fn former_members(&self, id: u64, seat: u64) -> Result<BTreeSet<u64>, MembershipError> {
        let overview = self.overview();
        if overview.leader_id != self.identity.node_id() {
            return Err(MembershipError::NotLeading);
        }
        let led_for = self.led_for(overview.term);
        let holders = overview
            .members
            .iter()
            .filter(|m| m.record.seat == seat && m.id != id);
        holders
            .map(|m| {
                let gone = m.silent_for.unwrap_or(led_for) > SILENCE_MIN;
                if gone {
                    Ok(m.id)
                } else {
                    Err(MembershipError::SeatTaken(seat))
                }
            })
            .collect()
    }

    /// How long this node is known to have led in this term: a member that never answered it may not have had the time.
    fn led_for(&self, term: u64) -> Duration {
        let mut since = self
            .leads_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if since.0 != term {
            *since = (term, Instant::now());
        }
        since.1.elapsed()
    }

    /// Whether a new node may ask for this seat.
    ///
    /// # Errors
    /// If its member still answers, or this node does not lead.
    pub fn seat_is_free(&self, seat: u64) -> Result<(), MembershipError> {
        self.former_members(0, seat).map(|_| ())
    }

    /// The highest node id that the membership knows.
    #[must_use]
    pub fn highest_member(&self) -> u64 {
        self.overview()
            .members
            .iter()
            .map(|m| m.id)
            .max()
            .unwrap_or(0)
    }
}

fn role(state: ServerState) -> Role {
    match state {
        ServerState::Leader => Role::Leader,
        ServerState::Follower => Role::Follower,
        ServerState::Candidate => Role::Candidate,
        ServerState::Learner => Role::Learner,
        ServerState::Shutdown => Role::Stopping,
    }
}
