//! Changes of members: one at a time, carried out by the leader, and followed by the callers that
//! asked for them.
//!
//! A change outlives the call that began it, except while it waits for a node to ask for its seat:
//! until then it has changed nothing, and it ends with its last follower. The leader keeps all this
//! in memory. What a leader that dies leaves behind is in the membership, a learner or a joint
//! configuration: the same call, made again on the next leader, continues from there.

use std::sync::Arc;

use helve_proto::peer::v1::NodeRecord;
use tokio::sync::watch;

use super::{
    change::{Change, Stage, Voting},
    error::MembershipError,
    seats::{Admission, Seats},
    steps::Steps,
    under_way::{Applicant, Begun, Changes},
};
use crate::raft::{Consensus, Group, MembershipEdit, Stopped};

/// Begins, carries out and ends changes of members. Cheap to clone.
#[derive(Clone)]
pub struct MemberChanges<G = Consensus> {
    group: G,
    seats: Seats<G>,
    changes: Arc<Changes>,
}

impl<G: Group> MemberChanges<G> {
    /// Changes the members of this group.
    #[must_use]
    pub fn new(group: G) -> Self {
        Self {
            seats: Seats::new(group.clone()),
            group,
            changes: Arc::default(),
        }
    }

    /// The change of members that this node carries out, in words.
    #[must_use]
    pub fn describe(&self) -> Option<String> {
        self.changes.describe()
    }

    /// Begins a change of members, or follows the same one if it is under way. The last stage is [`Stage::Done`] or
    /// [`Stage::Failed`].
    ///
    /// # Errors
    /// If this node does not lead, another change is under way, or this one is refused; nothing was changed then.
    pub fn begin(&self, change: Change) -> Result<watch::Receiver<Stage>, MembershipError> {
        if !self.group.leading().here {
            return Err(MembershipError::NotLeading);
        }
        let held = match self.changes.begin(change)? {
            Begun::Same(stages) => return Ok(stages),
            Begun::New(held) => held,
        };
        self.seats.check(held.change())?;
        let stages = held.stages();
        let seats = self.seats.clone();
        tokio::spawn(async move {
            let outcome = Steps::new(&seats, &held).carry_out().await;
            let change = held.change();
            match &outcome {
                Ok(id) => tracing::info!(id, "a change of members is done: {change}"),
                Err(why) => tracing::warn!(%why, "a change of members ended: {change}"),
            }
            held.end(outcome);
        });
        Ok(stages)
    }

    /// Whether this node, which is no voter, may have the seat that it asks for, to vote there or not.
    ///
    /// # Errors
    /// Why not, for the one who started it.
    pub fn admission(
        &self,
        node: &NodeRecord,
        voting: Voting,
    ) -> Result<Admission, MembershipError> {
        let wanted_at = self.changes.wanted_at(node.seat);
        self.seats.admission(node, voting, wanted_at)
    }

    /// Hands a node that runs under an id of its own to the change that waits for it.
    pub fn offer(&self, id: u64, record: NodeRecord) {
        self.changes.offer(Applicant { id, record });
    }

    /// Gives a node that runs under `id` the seat of a silent member, and waits until it has it.
    ///
    /// # Errors
    /// See [`MembershipError`].
    pub async fn take_over(&self, id: u64, record: NodeRecord) -> Result<(), MembershipError> {
        let change = Change::TakeOver {
            id,
            seat: record.seat,
        };
        let Begun::New(held) = self.changes.begin(change)? else {
            return Err(MembershipError::Busy("it takes its seat over".to_owned()));
        };
        self.seats.check(held.change())?;
        let outcome = Steps::new(&self.seats, &held).seat(id, record).await;
        held.end(outcome.clone().map(|()| id));
        outcome
    }

    /// Waits until this node leads, and a change of members is half done that it does not carry out itself.
    ///
    /// # Errors
    /// If consensus stops first.
    pub async fn wait_half_done(&self) -> Result<(), Stopped> {
        let own = || self.changes.describe().is_some();
        let half_done = || self.group.members().is_joint() && !own();
        self.group
            .wait_leading(|leading| leading.here && half_done())
            .await
            .map(|_| ())
    }

    /// Ends a change of members that its leader began and did not end: a joint configuration needs both majorities.
    ///
    /// # Errors
    /// If this node does not lead any more, or the change is not committed.
    pub async fn leave_joint(&self) -> Result<(), MembershipError> {
        if !self.group.members().is_joint() {
            return Ok(());
        }
        Ok(self.group.edit(MembershipEdit::LeaveJoint).await?)
    }

    /// Whether this node leads, and a peer that answers it lacks entries up to and including `upto`.
    #[must_use]
    pub fn is_needed(&self, upto: u64) -> bool {
        let overview = self.group.overview();
        let own = self.group.own_id();
        let peers = overview.members.iter().filter(|member| member.id != own);
        let mut lacking = peers.filter(|peer| peer.matched.is_some_and(|matched| matched < upto));
        lacking.any(|peer| !self.seats.is_silent(peer, overview.term))
    }
}
