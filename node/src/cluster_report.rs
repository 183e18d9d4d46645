//! The cluster as the answers of its nodes show it, and the next command to type: `helve status` and the console say the same.

mod advice;
mod answer;
mod clusters;
mod lags;
mod nodes;

use std::collections::BTreeSet;

use helve_proto::v1::StatusReply;
use serde::Serialize;

use self::lags::Lags;
pub use self::{
    answer::{Answer, Remedy, Silence},
    clusters::mixed,
    nodes::{Health, Node, Said, Sealed},
};
use crate::membership::bootstrap::MAJORITY_SILENT;

/// Why there is no quorum, where nodes answer.
const NO_QUORUM: &str = "no_quorum";

/// The cluster as all answers together show it: what `helve status` prints.
#[derive(Debug, Serialize)]
pub struct Report {
    /// A UUID; empty: no node answers that is in a cluster.
    pub cluster_id: String,
    /// Operations above it are not used yet; 0: no node answers.
    pub feature_level: u32,
    /// 0: no answering node knows one.
    pub leader_id: u64,
    /// A leader is known, a majority of the voters answers and takes part, and the leader does not say that it hears no majority.
    pub quorum: bool,
    /// Why there is no quorum, in one word: that of an endpoint where none answers. Absent if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// A change of members is half done: two sets of voters must agree.
    pub joint: bool,
    /// The change of members that is under way; empty if none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub change: String,
    /// By id.
    pub nodes: Vec<Node>,
    /// Which endpoint is of which cluster, if they are of several. Then the nodes are those of all, and all else is of one of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mixed: Option<String>,
    /// What to do next, the most urgent first.
    pub next: Vec<String>,
}

impl Report {
    /// Puts the answers together.
    #[must_use]
    pub fn new<S: Silence>(answers: &[Answer<S>]) -> Self {
        let replies: Vec<_> = answers
            .iter()
            .filter_map(|a| a.reply.as_ref().ok())
            .collect();
        // Of two views of the members, the one that has applied more is the newer. A node without data
        // has none.
        let newest = replies
            .iter()
            .max_by_key(|reply| (!reply.members.is_empty(), applied(reply)));
        let members = newest
            .map(|reply| reply.members.clone())
            .unwrap_or_default();
        let leader = replies
            .iter()
            .filter_map(|reply| reply.node.as_ref())
            .filter(|node| node.leader_id != 0)
            .max_by_key(|node| node.term);
        let mut report = Self {
            cluster_id: newest
                .map(|reply| reply.cluster_id.clone())
                .unwrap_or_default(),
            feature_level: newest.map_or(0, |reply| reply.feature_level),
            leader_id: leader.map_or(0, |node| node.leader_id),
            quorum: false,
            cause: None,
            joint: newest.is_some_and(|reply| reply.joint),
            change: replies
                .iter()
                .find(|reply| !reply.change.is_empty())
                .map(|reply| reply.change.clone())
                .unwrap_or_default(),
            nodes: nodes::nodes(answers, &members, &Lags::new(&replies)),
            mixed: mixed(answers),
            next: Vec::new(),
        };
        report.quorum = report.leader_id != 0
            && report.majority_takes_part()
            && !report.leader_is_gone()
            && !report.leader_is_alone();
        report.cause = report.no_quorum(answers);
        report.next = advice::next(&report);
        report
    }

    fn no_quorum<S: Silence>(&self, answers: &[Answer<S>]) -> Option<String> {
        let silent: Option<Vec<&S>> = answers.iter().map(|a| a.reply.as_ref().err()).collect();
        // What another command mends is more telling than what may pass.
        let worst = silent.and_then(|all| all.into_iter().min_by_key(|why| why.may_pass()));
        match (self.quorum, worst) {
            (true, _) => None,
            (false, Some(why)) => Some(why.cause()),
            (false, None) => Some(NO_QUORUM.to_owned()),
        }
    }

    /// The addresses of nodes that are not ready, or do not answer.
    #[must_use]
    pub fn unready(&self) -> Vec<String> {
        let unready = self
            .nodes
            .iter()
            .filter(|node| node.health != Health::Ready);
        let named = |node: &Node| match &*node.client_address {
            "" => format!(
                "node {} (seat {}), which names no client address",
                node.id, node.seat
            ),
            address => address.to_owned(),
        };
        // A member that is gone has the address of the node in its place.
        let named: BTreeSet<String> = unready.map(named).collect();
        named.into_iter().collect()
    }

    /// Whether a majority of the voters answers and takes part.
    #[must_use]
    pub fn majority_takes_part(&self) -> bool {
        let voters = self.nodes.iter().filter(|node| node.voter);
        let (all, taking_part) = voters.fold((0, 0), |(all, taking_part), node| {
            (all + 1, taking_part + usize::from(node.takes_part()))
        });
        taking_part * 2 > all
    }

    /// Whether a majority of the voters is not gone: it can take part once it runs.
    fn majority_is_left(&self) -> bool {
        let voters = || self.nodes.iter().filter(|node| node.voter);
        let left = voters().filter(|node| !node.is_gone);
        left.count() * 2 > voters().count()
    }

    /// Whether the leader that nodes name has lost its data: they have not noticed yet.
    fn leader_is_gone(&self) -> bool {
        let mut leaders = self.nodes.iter().filter(|node| node.id == self.leader_id);
        leaders.any(|leader| leader.is_gone)
    }

    /// Whether the leader says that a majority does not answer it: this command may reach nodes that the leader does not.
    fn leader_is_alone(&self) -> bool {
        let mut leaders = self.nodes.iter().filter(|node| node.id == self.leader_id);
        leaders.any(|leader| {
            leader.health == Health::NotReady && leader.warning.contains(MAJORITY_SILENT)
        })
    }
}

fn applied(reply: &StatusReply) -> u64 {
    reply.node.as_ref().map_or(0, |node| node.applied_index)
}
