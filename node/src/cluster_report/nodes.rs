//! The nodes of a cluster, each as it says of itself, or as others know it.

use std::collections::{BTreeMap, BTreeSet};

use helve_proto::v1::{Member, NodeStatus, Role};
use serde::Serialize;

use super::{
    answer::{Answer, Remedy, Silence},
    lags::Lags,
};

/// One node. What it did not say is absent.
#[derive(Debug, Default, Serialize)]
pub struct Node {
    /// Its id for life; 0: none yet, or not known.
    pub id: u64,
    /// Its place in `--peers`; 0: not known.
    pub seat: u64,
    /// `leader`, `follower`, `candidate`, `learner`, `pristine`, `stopping`, `removed` or `unknown`.
    pub role: &'static str,
    /// Whether it serves.
    pub health: Health,
    /// Whether it is a voter, as the newest membership has it.
    pub voter: bool,
    /// `HOST:PORT` for clients.
    pub client_address: String,
    /// `HOST:PORT` for nodes; empty: not known.
    pub peer_address: String,
    /// The newest level that its version supports: as it says, or as the membership records; 0: unknown.
    pub feature_level: u32,
    /// The level at which it holds the cluster; 0: it does not.
    pub held_level: u32,
    /// Committed entries that it has not applied, by its own answer and the leader's; of a node that does not answer, entries that it
    /// lacks as far as the leader knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_entries: Option<u64>,
    /// Why it does not answer, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Why it does not answer, or what it warns of.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub warning: String,
    /// What to do about a node that does not answer.
    #[serde(skip)]
    pub remedy: Option<Remedy>,
    /// Another node answers at its address: the process there has not its data.
    #[serde(skip)]
    pub is_gone: bool,
    /// What it says of itself; absent of a node that does not answer.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub said: Option<Said>,
}

/// How a node is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// It serves.
    Ready,
    /// It answers, and does not serve: its warning says why.
    NotReady,
    /// It does not answer.
    #[default]
    Unreachable,
}

/// What a node says of itself.
#[derive(Debug, Serialize)]
pub struct Said {
    /// Its term.
    pub term: u64,
    leader_id: u64,
    /// The last entry of its log.
    pub last_log_index: u64,
    /// The term of that entry; 0: a version that does not say.
    pub last_log_term: u64,
    committed_index: u64,
    /// The last entry that it has applied.
    pub applied_index: u64,
    snapshot_index: u64,
    purged_index: u64,
    clock_ms: u64,
    /// How far its wall clock is from the cluster's time, 0 if that is near.
    wall_off_ms: u64,
    /// How far the wall clocks that a majority agrees on are ahead of the cluster's time; absent: it knows of no such majority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub walls_ahead_ms: Option<i64>,
    removal_lag_ms: u64,
    /// Bytes of its log and rows.
    pub disk_used_bytes: u64,
    disk_free_bytes: u64,
    /// Bytes that must stay free; below them only what frees space is admitted. 0: a version that does not say.
    disk_reserve_bytes: u64,
    log_syncs: u64,
    log_entries: u64,
    log_bytes: u64,
    /// Whether values are sealed, as it has applied it.
    pub sealed: Sealed,
    /// Under which key; empty for none.
    sealed_key_id: String,
    /// The newest key that it holds; empty for none.
    pub held_key_id: String,
    version: String,
    pid: u32,
}

/// Whether values are sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sealed {
    /// All are.
    Yes,
    /// None is.
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

    /// The word for it in a table.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::UnderWay => "partly",
        }
    }
}

impl Node {
    /// Whether it answers, and may vote: not as one whose disk was put back, which says of itself that it waits, although it is a member.
    #[must_use]
    pub fn takes_part(&self) -> bool {
        let waits = matches!(self.role, "pristine" | "removed" | "stopping");
        self.health != Health::Unreachable && !waits
    }

    /// Whether this node answers where a member is expected.
    fn is_at(&self, member: &Member) -> bool {
        let same = |own: &str, its: &str| !its.is_empty() && own == its;
        self.said.is_some()
            && (same(&self.client_address, &member.client_address)
                || same(&self.peer_address, &member.peer_address))
    }
}

/// A line for each node that answers, that the members name, or that was asked in vain; by id.
pub(super) fn nodes<S: Silence>(
    answers: &[Answer<S>],
    members: &[Member],
    lags: &Lags,
) -> Vec<Node> {
    let mut nodes = Vec::new();
    let mut seen = BTreeSet::new();
    let by_id: BTreeMap<_, _> = members.iter().map(|member| (member.id, member)).collect();
    let mut silent: BTreeMap<&str, &S> = BTreeMap::new();
    for answer in answers {
        match &answer.reply {
            Ok(reply) => {
                let status = reply.node.clone().unwrap_or_default();
                // One node under two endpoints is one line; pristine nodes have no id yet.
                if seen.insert((status.id, status.client_address.clone())) {
                    let member = by_id.get(&status.id).copied();
                    let lag = member.and_then(|_| lags.of(&status));
                    nodes.push(answering(&answer.endpoint, status, member, lag));
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
        let lag = lags.known.get(&member.id).copied();
        let in_its_place = nodes.iter().find(|node| node.is_at(member));
        let node = match in_its_place {
            Some(other) => gone::<S>(member, other, lag),
            None => unreachable(member, why, lag),
        };
        nodes.push(node);
    }
    nodes.extend(silent.into_iter().map(|(endpoint, why)| Node {
        role: "unknown",
        client_address: endpoint.to_owned(),
        ..silent_for(Some(why))
    }));
    nodes.sort_by(|a, b| {
        (a.id == 0, a.id, &a.client_address).cmp(&(b.id == 0, b.id, &b.client_address))
    });
    nodes
}

/// A node that does not answer, and why.
fn silent_for<S: Silence>(why: Option<&S>) -> Node {
    Node {
        cause: why.map(Silence::cause),
        warning: why.map_or_else(|| "not asked".to_owned(), Silence::problem),
        remedy: Some(why.map_or(Remedy::Node, Silence::remedy)),
        ..Node::default()
    }
}

fn unreachable<S: Silence>(member: &Member, why: Option<&S>, lag_entries: Option<u64>) -> Node {
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

/// A member at whose address another node answers: one with an empty directory, or one that takes its seat over.
fn gone<S: Silence>(member: &Member, in_its_place: &Node, lag_entries: Option<u64>) -> Node {
    let other = match in_its_place.id {
        0 => "a node with an empty directory".to_owned(),
        id => format!("node {id}"),
    };
    Node {
        warning: format!(
            "the data of node {} is not there: {other} runs in its place",
            member.id
        ),
        remedy: None,
        is_gone: true,
        cause: None,
        ..unreachable(member, None::<&S>, lag_entries)
    }
}

fn answering(
    endpoint: &str,
    node: NodeStatus,
    member: Option<&Member>,
    lag_entries: Option<u64>,
) -> Node {
    let client_address = if node.client_address.is_empty() {
        endpoint.to_owned()
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
        held_level: node.held_level,
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
        disk_reserve_bytes: node.disk_reserve_bytes,
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
