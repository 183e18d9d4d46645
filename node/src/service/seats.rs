//! How a node without state comes to a seat: an id first, and once it runs under that, membership.

use std::time::Duration;

use helve_proto::{
    command::v1::{AllocateNodeId, Command, command::Operation, outcome::Outcome as Kind},
    peer::v1::{Joined, NodeRecord},
};
use tokio::time::Instant;

use super::peer::Running;
use crate::{
    raft::{identity::Identity, membership::MembershipError},
    read_index::own_command,
};

/// A node without an id gets one; a node that runs under its id is made a member.
pub(super) async fn join(
    running: &Running,
    identity: &Identity,
    node_id: u64,
    node: NodeRecord,
) -> Result<Joined, MembershipError> {
    if !running.consensus.leading().here {
        return Err(MembershipError::NotLeading);
    }
    let cluster_id = identity.cluster_id().as_ref().clone();
    if node_id != 0 {
        // A change that has begun must end, even if the asker gives up.
        let consensus = running.consensus.clone();
        let seated = tokio::spawn(async move { consensus.seat(node_id, node).await });
        let stopped = |_| MembershipError::NotCommitted("this node is stopping".to_owned());
        seated.await.map_err(stopped)??;
        return Ok(Joined {
            node_id,
            cluster_id,
        });
    }
    running.consensus.seat_is_free(node.seat)?;
    let taken_max = running.consensus.highest_member();
    let command: Command = own_command(Operation::AllocateNodeId(AllocateNodeId { taken_max }));
    let deadline = Instant::now() + Duration::from_secs(3);
    let outcome = running.proposer.propose(command, deadline).await;
    match outcome
        .map_err(|e| MembershipError::NotCommitted(e.to_string()))?
        .outcome
    {
        Some(Kind::AllocateNodeId(allocated)) => Ok(Joined {
            node_id: allocated.id,
            cluster_id,
        }),
        other => Err(MembershipError::NotCommitted(format!(
            "unexpected outcome {other:?}"
        ))),
    }
}
