//! A change of members: what is asked for, and how far it has come.

use std::fmt;

use super::error::MembershipError;

/// A change of members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A new node joins.
    Add {
        /// Its seat.
        seat: u64,
        /// `HOST:PORT` for its peers.
        peer_address: String,
        /// Whether it shall vote.
        voting: Voting,
    },
    /// A member leaves.
    Remove {
        /// Its id.
        id: u64,
        /// Whether a loss of the quorum is accepted.
        risk: Risk,
    },
    /// A learner becomes a voter.
    Promote {
        /// Its id.
        id: u64,
    },
    /// A new node joins, and a member leaves in the same step. The new node votes if that one did.
    Replace {
        /// The id of the member that leaves.
        id: u64,
        /// The new node's seat.
        seat: u64,
        /// `HOST:PORT` for the new node's peers.
        peer_address: String,
    },
    /// A node without state takes the seat of a silent member, by itself. It votes if that one did.
    TakeOver {
        /// The new node's id.
        id: u64,
        /// Its seat.
        seat: u64,
    },
}

/// Whether a new member shall vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voting {
    /// It shall.
    Voter,
    /// It only receives entries.
    Learner,
}

/// Whether a removal may leave too few voters that answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Risk {
    /// It is refused then.
    Refused,
    /// The operator knows that the silent ones will come back.
    Accepted,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add {
                seat, peer_address, ..
            } => write!(f, "adding seat {seat} at {peer_address}"),
            Self::Remove { id, .. } => write!(f, "removing node {id}"),
            Self::Promote { id } => write!(f, "making node {id} a voter"),
            Self::Replace {
                id,
                seat,
                peer_address,
            } => write!(f, "replacing node {id} by seat {seat} at {peer_address}"),
            Self::TakeOver { id, seat } => write!(f, "node {id} taking seat {seat} over"),
        }
    }
}

impl Change {
    /// The seat and the address that a node may ask for while this change waits.
    pub(super) fn wanted(&self) -> Option<(u64, &str)> {
        match self {
            Self::Add {
                seat, peer_address, ..
            }
            | Self::Replace {
                seat, peer_address, ..
            } => Some((*seat, peer_address)),
            Self::Remove { .. } | Self::Promote { .. } | Self::TakeOver { .. } => None,
        }
    }
}

/// How far a change has come.
#[derive(Debug, Clone)]
pub enum Stage {
    /// No node has asked for the seat yet; nothing has been changed.
    Waiting,
    /// The new node is a learner, and lacks this many entries.
    CatchingUp {
        /// Its id.
        id: u64,
        /// Entries that it lacks.
        entries_to_go: u64,
    },
    /// The voters agree on the new membership.
    Committing,
    /// It is done.
    Done {
        /// The new node's id; of a removal, the removed one's.
        id: u64,
    },
    /// It ended otherwise.
    Failed(MembershipError),
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting => f.write_str("waiting for the node to ask for its seat"),
            Self::CatchingUp { id, entries_to_go } => {
                write!(f, "node {id} catches up, {entries_to_go} entries to go")
            }
            Self::Committing => f.write_str("the voters agree on it"),
            Self::Done { id } => write!(f, "done, node {id}"),
            Self::Failed(why) => write!(f, "failed: {why}"),
        }
    }
}
