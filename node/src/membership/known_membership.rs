//! Whether this node still is a member.
//!
//! The leader stops talking to a node that it takes out, so the node may never receive the entry that does so. It learns of it in
//! one of two ways: a committed membership, newer than one that it stood in, is without it, be it here or at a peer.

use crate::raft::{Consensus, Stopped};

/// What the newest committed membership that this node knows says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownMembership {
    /// One past the index of the entry that set the membership, since a cluster's first has index 0; 0 for none.
    pub index: u64,
    /// This node is in it.
    pub member: bool,
}

impl KnownMembership {
    /// What the newest committed membership that this node knows says of the node with this uuid.
    #[must_use]
    pub fn of(uuid: &str, consensus: &Consensus) -> Self {
        let members = consensus.committed_members();
        Self {
            index: members.end(),
            member: members.by_uuid(uuid).is_some(),
        }
    }

    /// Waits until a committed membership says something else of the node with this uuid, or sets
    /// it again.
    ///
    /// # Errors
    /// If consensus stops first.
    pub async fn changed(self, uuid: &str, consensus: &Consensus) -> Result<(), Stopped> {
        let is_another = || (Self::of(uuid, consensus) != self).then_some(());
        consensus.wait(is_another).await
    }
}
