//! How far nodes are behind: by their own word, not by what the leader believes.

use std::collections::BTreeMap;

use helve_proto::v1::{NodeStatus, Role, StatusReply};

/// How far nodes are behind.
pub(super) struct Lags {
    /// Up to where the log is committed, if the leader answers.
    committed: Option<u64>,
    /// What the leader knows of the others; followers leave it out.
    pub(super) known: BTreeMap<u64, u64>,
}

impl Lags {
    /// From all answers together.
    pub(super) fn new(replies: &[&StatusReply]) -> Self {
        let members = replies.iter().flat_map(|reply| &reply.members);
        let nodes = replies.iter().filter_map(|reply| reply.node.as_ref());
        let leader = nodes
            .filter(|node| node.role() == Role::Leader)
            .max_by_key(|node| node.term);
        Self {
            committed: leader.map(|node| node.committed_index),
            known: members
                .filter_map(|member| Some((member.id, member.lag_entries?)))
                .collect(),
        }
    }

    /// Committed entries that an answering node has not applied. What the leader believes of a node may be out of date; what the node says of itself is not.
    pub(super) fn of(&self, node: &NodeStatus) -> Option<u64> {
        let committed = self.committed?;
        Some(committed.saturating_sub(node.applied_index))
    }
}
