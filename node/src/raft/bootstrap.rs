//! How a node gets its id, without a manual step.
//!
//! A node that was a member before goes on under its id. A pristine one asks every listed peer who it is:
//!
//! - every listed peer is pristine too: the lowest seat initialises the cluster with all of them, each under its seat as its id; the
//!   others wait to be contacted;
//! - somebody is initialised and knows this node's uuid: it will be contacted, and starts under its seat;
//! - somebody is initialised and does not know it: it joins under a new id and takes its seat over, once the seat's former node is
//!   silent. So a wiped node never answers for the votes that it has forgotten;
//! - anything else: it waits, and says for whom. With `--force-bootstrap` it refuses instead: see [`forced`](super::forced).

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use helve_proto::peer::v1::{
    HelloReply, HelloRequest, JoinRequest, NodeRecord, UpdateRecordRequest, join_reply,
};
use tokio::time::timeout;

use super::{
    forced::{Force, Forced, Held, NotForced, refuse},
    identity::Identity,
    strangers::{self, Misplaced},
};

/// How long a peer may take to say who it is.
const HELLO_LIMIT: Duration = Duration::from_secs(1);

/// Between two rounds of questions.
const PAUSE: Duration = Duration::from_millis(100);

/// What helps a cluster whose majority does not come back.
pub const IF_MAJORITY_LOST: &str = "if the disks of a majority are lost for good, stop a node whose data is left, and make a new cluster \
     of it with `helve recover --data-dir DIR`";

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
        let level = strangers::check_level(identity.record(), replies.values());
        level.map_err(NotBegun::Misplaced)?;
        let decision = decide(identity.record(), peers, &replies, force);
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
            Decision::Join(address) => match join(identity, 0, &address).await {
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
    let mut members = replies
        .values()
        .filter(|r| !r.pristine || !r.cluster_id.is_empty())
        .peekable();
    if members.peek().is_some() {
        // One that lags, or was removed, may not know who leads.
        let mut leaders = members.map(|r| &r.leader_peer_address);
        return match leaders.find(|address| !address.is_empty()) {
            Some(leader) => Decision::Join(leader.clone()),
            None => Decision::Wait(format!(
                "the cluster has no leader to join through: start a majority of its nodes; {IF_MAJORITY_LOST}"
            )),
        };
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
    let lowest = replies
        .keys()
        .copied()
        .chain([own.seat])
        .min()
        .unwrap_or(own.seat);
    if lowest != own.seat {
        return Decision::Wait(format!("seat {lowest} makes the cluster"));
    }
    let mut members: BTreeMap<u64, NodeRecord> = replies
        .iter()
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

fn record(reply: &HelloReply, peer_address: &str) -> NodeRecord {
    NodeRecord {
        uuid: reply.uuid.clone(),
        seat: reply.seat,
        peer_address: peer_address.to_owned(),
        client_address: reply.client_address.clone(),
        feature_level: reply.feature_level,
    }
}

/// Whether a peer belongs to another cluster than this node.
pub(super) fn is_stranger(identity: &Identity, reply: &HelloReply) -> bool {
    identity.check_cluster(&reply.cluster_id).is_err()
}

/// Asks all listed peers but this node, at once. Peers that do not answer in time are left out, and
/// those that hold another seat than the list says.
pub(super) async fn hello_all(
    identity: &Identity,
    peers: &BTreeMap<u64, String>,
) -> BTreeMap<u64, HelloReply> {
    let own = identity.record();
    let others = peers.iter().filter(|(seat, _)| **seat != own.seat);
    let asked = others.map(|(seat, address)| async move {
        let reply = hello(identity, address).await?;
        if reply.seat != *seat && !is_stranger(identity, &reply) {
            tracing::error!(
                address,
                listed = seat,
                answered = reply.seat,
                "--peers lists another seat there"
            );
            return None;
        }
        Some((*seat, reply))
    });
    futures::future::join_all(asked)
        .await
        .into_iter()
        .flatten()
        .collect()
}

/// The node that answers at this peer address; `None` if none does in time.
pub(super) async fn hello(identity: &Identity, address: &str) -> Option<HelloReply> {
    let own = identity.record();
    let request = HelloRequest {
        seat: own.seat,
        uuid: own.uuid.clone(),
        cluster_id: identity.cluster_id().as_ref().clone(),
        member_at: identity.member_at(),
        testimony: Some(identity.acknowledged().testimony()),
    };
    let mut client = identity.dialler().client(address);
    let reply = timeout(HELLO_LIMIT, client.hello(request)).await;
    let reply = reply.ok()?.ok()?.into_inner();
    if !is_stranger(identity, &reply) {
        identity.hear(&reply.uuid, reply.testimony.as_ref());
    }
    Some(reply)
}

/// Who answers at these peer addresses, whatever its cluster.
pub async fn who_answers(
    identity: &Identity,
    addresses: impl IntoIterator<Item = String>,
) -> Vec<HelloReply> {
    let asked = addresses
        .into_iter()
        .map(|address| async move { hello(identity, &address).await });
    let replies = futures::future::join_all(asked).await;
    replies.into_iter().flatten().collect()
}

/// Whether this node is where it says it is.
pub async fn is_there(identity: &Identity, node: &NodeRecord) -> bool {
    let reply = hello(identity, &node.peer_address).await;
    reply.is_some_and(|reply| reply.uuid == node.uuid)
}

/// Whether one of these peers knows that this node was removed.
pub async fn is_removed(identity: &Identity, peer_addresses: &[String]) -> bool {
    let asked = peer_addresses.iter().map(|peer| hello(identity, peer));
    let replies = futures::future::join_all(asked).await;
    replies.into_iter().flatten().any(|reply| reply.removed_you)
}

/// Asks the leader for a seat; `node_id` is what an earlier answer gave, 0 for none.
///
/// # Errors
/// Why not now.
pub async fn join(
    identity: &Identity,
    node_id: u64,
    leader_peer_address: &str,
) -> Result<(u64, String), String> {
    let mut client = identity.dialler().client(leader_peer_address);
    let request = JoinRequest {
        node_id,
        node: Some(identity.record().clone()),
        cluster_id: identity.cluster_id().as_ref().clone(),
    };
    let reply = timeout(HELLO_LIMIT * 5, client.join(request)).await;
    let reply = reply.map_err(|_| "the leader does not answer".to_owned())?;
    match reply
        .map_err(|status| status.message().to_owned())?
        .into_inner()
        .result
    {
        Some(join_reply::Result::Joined(joined)) => Ok((joined.node_id, joined.cluster_id)),
        Some(join_reply::Result::Refused(why)) => Err(why),
        Some(join_reply::Result::LeaderPeerAddress(_)) | None => {
            Err("the leader changed".to_owned())
        }
    }
}

/// Tells the leader that this node is not as the membership has it.
///
/// # Errors
/// Why it is not recorded now.
pub async fn update_record(identity: &Identity, leader_peer_address: &str) -> Result<(), String> {
    let silent = || "the leader does not answer".to_owned();
    let leader = hello(identity, leader_peer_address).await;
    let leader = leader.ok_or_else(silent)?;
    let request = UpdateRecordRequest {
        header: Some(identity.header(leader.node_id, &leader.uuid)),
        node: Some(identity.record().clone()),
    };
    let mut client = identity.dialler().client(leader_peer_address);
    let reply = timeout(HELLO_LIMIT * 5, client.update_record(request)).await;
    let reply = reply.map_err(|_| silent())?;
    let refused = reply.map_err(|status| status.message().to_owned())?;
    let refused = refused.into_inner().refused;
    if refused.is_empty() {
        return Ok(());
    }
    Err(refused)
}

/// Finds the leader's peer address through any listed peer.
pub async fn find_leader(identity: &Identity, peers: &BTreeMap<u64, String>) -> Option<String> {
    let replies = hello_all(identity, peers).await;
    replies
        .into_values()
        .filter(|reply| !is_stranger(identity, reply))
        .map(|r| r.leader_peer_address)
        .find(|address| !address.is_empty())
}

#[cfg(test)]
mod tests;
