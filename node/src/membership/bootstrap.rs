//! How a node gets its id, without a manual step.
//!
//! A node that was a member before goes on under its id. A pristine one asks every listed peer who it is:
//!
//! - every listed peer is pristine too: the lowest seat initialises the cluster with all of them, each under its seat as its id; the
//!   others wait to be contacted;
//! - somebody is initialised and knows this node's uuid: it will be contacted, and starts under its seat;
//! - somebody is initialised and does not know it: it joins under a new id and takes its seat over, once the seat's former node is
//!   silent. So a wiped node never answers for the votes that it has forgotten;
//! - it was started with `--learner`: it founds no cluster, and waits until it can join one;
//! - anything else: it waits, and says for whom. With `--force-bootstrap` it refuses instead: see [`forced`](super::forced).

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use helve_proto::peer::v1::{HelloReply, NodeRecord};

use super::{
    forced::{Force, Forced, Held, NotForced, refuse},
    hello::{hello_all, join},
    misplaced::{self, Misplaced},
};
use crate::identity::Identity;

/// Between two rounds of questions.
const PAUSE: Duration = Duration::from_millis(100);

/// What helps a cluster whose majority does not come back.
pub const IF_MAJORITY_LOST: &str = "if the disks of a majority are lost for good, stop a node whose data is left, and make a new cluster \
     of it with `helve recover --data-dir DIR`";

/// What a leader says, as the beginning of its warning, that hears no majority.
pub const MAJORITY_SILENT: &str = "a majority of the nodes does not answer this leader";

/// How a pristine node begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Beginning {
    /// It initialises the cluster with these members, itself among them.
    Initialise(BTreeMap<u64, NodeRecord>),
    /// It will be contacted under its seat as its id.
    Await,
    /// It was given this id in this cluster, and is to be made a member there.
    Joined {
        /// The new id.
        node_id: u64,
        /// The cluster.
        cluster_id: String,
    },
}

/// Why a pristine node does not begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotBegun {
    /// It must not be here.
    Misplaced(Misplaced),
    /// It was to make a cluster, and must not.
    NotForced(NotForced),
}

/// Asks until it is clear how this pristine node begins. `peers` are the listed seats and their peer addresses.
///
/// # Errors
/// If the peers' cluster is beyond this version, or a cluster is to be forced and must not be.
pub async fn begin(
    identity: &Identity,
    peers: &BTreeMap<u64, String>,
    force: Force,
) -> Result<Beginning, NotBegun> {
    let mut held = Held::default();
    loop {
        let replies = hello_all(identity, peers).await;
        let level = misplaced::check_level(identity.record(), replies.values());
        level.map_err(NotBegun::Misplaced)?;
        let decision = if identity.is_learner {
            decide_as_learner(&replies)
        } else {
            decide(identity.record(), peers, &replies, force)
        };
        let forced = match &decision {
            Decision::Forced(forced) => Some(forced.clone()),
            _ => None,
        };
        if let Some(forced) = held.settle(forced, Instant::now()) {
            return forced.map_err(NotBegun::NotForced);
        }
        // It was a member, and its disk does not know.
        if let Some(why) = identity.put_back() {
            identity.set_waits_for(&why);
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        let waiting = match decision {
            Decision::Begin(beginning) => {
                identity.set_waits_for("");
                return Ok(beginning);
            }
            Decision::Forced(Ok(_)) => {
                "it is about to make a new, empty cluster, as --force-bootstrap says".to_owned()
            }
            Decision::Forced(Err(why)) => why.to_string(),
            Decision::Join(address) => match join(identity, 0, &address, peers).await {
                Ok((node_id, cluster_id)) => {
                    return Ok(Beginning::Joined {
                        node_id,
                        cluster_id,
                    });
                }
                Err(why) => why,
            },
            Decision::Wait(why) => why,
        };
        identity.set_waits_for(&waiting);
        tokio::time::sleep(PAUSE).await;
    }
}

enum Decision {
    Begin(Beginning),
    Forced(Forced),
    Join(String),
    Wait(String),
}

fn decide(
    own: &NodeRecord,
    peers: &BTreeMap<u64, String>,
    replies: &BTreeMap<u64, HelloReply>,
    force: Force,
) -> Decision {
    if replies.values().any(|r| r.knows_you) {
        return Decision::Begin(Beginning::Await);
    }
    let answered = replies.iter().map(|(seat, reply)| (*seat, reply));
    let mut refusals = answered.filter_map(|of| refuse(force, of, peers.get(&of.0)));
    if let Some(refusal) = refusals.next() {
        return Decision::Forced(Err(refusal));
    }
    if let Some(decision) = join_members(replies) {
        return decision;
    }
    let silent: Vec<u64> = peers
        .keys()
        .copied()
        .filter(|s| *s != own.seat && !replies.contains_key(s))
        .collect();
    if !silent.is_empty() && force == Force::No {
        return Decision::Wait(format!(
            "no answer from seats {silent:?}; a new cluster is made once every listed peer has answered \
             (if the data of one of them is left: start it, or make a new cluster of it with `helve recover`; only if nothing is left \
             anywhere: --force-bootstrap=everything-is-lost, which begins with an empty cluster)"
        ));
    }
    if !silent.is_empty() && force == Force::Asked {
        return Decision::Forced(Err(NotForced::Silent { silent }));
    }
    // One that never votes is no founder: it joins later.
    let founders = || replies.iter().filter(|(_, reply)| !reply.learner);
    let lowest = founders()
        .map(|(seat, _)| *seat)
        .chain([own.seat])
        .min()
        .unwrap_or(own.seat);
    if lowest != own.seat {
        return Decision::Wait(format!("seat {lowest} makes the cluster"));
    }
    let mut members: BTreeMap<u64, NodeRecord> = founders()
        .filter_map(|(seat, reply)| Some((*seat, record(reply, peers.get(seat)?))))
        .collect();
    members.insert(own.seat, own.clone());
    let beginning = Beginning::Initialise(members);
    if silent.is_empty() {
        Decision::Begin(beginning)
    } else {
        Decision::Forced(Ok(beginning))
    }
}

/// How a node joins that meets members of a cluster; `None` if none answers.
fn join_members(replies: &BTreeMap<u64, HelloReply>) -> Option<Decision> {
    let mut members = replies
        .values()
        .filter(|r| !r.pristine || !r.cluster_id.is_empty())
        .peekable();
    members.peek()?;
    // One that lags, or was removed, may not know who leads.
    let mut leaders = members.map(|r| &r.leader_peer_address);
    Some(match leaders.find(|address| !address.is_empty()) {
        Some(leader) => Decision::Join(leader.clone()),
        None => Decision::Wait(format!(
            "the cluster has no leader to join through: start a majority of its nodes; {IF_MAJORITY_LOST}"
        )),
    })
}

/// What a pristine node does that was started with `--learner`.
fn decide_as_learner(replies: &BTreeMap<u64, HelloReply>) -> Decision {
    if replies.values().any(|r| r.knows_you) {
        return Decision::Wait(
            "the cluster was made with this node as a voter, and --learner says that it never votes: start it without --learner"
                .to_owned(),
        );
    }
    join_members(replies).unwrap_or_else(|| {
        Decision::Wait(
            "--learner: it joins a cluster, and no node of one answers: start the voters that --peers lists".to_owned(),
        )
    })
}

fn record(reply: &HelloReply, peer_address: &str) -> NodeRecord {
    NodeRecord {
        uuid: reply.uuid.clone(),
        seat: reply.seat,
        peer_address: peer_address.to_owned(),
        client_address: reply.client_address.clone(),
        feature_level: reply.feature_level,
    }
}

#[cfg(test)]
mod tests;
