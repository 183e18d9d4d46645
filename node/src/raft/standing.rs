//! Whether this node still is a member.
//!
//! The leader stops talking to a node that it takes out, so the node may never receive the entry that does so. It learns of it in
//! one of two ways: a committed membership, newer than one that it stood in, is without it, be it here or at a peer.

use openraft::async_runtime::watch::WatchReceiver as _;

use super::{Consensus, Stopped};

/// What the newest committed membership that this node knows says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// One past the index of the entry that set the membership, since a cluster's first has index 0; 0 for none.
    pub index: u64,
    /// This node is in it.
    pub member: bool,
}

impl Consensus {
    /// What the newest committed membership that this node knows says of the node with this uuid.
    #[must_use]
    pub fn standing(&self, uuid: &str) -> Standing {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        let committed = &metrics.committed_membership_config;
        Standing {
            index: committed.log_id().as_ref().map_or(0, |id| id.index + 1),
            member: committed.nodes().any(|(_, node)| node.0.uuid == uuid),
        }
    }

    /// Waits until a committed membership says something else of the node with this uuid, or sets
    /// it again.
    ///
    /// # Errors
    /// If consensus stops first.
    pub async fn wait_standing(&self, uuid: &str, known: Standing) -> Result<(), Stopped> {
        let mut metrics = self.raft.server_metrics();
        while self.standing(uuid) == known {
            let changed = metrics.changed().await;
            changed.map_err(|_| Stopped("stopped".to_owned()))?;
        }
        Ok(())
    }

    /// From now on this node votes, and stores what it is sent.
    pub fn take_part(&self) {
        self.identity.acknowledged().take_part();
        self.raft.runtime_config().elect(true);
    }

    /// From now on this node asks for no votes.
    pub fn retire(&self) {
        self.raft.runtime_config().elect(false);
    }
}
