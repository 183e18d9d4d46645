//! Who the members are, how far they have come, and why they are not changed.

mod error;

use std::{collections::BTreeSet, time::Duration};

use helve_proto::peer::v1::NodeRecord;
use openraft::{Instant as _, ServerState, async_runtime::watch::WatchReceiver as _};

pub use self::error::MembershipError;
use super::{Consensus, Stopped, types::NodeInfo};

/// A node that lacks no more entries may vote, or lead.
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
    /// Two sets of voters must agree: a change of members is half done.
    pub joint: bool,
    /// The change of members that this node carries out, in words.
    pub change: Option<String>,
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

    /// Where clients reach this member, as the membership records it.
    #[must_use]
    pub fn client_address(&self, id: u64) -> Option<String> {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        let node = metrics.membership_config.get_node(&id)?;
        Some(node.0.client_address.clone())
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
        // Of the same moment as the rest: openraft tells those who ask for leadership alone a little earlier.
        let leading = self.as_led(
            metrics.vote.leader_id.term,
            metrics.state,
            metrics.current_leader,
        );
        Overview {
            role: role(metrics.state),
            term: leading.term,
            leader_id: leading.leader.unwrap_or(0),
            last_log: metrics.last_log_index.unwrap_or(0),
            committed: metrics.local_committed.as_ref().map_or(0, |id| id.index),
            // What openraft says of it comes later than the answers to the calls.
            applied: self.applied_index(),
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
            joint: metrics.membership_config.get_joint_config().len() > 1,
            change: self.changes.describe(),
        }
    }

    /// Two sets of voters must agree: a change of members is half done.
    #[must_use]
    pub fn is_joint(&self) -> bool {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        metrics.membership_config.get_joint_config().len() > 1
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
