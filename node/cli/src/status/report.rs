//! The cluster as seen from all answers together.

use std::collections::{BTreeMap, BTreeSet};

use helve_command::ending::Cause;
use helve_proto::v1::{Member, NodeStatus, Role, StatusReply};
use serde::Serialize;

use super::{advice, answer::Answer, lags::Lags};
use crate::diagnosis::{self, Finding};

/// What `helve status` prints.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) cluster_id: String,
    /// Operations above it are not used yet; 0: no node answers.
    pub(super) feature_level: u32,
    /// 0: no answering node knows one.
    pub(super) leader_id: u64,
    /// A leader is known, and a majority of the voters answers.
    pub(super) quorum: bool,
    /// Why there is no quorum, in one word: that of an endpoint where none answers. Absent if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cause: Option<String>,
    /// A change of members is half done: two sets of voters must agree.
    pub(super) joint: bool,
    /// The change of members that is under way; empty if none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) change: String,
    pub(super) nodes: Vec<Node>,
    /// What to do next, the most urgent first.
    pub(super) next: Vec<String>,
}

/// One node. What it did not say is absent.
#[derive(Debug, Default, Serialize)]
pub(super) struct Node {
    pub(super) id: u64,
    pub(super) seat: u64,
    /// `leader`, `follower`, `candidate`, `learner`, `pristine`, `stopping`, `removed` or `unknown`.
    pub(super) role: &'static str,
    pub(super) health: Health,
    pub(super) voter: bool,
    pub(super) client_address: String,
    pub(super) peer_address: String,
    /// The newest level that its version supports: as it says, or as the membership records; 0: unknown.
    pub(super) feature_level: u32,
    /// Committed entries that it has not applied, by its own answer and the leader's; of a node that does not answer, entries that it
    /// lacks as far as the leader knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lag_entries: Option<u64>,
    /// Why it does not answer, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cause: Option<String>,
    /// Why it does not answer, or what it warns of.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) warning: String,
    /// What to do about a node that does not answer.
    #[serde(skip)]
    pub(super) remedy: Option<Remedy>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) said: Option<Said>,
}

/// How a node is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Health {
    Ready,
    NotReady,
    #[default]
    Unreachable,
}

/// What to do about a node that does not answer.
#[derive(Debug, Clone)]
pub(super) enum Remedy {
    /// The node, its machine or the way to it is at fault.
    Node,
    /// The command is at fault: so.
    Command(String),
}

/// What a node says of itself.
#[derive(Debug, Serialize)]
pub(super) struct Said {
    pub(super) term: u64,
    leader_id: u64,
    pub(super) last_log_index: u64,
    /// The term of that entry; 0: a version that does not say.
    pub(super) last_log_term: u64,
    committed_index: u64,
    pub(super) applied_index: u64,
    snapshot_index: u64,
    purged_index: u64,
    clock_ms: u64,
    /// How far its wall clock is from the cluster's time, 0 if that is near.
    wall_off_ms: u64,
    /// How far the wall clocks that a majority agrees on are ahead of the cluster's time; absent: it knows of no such majority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) walls_ahead_ms: Option<i64>,
    removal_lag_ms: u64,
    pub(super) disk_used_bytes: u64,
    disk_free_bytes: u64,
    log_syncs: u64,
    log_entries: u64,
    log_bytes: u64,
    pub(super) sealed: Sealed,
    /// Under which key; empty for none.
    sealed_key_id: String,
    /// The newest key that it holds; empty for none.
    pub(super) held_key_id: String,
    version: String,
    pid: u32,
}

/// Whether values are sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Sealed {
    Yes,
    No,
    /// A change of the key, or the end of sealing, is not carried out everywhere yet.
    UnderWay,
}

impl Sealed {
    fn of(node: &NodeStatus) -> Self {
        match (node.sealing_under_way, node.sealed_key_id.as_str()) {
            (true, _) => Self::UnderWay,
            (false, "") => Self::No,
            (false, _) => Self::Yes,
        }
    }

    pub(super) fn text(self) -> String {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::UnderWay => "partly",
        }
        .to_owned()
    }
}

impl Report {
    pub(super) fn new(answers: &[Answer]) -> Self {
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
            nodes: nodes(answers, &members, &Lags::new(&replies)),
            next: Vec::new(),
        };
        report.quorum = report.leader_id != 0 && report.majority_answers();
        report.cause = report.no_quorum(answers);
        report.next = advice::next(&report);
        report
    }

    fn no_quorum(&self, answers: &[Answer]) -> Option<String> {
        let findings = answers.iter().map(|answer| answer.reply.as_ref().map(drop));
        let findings = findings.map(|reply| reply.map_err(Clone::clone)).collect();
        match (self.quorum, diagnosis::worst(findings)) {
            (true, _) => None,
            (false, Some(caused)) => Some(caused.cause.word()),
            (false, None) => Some(Cause::NoQuorum.word()),
        }
    }

    /// The addresses of nodes that are not ready, or do not answer.
    pub(super) fn unready(&self) -> Vec<String> {
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
        unready.map(named).collect()
    }

    pub(super) fn majority_answers(&self) -> bool {
        let voters = self.nodes.iter().filter(|node| node.voter);
        let (all, answering) = voters.fold((0, 0), |(all, answering), node| {
            (
                all + 1,
                answering + usize::from(node.health != Health::Unreachable),
            )
        });
        answering * 2 > all
    }
}

fn applied(reply: &StatusReply) -> u64 {
    reply.node.as_ref().map_or(0, |node| node.applied_index)
}

fn nodes(answers: &[Answer], members: &[Member], lags: &Lags) -> Vec<Node> {
    let mut nodes = Vec::new();
    let mut seen = BTreeSet::new();
    let by_id: BTreeMap<_, _> = members.iter().map(|member| (member.id, member)).collect();
    let mut silent: BTreeMap<&str, &Finding> = BTreeMap::new();
    for answer in answers {
        match &answer.reply {
            Ok(reply) => {
                let status = reply.node.clone().unwrap_or_default();
                // One node under two endpoints is one line; pristine nodes have no id yet.
                if seen.insert((status.id, status.client_address.clone())) {
                    let member = by_id.get(&status.id).copied();
                    let lag = member.and_then(|_| lags.of(&status));
                    nodes.push(answering(answer, status, member, lag));
                }
            }
            Err(why) => {
                silent.insert(&answer.endpoint, why);
            }
        }
    }
    let heard: BTreeSet<u64> = seen.iter().map(|(id, _)| *id).collect();
    for member in members.iter().filter(|member| !heard.contains(&member.id)) {
        let why = silent.remove(member.client_address.as_str());
        nodes.push(unreachable(
            member,
            why,
            lags.known.get(&member.id).copied(),
        ));
    }
    nodes.extend(silent.into_values().map(|why| Node {
        role: "unknown",
        client_address: why.endpoint.clone(),
        ..silent_for(Some(why))
    }));
    nodes.sort_by(|a, b| {
        (a.id == 0, a.id, &a.client_address).cmp(&(b.id == 0, b.id, &b.client_address))
    });
    nodes
}

/// A node that does not answer, and why.
fn silent_for(why: Option<&Finding>) -> Node {
    let remedy = why.map_or(Remedy::Node, |why| {
        if why.is_of_node() {
            Remedy::Node
        } else {
            Remedy::Command(why.next.clone())
        }
    });
    Node {
        cause: why.map(|why| why.cause.word()),
        warning: why.map_or_else(|| "not asked".to_owned(), |why| why.problem.clone()),
        remedy: Some(remedy),
        ..Node::default()
    }
}

fn unreachable(member: &Member, why: Option<&Finding>, lag_entries: Option<u64>) -> Node {
    Node {
        id: member.id,
        seat: member.seat,
        role: "unknown",
        health: Health::Unreachable,
        voter: member.voter,
        client_address: member.client_address.clone(),
        peer_address: member.peer_address.clone(),
        feature_level: member.feature_level,
        lag_entries,
        ..silent_for(why)
    }
}

fn answering(
    answer: &Answer,
    node: NodeStatus,
    member: Option<&Member>,
    lag_entries: Option<u64>,
) -> Node {
    let client_address = if node.client_address.is_empty() {
        answer.endpoint.clone()
    } else {
        node.client_address.clone()
    };
    Node {
        id: node.id,
        seat: node.seat,
        role: role(node.role()),
        health: if node.ready {
            Health::Ready
        } else {
            Health::NotReady
        },
        voter: member.is_some_and(|member| member.voter),
        client_address,
        peer_address: node.peer_address.clone(),
        feature_level: node.feature_level,
        lag_entries,
        warning: node.warning.clone(),
        said: Some(said(node)),
        ..Node::default()
    }
}

fn said(node: NodeStatus) -> Said {
    Said {
        term: node.term,
        leader_id: node.leader_id,
        last_log_index: node.last_log_index,
        last_log_term: node.last_log_term,
        committed_index: node.committed_index,
        applied_index: node.applied_index,
        snapshot_index: node.snapshot_index,
        purged_index: node.purged_index,
        clock_ms: node.clock_ms,
        wall_off_ms: node.wall_off_ms,
        walls_ahead_ms: node.walls_ahead_ms,
        removal_lag_ms: node.removal_lag_ms,
        disk_used_bytes: node.disk_used_bytes,
        disk_free_bytes: node.disk_free_bytes,
        log_syncs: node.log_syncs,
        log_entries: node.log_entries,
        log_bytes: node.log_bytes,
        sealed: Sealed::of(&node),
        sealed_key_id: node.sealed_key_id,
        held_key_id: node.held_key_id,
        version: node.version,
        pid: node.pid,
    }
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Leader => "leader",
        Role::Follower => "follower",
        Role::Candidate => "candidate",
        Role::Learner => "learner",
        Role::Pristine => "pristine",
        Role::Stopping => "stopping",
        Role::Removed => "removed",
        Role::Unspecified => "unknown",
    }
}
