//! Node ids, each given out once: the count of them is replicated.

use std::time::Duration;

use helve_proto::command::v1::{
    AllocateNodeId, Command, command::Operation, outcome::Outcome as Kind,
};
use tokio::time::Instant;

use crate::{
    membership::MembershipError,
    propose::Proposer,
    raft::{Consensus, overview::Overview},
    read_index::own_command,
};

/// How long the count may take to be committed.
const LIMIT: Duration = Duration::from_secs(3);

/// An id that was never given out, above those of all members: founders have their seats for ids, which nothing counts.
pub(super) async fn allocate(
    consensus: &Consensus,
    proposer: &Proposer,
) -> Result<u64, MembershipError> {
    let taken_max = highest_member(&consensus.overview());
    let command: Command = own_command(Operation::AllocateNodeId(AllocateNodeId { taken_max }));
    let outcome = proposer.propose(&command, Instant::now() + LIMIT).await;
    match outcome
        .map_err(|e| MembershipError::NotCommitted(e.to_string()))?
        .outcome
    {
        Some(Kind::AllocateNodeId(allocated)) => Ok(allocated.id),
        other => Err(MembershipError::NotCommitted(format!(
            "unexpected outcome {other:?}"
        ))),
    }
}

/// Sees to it that the id of a member that leaves is counted, before no node has it any more.
pub(super) async fn retire(
    id: u64,
    consensus: &Consensus,
    proposer: &Proposer,
) -> Result<(), MembershipError> {
    if !consensus.leading().here {
        return Err(MembershipError::NotLeading);
    }
    if id == highest_member(&consensus.overview()) {
        allocate(consensus, proposer).await?;
    }
    Ok(())
}

/// The highest node id that the membership knows.
fn highest_member(overview: &Overview) -> u64 {
    overview.members.iter().map(|m| m.id).max().unwrap_or(0)
}
