//! What this node sees of consensus at one moment: its own progress, and on the leader that of the others.

use std::{collections::BTreeSet, time::Duration};

use helve_proto::peer::v1::NodeRecord;
use openraft::{Instant as _, RaftMetrics, ServerState};

use super::{
    leading::Leading,
    types::{NodeInfo, TypeConfig},
};

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
}

impl Overview {
    /// What these metrics say, who leads as this node may rely on it, and the last entry that it has applied.
    pub(super) fn new(metrics: &RaftMetrics<TypeConfig>, leading: Leading, applied: u64) -> Self {
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
        Self {
            role: role(metrics.state),
            term: leading.term,
            leader_id: leading.leader.unwrap_or(0),
            last_log: metrics.last_log_index.unwrap_or(0),
            committed: metrics.local_committed.as_ref().map_or(0, |id| id.index),
            applied,
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
        }
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
