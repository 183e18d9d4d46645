//! Who leads, as far as this node may rely on what it knows.

use openraft::ServerState;

use crate::identity::Identity;

/// Who leads, as this node knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leading {
    /// The current term.
    pub term: u64,
    /// The leader of that term; `None` if unknown.
    pub leader: Option<u64>,
    /// This node leads.
    pub here: bool,
}

impl Leading {
    /// What openraft says of leadership on this node, as the node may rely on it.
    pub(super) fn reliable(
        identity: &Identity,
        term: u64,
        state: ServerState,
        leader: Option<u64>,
    ) -> Self {
        let me = identity.node_id();
        let takes_part = identity.may_take_part();
        let here = takes_part && state == ServerState::Leader && leader == Some(me);
        Self {
            term,
            // After a restart the vote on its disk still says that it leads.
            leader: leader.filter(|leader| takes_part && (here || *leader != me)),
            here,
        }
    }
}
