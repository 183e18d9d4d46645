//! The cluster as seen from all answers together.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use helve_proto::v1::{Member, NodeStatus, Role, StatusReply};
use serde::Serialize;

use super::{Answer, advice, lags::Lags};
use crate::{
    cli::output::{bytes, table},
    stamp::SKEW_MAX,
};

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
    /// Why it does not answer, or what it warns of.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) warning: String,
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

/// What a node says of itself.
#[derive(Debug, Serialize)]
pub(super) struct Said {
    term: u64,
    leader_id: u64,
    last_log_index: u64,
    committed_index: u64,
    applied_index: u64,
    snapshot_index: u64,
    purged_index: u64,
    clock_ms: u64,
    /// How far its wall clock is from the cluster's time, 0 if that is near.
    wall_off_ms: u64,
    /// How far the wall clocks that a majority agrees on are ahead of the cluster's time; absent: it knows of no such majority.
    #[serde(skip_serializing_if = "Option::is_none")]
    walls_ahead_ms: Option<i64>,
    removal_lag_ms: u64,
    disk_used_bytes: u64,
    disk_free_bytes: u64,
    log_syncs: u64,
    log_entries: u64,
    log_bytes: u64,
    sealed: Sealed,
    /// Under which key; empty for none.
    sealed_key_id: String,
    /// The newest key that it holds; empty for none.
    held_key_id: String,
    version: String,
    pid: u32,
}

/// Whether values are sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Sealed {
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

    fn text(self) -> String {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::UnderWay => "under way",
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
        // Of two views of the members, the one that has applied more is the newer.
        let newest = replies.iter().max_by_key(|reply| applied(reply));
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
        report.next = advice::next(&report);
        report
    }

    fn majority_answers(&self) -> bool {
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
    let mut silent: BTreeMap<&str, &str> = BTreeMap::new();
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
        let why = silent
            .remove(member.client_address.as_str())
            .unwrap_or("not asked");
        nodes.push(unreachable(
            member,
            why,
            lags.known.get(&member.id).copied(),
        ));
    }
    nodes.extend(silent.into_iter().map(|(endpoint, why)| Node {
        role: "unknown",
        client_address: endpoint.to_owned(),
        warning: why.to_owned(),
        ..Node::default()
    }));
    nodes.sort_by(|a, b| {
        (a.id == 0, a.id, &a.client_address).cmp(&(b.id == 0, b.id, &b.client_address))
    });
    nodes
}

fn unreachable(member: &Member, why: &str, lag_entries: Option<u64>) -> Node {
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
        warning: why.to_owned(),
        said: None,
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
    }
}

fn said(node: NodeStatus) -> Said {
    Said {
        term: node.term,
        leader_id: node.leader_id,
        last_log_index: node.last_log_index,
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

/// The report for people.
pub(super) fn text(report: &Report) -> String {
    let columns = [
        "ID", "SEAT", "ROLE", "TERM", "LOG", "APPLIED", "LAG", "SIZE", "LEVEL", "SEALED", "KEY",
        "HEALTH", "ADDRESS",
    ];
    let mut table = table(&columns);
    for node in &report.nodes {
        let known = |count: u64| {
            if count == 0 {
                "-".to_owned()
            } else {
                count.to_string()
            }
        };
        let said = |field: fn(&Said) -> String| node.said.as_ref().map_or("-".into(), field);
        table.add_row([
            known(node.id),
            known(node.seat),
            node.role.to_owned(),
            said(|said| said.term.to_string()),
            said(|said| said.last_log_index.to_string()),
            said(|said| said.applied_index.to_string()),
            node.lag_entries.map_or("-".into(), |lag| lag.to_string()),
            said(|said| bytes(said.disk_used_bytes)),
            known(node.feature_level.into()),
            said(|said| said.sealed.text()),
            said(|said| match said.held_key_id.as_str() {
                "" => "-".to_owned(),
                key_id => key_id.to_owned(),
            }),
            health(node),
            node.client_address.clone(),
        ]);
    }
    let mut page = table.trim_fmt();
    if report.feature_level != 0 {
        page.push_str(&format!("\nfeature level {}", report.feature_level));
    }
    if let Some(time) = time(report) {
        page.push_str("\n");
        page.push_str(&time);
    }
    for next in &report.next {
        page.push_str("\nnext: ");
        page.push_str(next);
    }
    page
}

/// Where the cluster's time is, if that is far from the wall clocks that a majority of the nodes agrees on.
fn time(report: &Report) -> Option<String> {
    let leader = report
        .nodes
        .iter()
        .find(|node| node.id == report.leader_id)?;
    let ahead_ms = leader.said.as_ref()?.walls_ahead_ms?;
    let distance = Duration::from_millis(ahead_ms.unsigned_abs());
    let (where_, how) = if ahead_ms > 0 {
        ("behind", "catches up by up to an hour a second")
    } else {
        ("ahead of", "runs at half speed until they meet")
    };
    (distance > SKEW_MAX).then(|| {
        let seconds = distance.as_secs();
        format!("the cluster's time is {seconds} s {where_} the nodes' wall clocks, and {how}: nothing is to be done")
    })
}

fn health(node: &Node) -> String {
    let health = match node.health {
        Health::Ready => "ready",
        Health::NotReady => "not ready",
        Health::Unreachable => "unreachable",
    };
    if node.warning.is_empty() {
        health.into()
    } else {
        format!("{health}: {}", node.warning)
    }
}
