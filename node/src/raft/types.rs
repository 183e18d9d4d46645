//! The types that openraft is configured with, and short names for those that follow from them.

use std::fmt;

use bytes::Bytes;
use helve_proto::{command::v1::Outcome, peer::v1::NodeRecord};
use openraft::alias;

use crate::traces::Passage;

openraft::declare_raft_types!(
    /// What a Helve cluster replicates, and between whom.
    pub TypeConfig:
        D = Proposal,
        R = Applied,
        NodeId = u64,
        Node = NodeInfo,
        // One leader a term, as people who know Raft expect; the default has several.
        LeaderId = openraft::impls::leader_id_std::LeaderId<u64, u64>,
);

/// Term, node and index of an entry.
pub type LogId = alias::LogIdOf<TypeConfig>;
/// Term and node of a leader.
pub type LeaderId = alias::LeaderIdOf<TypeConfig>;
/// The term of a leader that a quorum has elected.
pub type CommittedLeaderId = alias::CommittedLeaderIdOf<TypeConfig>;
/// A vote, and whether a quorum granted it.
pub type Vote = alias::VoteOf<TypeConfig>;
/// An entry of the log.
pub type Entry = alias::EntryOf<TypeConfig>;
/// What an entry carries.
pub type Payload = alias::PayloadOf<TypeConfig>;
/// Voters and nodes.
pub type Membership = openraft::Membership<u64, NodeInfo>;
/// A membership, and the entry that set it.
pub type StoredMembership = alias::StoredMembershipOf<TypeConfig>;
/// What a snapshot covers.
pub type SnapshotMeta = alias::SnapshotMetaOf<TypeConfig>;

/// A command on its way through the log: encoded once, by its proposer; disk and wire carry the
/// same bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Proposal {
    /// An encoded `helve.command.v1.Command`.
    pub command: Bytes,
    /// Of this process alone: neither disk nor wire carries it.
    pub passage: Passage,
}

impl From<Bytes> for Proposal {
    fn from(command: Bytes) -> Self {
        Self {
            command,
            passage: Passage::default(),
        }
    }
}

impl fmt::Debug for Proposal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Proposal({} bytes)", self.command.len())
    }
}

impl fmt::Display for Proposal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "command of {} bytes", self.command.len())
    }
}

/// What applying an entry came to. Entries that carry no command (blank, membership) come to the default outcome.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Applied(pub Outcome);

impl fmt::Display for Applied {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.outcome {
            Some(_) => formatter.write_str("outcome"),
            None => formatter.write_str("no outcome"),
        }
    }
}

/// A node as the membership records it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeInfo(pub NodeRecord);

impl fmt::Display for NodeInfo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "seat {} at {}", self.0.seat, self.0.peer_address)
    }
}
