//! What a node asks its peers about who is there: who they are, whether they know it, and to be let in.

use std::{collections::BTreeMap, time::Duration};

use helve_proto::peer::v1::{
    HelloReply, HelloRequest, JoinRequest, NodeRecord, UpdateRecordRequest, join_reply,
};
use tokio::time::timeout;

use crate::identity::Identity;

/// How long a peer may take to say who it is.
const HELLO_LIMIT: Duration = Duration::from_secs(1);

/// Whether a peer belongs to another cluster than this node.
pub(super) fn is_foreign(identity: &Identity, reply: &HelloReply) -> bool {
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
        if reply.seat != *seat && !is_foreign(identity, &reply) {
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
    if !is_foreign(identity, &reply) {
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

/// Refuses, for a node that was started with `--learner`, a cluster of which a member would give it a vote: any of these may lead next.
fn check_admits_learners<'a>(
    identity: &Identity,
    replies: impl IntoIterator<Item = &'a HelloReply>,
) -> Result<(), String> {
    let is_member = |reply: &HelloReply| {
        (!reply.pristine || !reply.cluster_id.is_empty()) && !is_foreign(identity, reply)
    };
    for reply in replies {
        if is_member(reply) && !reply.admits_learners {
            return Err(format!(
                "--learner: the version of the node at seat {} would give this node a vote, once it leads: upgrade that node first",
                reply.seat
            ));
        }
    }
    Ok(())
}

/// Asks the leader for a seat; `node_id` is what an earlier answer gave, 0 for none. A node that was started with `--learner` asks only
/// if the leader gives it no vote, and none of the listed `peers` that answer would.
///
/// # Errors
/// Why not now.
pub async fn join(
    identity: &Identity,
    node_id: u64,
    leader_peer_address: &str,
    peers: &BTreeMap<u64, String>,
) -> Result<(u64, String), String> {
    let silent = || "the leader does not answer".to_owned();
    if identity.is_learner {
        let leader = hello(identity, leader_peer_address).await;
        let leader = leader.ok_or_else(silent)?;
        let listed = hello_all(identity, peers).await;
        let asked = [&leader].into_iter().chain(listed.values());
        check_admits_learners(identity, asked)?;
    }
    let mut client = identity.dialler().client(leader_peer_address);
    let request = JoinRequest {
        node_id,
        node: Some(identity.record().clone()),
        cluster_id: identity.cluster_id().as_ref().clone(),
        learner: identity.is_learner,
        member_at: identity.member_at(),
    };
    let reply = timeout(HELLO_LIMIT * 5, client.join(request)).await;
    let reply = reply.map_err(|_| silent())?;
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

/// Tells the leader that this node is not as the membership has it, but so.
///
/// # Errors
/// Why it is not recorded now.
pub async fn update_record(
    identity: &Identity,
    own: NodeRecord,
    leader_peer_address: &str,
) -> Result<(), String> {
    let silent = || "the leader does not answer".to_owned();
    let leader = hello(identity, leader_peer_address).await;
    let leader = leader.ok_or_else(silent)?;
    let request = UpdateRecordRequest {
        header: Some(identity.header(leader.node_id, &leader.uuid)),
        node: Some(own),
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
        .filter(|reply| !is_foreign(identity, reply))
        .map(|r| r.leader_peer_address)
        .find(|address| !address.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(seat: u64, cluster_id: &str) -> HelloReply {
        HelloReply {
            seat,
            cluster_id: cluster_id.to_owned(),
            ..HelloReply::default()
        }
    }

    #[test]
    fn a_learner_joins_only_if_no_member_would_give_it_a_vote() {
        let identity = Identity::new(NodeRecord::default(), 0, "ours".to_owned());
        let leader = HelloReply {
            admits_learners: true,
            ..of(1, "ours")
        };
        assert_eq!(check_admits_learners(&identity, [&leader]), Ok(()));
        let older = of(2, "ours");
        let refused = check_admits_learners(&identity, [&leader, &older]);
        assert!(
            matches!(&refused, Err(why) if why.contains("at seat 2") && why.contains("upgrade that node")),
            "{refused:?}"
        );
        // One that may be a member, and one that is none.
        let unnamed = of(3, "");
        assert!(check_admits_learners(&identity, [&leader, &unnamed]).is_err());
        let pristine = HelloReply {
            pristine: true,
            ..of(3, "")
        };
        for other in [pristine, of(3, "theirs")] {
            assert_eq!(check_admits_learners(&identity, [&leader, &other]), Ok(()));
        }
    }
}
