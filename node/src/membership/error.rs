//! Why members are not changed.

use crate::{
    identity::REMOVED,
    raft::{NotCommitted, Stopped},
};

/// Why the members were not changed, or leadership not handed over.
#[derive(Debug, Clone, thiserror::Error)]
pub enum MembershipError {
    /// This node does not lead.
    #[error(
        "this node does not lead, and only the leader does this: `helve status` shows which one leads; repeat it there"
    )]
    NotLeading,
    /// The node that is to lead does so already.
    #[error("node {0} leads already: name another voter, or none to have one chosen")]
    LeadsAlready(u64),
    /// The node that is to lead has no vote, or is no member.
    #[error("no voter has the id {0}: `helve status` shows the ids of the voters")]
    NoSuchVoter(u64),
    /// No voter has caught up, or the one that was named has not.
    #[error(
        "there is no caught-up voter to hand leadership to: `helve status` shows how far each node is"
    )]
    NoSuccessor,
    /// Another change is under way.
    #[error("a change of members is under way: {0}; `helve member list` shows when it has ended")]
    Busy(String),
    /// The seat's member still answers.
    #[error(
        "seat {0} is taken by a live node: stop it first, or replace it with `helve member replace`"
    )]
    SeatTaken(u64),
    /// No member has the seat, and no operator gave it.
    #[error(
        "seat {seat} is no seat of the cluster yet: `helve member add --seat {seat} --peer {peer_address}` lets this node in"
    )]
    UnknownSeat {
        /// The seat.
        seat: u64,
        /// Where the node that asks says it is.
        peer_address: String,
    },
    /// An operator gave the seat to a node elsewhere.
    #[error(
        "seat {seat} was given to a node at {approved}, and this one says in its --peers that it is at {asked}: correct one of them"
    )]
    OtherAddress {
        /// The seat.
        seat: u64,
        /// What the operator said.
        approved: String,
        /// What the node says.
        asked: String,
    },
    /// The node that asks is a learner by an operator's wish.
    #[error("node {0} is a learner: `helve member promote {0}` makes it a voter")]
    StaysLearner(u64),
    /// The node was started with `--learner`, and is to get a vote.
    #[error(
        "node {0} was started with --learner, and stays a learner: start it without the flag, and repeat this"
    )]
    StartedAsLearner(u64),
    /// The member votes, and is to be promoted.
    #[error("node {0} is a voter already: nothing is to be done")]
    AlreadyVoter(u64),
    /// The node that asks was started with `--learner`, and the seat's silent member votes.
    #[error(
        "seat {seat} is that of node {id}, a silent voter, and a node with --learner does not take its place: start this one without \
         --learner, or choose another seat for it, or first `helve member remove {id}`"
    )]
    SeatOfVoter {
        /// The seat.
        seat: u64,
        /// Its member.
        id: u64,
    },
    /// The node that asks was a member, and was taken out.
    #[error("{REMOVED}")]
    Removed,
    /// The seat belongs to a member elsewhere.
    #[error(
        "seat {seat} is held by node {id} at {peer_address}: choose another seat, or `helve member replace {id}`"
    )]
    SeatHeld {
        /// The seat.
        seat: u64,
        /// Its member.
        id: u64,
        /// The member's address.
        peer_address: String,
    },
    /// The address belongs to a member with another seat.
    #[error("node {id} is at {peer_address} already: give the new node's own peer address")]
    AddressHeld {
        /// The address.
        peer_address: String,
        /// Its member.
        id: u64,
    },
    /// There are as many members as there may be.
    #[error("the cluster has as many members as it may have: remove one first")]
    TooManySeats,
    /// There is no such member.
    #[error(
        "there is no member {0}, or no more: `helve member list` shows them; ids are never used again"
    )]
    NoMember(u64),
    /// The last voter cannot leave.
    #[error(
        "node {0} is the last voter: add another first, or stop it and delete its data if the cluster shall end"
    )]
    LastVoter(u64),
    /// Too few of the voters that would remain answer.
    #[error(
        "without node {id}, {} of {voters} voters would answer ({silent:?} are silent), which is no majority: \
         start or remove the silent ones first", voters - silent.len()
    )]
    QuorumAtRisk {
        /// The member that would leave.
        id: u64,
        /// Voters that would remain.
        voters: usize,
        /// Those of them that do not answer.
        silent: Vec<u64>,
    },
    /// The new node answers no more.
    #[error(
        "node {0} does not answer, and stays a learner: start it and repeat this, or `helve member remove {0}`"
    )]
    LearnerSilent(u64),
    /// No caller waits for the node any more, and it never came.
    #[error("no node asked for the seat, and none waits for it any more: nothing was changed")]
    Abandoned,
    /// The leader cannot reach the node that asks.
    #[error(
        "the leader finds no such node at {0}: check this node's own entry in --peers, and the way there"
    )]
    NotThere(String),
    /// The change was not committed.
    #[error("the membership change was not committed: {0}; repeat it")]
    NotCommitted(String),
    /// Consensus stopped here.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl From<NotCommitted> for MembershipError {
    fn from(why: NotCommitted) -> Self {
        match why {
            NotCommitted::NotLeading(_) => Self::NotLeading,
            NotCommitted::Busy(_) => Self::Busy("one that is not committed yet".to_owned()),
            NotCommitted::Failed(said) => Self::NotCommitted(said),
        }
    }
}
