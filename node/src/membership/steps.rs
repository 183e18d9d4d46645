//! The steps of a change of members.

use std::collections::BTreeSet;

use helve_proto::peer::v1::NodeRecord;

use super::{
    catch_up::{caught_up, started_as},
    change::{Change, Risk, Stage, Voting},
    error::MembershipError,
    seats::Seats,
    under_way::{Applicant, Held},
};
use crate::raft::{Group, MembershipEdit};

/// Takes the steps of one change.
pub(super) struct Steps<'a, G> {
    seats: &'a Seats<G>,
    held: &'a Held,
}

impl<'a, G: Group> Steps<'a, G> {
    /// The steps of the change that is `held`.
    pub(super) fn new(seats: &'a Seats<G>, held: &'a Held) -> Self {
        Self { seats, held }
    }

    /// Carries a checked change out. Returns the id of the node that it was about.
    pub(super) async fn carry_out(&self) -> Result<u64, MembershipError> {
        match self.held.change() {
            Change::Add {
                seat,
                peer_address,
                voting,
            } => self.add(*seat, peer_address, *voting).await,
            Change::Remove { id, risk } => self.remove(*id, *risk).await,
            Change::Promote { id } => self.promote(*id).await,
            Change::Replace {
                id,
                seat,
                peer_address,
            } => self.replace(*id, *seat, peer_address).await,
            // It brings its record along: see `MemberChanges::take_over`.
            Change::TakeOver { id, .. } => Err(MembershipError::NoMember(*id)),
        }
    }

    async fn add(
        &self,
        seat: u64,
        peer_address: &str,
        voting: Voting,
    ) -> Result<u64, MembershipError> {
        let id = match self.seats.holder(seat, peer_address, None)? {
            Some(member) if member.voter => return Ok(member.id),
            Some(learner) => learner.id,
            None => self.admit_learner().await?,
        };
        self.caught_up(id).await?;
        if voting == Voting::Voter && self.started_as(id).await? == Voting::Voter {
            self.held.reached(Stage::Committing);
            self.set_voters(|voters| voters.insert(id)).await?;
        }
        Ok(id)
    }

    async fn promote(&self, id: u64) -> Result<u64, MembershipError> {
        self.check_may_vote(id).await?;
        self.caught_up(id).await?;
        // It may have been started again in the meantime.
        self.check_may_vote(id).await?;
        self.held.reached(Stage::Committing);
        self.set_voters(|voters| voters.insert(id)).await?;
        Ok(id)
    }

    async fn replace(
        &self,
        leaving: u64,
        seat: u64,
        peer_address: &str,
    ) -> Result<u64, MembershipError> {
        let holder = self.seats.holder(seat, peer_address, Some(leaving))?;
        let id = match &holder {
            Some(member) => member.id,
            None => self.admit_learner().await?,
        };
        self.caught_up(id).await?;
        self.seats.check_replaced(leaving, Some(id))?;
        // What takes the place of a learner is one.
        let is_voter = self.seats.group.members().voters().contains(&leaving);
        if is_voter {
            self.check_may_vote(id).await?;
            self.held.reached(Stage::Committing);
            self.seats.check_quorum(leaving, Some(id))?;
            self.set_voters(|voters| {
                let left = voters.remove(&leaving);
                voters.insert(id) || left
            })
            .await?;
        }
        // One that did not vote is not taken out along with the voters.
        if self.seats.group.members().member(leaving).is_some() {
            self.forget(leaving).await?;
        }
        Ok(id)
    }

    async fn remove(&self, id: u64, risk: Risk) -> Result<u64, MembershipError> {
        self.seats.check_removal(id, risk)?;
        self.held.reached(Stage::Committing);
        let votes = self.seats.group.members().voters().contains(&id);
        if votes {
            self.set_voters(|voters| voters.remove(&id)).await?;
        } else {
            self.forget(id).await?;
        }
        Ok(id)
    }

    /// Makes a node a learner and then, once it has caught up, puts it in the place of its seat's former members: of voters, in one joint
    /// change; of a learner, as a learner.
    pub(super) async fn seat(&self, id: u64, record: NodeRecord) -> Result<(), MembershipError> {
        let (seat, uuid) = (record.seat, record.uuid.clone());
        self.seats.former_members(&uuid, seat)?;
        self.add_learner(Applicant { id, record }).await?;
        self.caught_up(id).await?;
        let voting = self.started_as(id).await?;
        // The seat's former member may have come back in the meantime. Nothing is waited for between this look and the change.
        let former = self.seats.former_members(&uuid, seat)?;
        let voters = self.seats.group.members().voters();
        if !former.is_disjoint(&voters) {
            check_may_vote(id, voting)?;
            self.held.reached(Stage::Committing);
            self.set_voters(|voters| {
                voters.retain(|voter| !former.contains(voter));
                voters.insert(id)
            })
            .await?;
        }
        let learners: Vec<u64> = former.difference(&voters).copied().collect();
        for learner in learners {
            self.forget(learner).await?;
        }
        tracing::info!(id, seat, ?former, "a node took its seat");
        Ok(())
    }

    /// Waits for the node that the change is about, and makes it a learner.
    async fn admit_learner(&self) -> Result<u64, MembershipError> {
        self.held.reached(Stage::Waiting);
        let applicant = tokio::select! {
            applicant = self.held.applicant() => applicant.ok_or(MembershipError::Abandoned)?,
            left = self.seats.group.wait_leading(|leading| !leading.here) => {
                left?;
                return Err(MembershipError::NotLeading);
            }
        };
        let id = applicant.id;
        self.held.reached(Stage::CatchingUp {
            id,
            entries_to_go: self.seats.group.overview().last_log,
        });
        self.add_learner(applicant).await?;
        Ok(id)
    }

    async fn add_learner(&self, node: Applicant) -> Result<(), MembershipError> {
        let Applicant { id, record } = node;
        let members = self.seats.group.members();
        let known = members.member(id);
        if known.is_some_and(|member| member.uuid != record.uuid) {
            return Err(MembershipError::SeatTaken(record.seat));
        }
        self.edit(MembershipEdit::AddLearner(id, record)).await
    }

    /// Waits until a learner lacks next to nothing.
    async fn caught_up(&self, id: u64) -> Result<(), MembershipError> {
        caught_up(&self.seats.group, self.held, id).await
    }

    /// Whether a member was started to vote.
    async fn started_as(&self, id: u64) -> Result<Voting, MembershipError> {
        started_as(&self.seats.group, id).await
    }

    /// Refuses a vote to a member that was started with `--learner`.
    async fn check_may_vote(&self, id: u64) -> Result<(), MembershipError> {
        check_may_vote(id, self.started_as(id).await?)
    }

    /// Takes a learner out.
    async fn forget(&self, id: u64) -> Result<(), MembershipError> {
        self.edit(MembershipEdit::RemoveLearner(id)).await
    }

    /// Changes the voters in one joint change. Members that vote no more are members no more.
    async fn set_voters(
        &self,
        change: impl FnOnce(&mut BTreeSet<u64>) -> bool,
    ) -> Result<(), MembershipError> {
        let known = self.seats.group.members();
        let mut voters = known.voters();
        if !change(&mut voters) {
            return Ok(());
        }
        self.edit(MembershipEdit::SetVoters { voters, known }).await
    }

    async fn edit(&self, edit: MembershipEdit) -> Result<(), MembershipError> {
        Ok(self.seats.group.edit(edit).await?)
    }
}

fn check_may_vote(id: u64, voting: Voting) -> Result<(), MembershipError> {
    match voting {
        Voting::Voter => Ok(()),
        Voting::Learner => Err(MembershipError::StartedAsLearner(id)),
    }
}

#[cfg(test)]
mod tests;
