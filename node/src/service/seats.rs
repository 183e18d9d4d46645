//! How a node without state comes to a seat: an id first, and once it runs under that, membership. And how a member that came back with
//! another address or version is recorded anew.

use std::time::Duration;

use helve_proto::{
    command::v1::{AllocateNodeId, Command, command::Operation, outcome::Outcome as Kind},
    peer::v1::{Joined, NodeRecord},
};
use tokio::time::Instant;

use super::peer::Running;
use crate::{
    raft::{
        Consensus,
        identity::Identity,
        membership::MembershipError,
        records::{RecordError, TooOld},
    },
    read_index::own_command,
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

/// A node without an id gets one; a node that runs under its id is made a member.
pub(super) async fn join(
    running: &Running,
    identity: &Identity,
    node_id: u64,
    node: NodeRecord,
) -> Result<Joined, JoinError> {
    if !running.consensus.leading().here {
        return Err(MembershipError::NotLeading.into());
    }
    running.consensus.check_level(&node)?;
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
        other => {
            let unexpected = format!("unexpected outcome {other:?}");
            Err(MembershipError::NotCommitted(unexpected).into())
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
    let recorded = tokio::spawn(async move { consensus.record_member(id, node).await });
    let stopped = |_| RecordError::NotCommitted("this node is stopping".to_owned());
    recorded.await.map_err(stopped)?
}
