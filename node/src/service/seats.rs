//! How a node without state gets a seat: an id first, and once it runs under that, membership. And
//! how a member that came back with another address or version is recorded again.

use helve_proto::peer::v1::{JoinRequest, Joined, NodeRecord};

use super::{node_ids, peer::Running};
use crate::{
    identity::Identity,
    membership::{
        MembershipError,
        change::Voting,
        hello,
        records::{self, RecordError, TooOld},
        seats::Admission,
    },
    raft::Consensus,
};

/// Why a node gets no seat now.
#[derive(Debug, thiserror::Error)]
pub(super) enum JoinError {
    /// Its version cannot apply what the log may hold.
    #[error(transparent)]
    TooOld(#[from] TooOld),
    /// The membership cannot be changed so.
    #[error(transparent)]
    Membership(#[from] MembershipError),
}

/// A node without an id gets one; a node that runs under its id is made a member. `node` is the one that asks.
pub(super) async fn join(
    running: &Running,
    identity: &Identity,
    asker: &JoinRequest,
    node: NodeRecord,
) -> Result<Joined, JoinError> {
    let node_id = asker.node_id;
    let consensus = &running.consensus;
    if !consensus.leading().here {
        return Err(MembershipError::NotLeading.into());
    }
    records::check_level(consensus, &node)?;
    let joined = |node_id| Joined {
        node_id,
        cluster_id: identity.cluster_id().as_ref().clone(),
    };
    let members = consensus.members();
    match members.by_uuid(&node.uuid) {
        Some((id, _)) if members.voters().contains(&id) => return Ok(joined(id)),
        // No change brings it back that lets a new node in at its seat: it may not have noticed yet that it was removed.
        None if asker.member_at != 0 => return Err(MembershipError::Removed.into()),
        _ => {}
    }
    let changes = &running.changes;
    let voting = if asker.learner {
        Voting::Learner
    } else {
        Voting::Voter
    };
    let admission = changes.admission(&node, voting)?;
    if !hello::is_there(identity, &node).await {
        return Err(MembershipError::NotThere(node.peer_address).into());
    }
    if node_id == 0 {
        let id = node_ids::allocate(consensus, &running.proposer).await?;
        return Ok(joined(id));
    }
    match admission {
        Admission::Vacant => {
            // A change that has begun must end, even if the asker gives up.
            let changes = changes.clone();
            let seated = tokio::spawn(async move { changes.take_over(node_id, node).await });
            let stopped = |_| MembershipError::NotCommitted("this node is stopping".to_owned());
            seated.await.map_err(stopped)??;
            Ok(joined(node_id))
        }
        Admission::Wanted => {
            changes.offer(node_id, node);
            Err(MembershipError::Busy("this node is let in".to_owned()).into())
        }
    }
}

/// A member is recorded as it is now.
pub(super) async fn record(
    consensus: Consensus,
    id: u64,
    node: NodeRecord,
) -> Result<(), RecordError> {
    // A change that has begun must end, even if the asker gives up.
    let recorded = tokio::spawn(async move { records::record_member(&consensus, id, node).await });
    let stopped = |_| RecordError::NotCommitted("this node is stopping".to_owned());
    recorded.await.map_err(stopped)?
}
