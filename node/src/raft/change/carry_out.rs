//! The steps of a change of members.

use std::collections::BTreeSet;

use helve_proto::peer::v1::NodeRecord;
use openraft::{
    ChangeMembers,
    async_runtime::watch::WatchReceiver as _,
    errors::{ChangeMembershipError, ClientWriteError, RaftError},
    raft::Precondition,
};

use super::{Applicant, Change, Held, Risk, Stage, Voting};
use crate::raft::{
    Consensus, Stopped,
    membership::MembershipError,
    types::{NodeInfo, TypeConfig},
};

type Changed<T> = Result<T, RaftError<TypeConfig, ClientWriteError<TypeConfig>>>;

impl Consensus {
    /// Carries a checked change out. Returns the id of the node that it was about.
    pub(super) async fn carry_out(&self, held: &Held) -> Result<u64, MembershipError> {
        match &held.under_way.change {
            Change::Add {
                seat,
                peer_address,
                voting,
            } => self.add(held, *seat, peer_address, *voting).await,
            Change::Remove { id, risk } => self.remove(held, *id, *risk).await,
            Change::Replace {
                id,
                seat,
                peer_address,
            } => self.replace(held, *id, *seat, peer_address).await,
            // It brings its record along: see `take_over`.
            Change::TakeOver { id, .. } => Err(MembershipError::NoMember(*id)),
        }
    }

    async fn add(
        &self,
        held: &Held,
        seat: u64,
        peer_address: &str,
        voting: Voting,
    ) -> Result<u64, MembershipError> {
        let id = match self.holder(seat, peer_address, None)? {
            Some(member) if member.voter => return Ok(member.id),
            Some(learner) => learner.id,
            None => self.admit_learner(held).await?,
        };
        self.caught_up(held, id).await?;
        if voting == Voting::Voter {
            held.reached(Stage::Committing);
            self.set_voters(|voters| voters.insert(id)).await?;
        }
        Ok(id)
    }

    async fn replace(
        &self,
        held: &Held,
        leaving: u64,
        seat: u64,
        peer_address: &str,
    ) -> Result<u64, MembershipError> {
        let holder = self.holder(seat, peer_address, Some(leaving))?;
        let id = match &holder {
            Some(member) => member.id,
            None => self.admit_learner(held).await?,
        };
        self.caught_up(held, id).await?;
        held.reached(Stage::Committing);
        self.check_quorum(leaving, Some(id))?;
        self.set_voters(|voters| {
            voters.remove(&leaving);
            voters.insert(id)
        })
        .await?;
        // One that did not vote is not taken out along with the voters.
        if self.member(leaving).is_some() {
            self.forget(leaving).await?;
        }
        Ok(id)
    }

    async fn remove(&self, held: &Held, id: u64, risk: Risk) -> Result<u64, MembershipError> {
        self.check_removal(id, risk)?;
        held.reached(Stage::Committing);
        let votes = self.voters().contains(&id);
        if votes {
            self.set_voters(|voters| voters.remove(&id)).await?;
        } else {
            self.forget(id).await?;
        }
        Ok(id)
    }

    /// Makes a node a learner and then, once it has caught up, puts it in the place of its seat's former members in one joint change.
    pub(super) async fn seat(
        &self,
        held: &Held,
        id: u64,
        record: NodeRecord,
    ) -> Result<(), MembershipError> {
        let (seat, uuid) = (record.seat, record.uuid.clone());
        self.former_members(&uuid, seat)?;
        self.add_learner(Applicant { id, record }).await?;
        self.caught_up(held, id).await?;
        // The seat's former member may have come back in the meantime.
        let former = self.former_members(&uuid, seat)?;
        held.reached(Stage::Committing);
        self.set_voters(|voters| {
            voters.retain(|voter| !former.contains(voter));
            voters.insert(id)
        })
        .await?;
        tracing::info!(id, seat, ?former, "a node took its seat");
        Ok(())
    }

    /// Waits for the node that the change is about, and makes it a learner.
    async fn admit_learner(&self, held: &Held) -> Result<u64, MembershipError> {
        held.reached(Stage::Waiting);
        let mut applicants = held.under_way.applicant.subscribe();
        let applicant = tokio::select! {
            applicant = applicants.wait_for(Option::is_some) => {
                applicant.ok().and_then(|applicant| applicant.clone())
            }
            () = held.under_way.stage.closed() => return Err(MembershipError::Abandoned),
            left = self.wait_leading(|leading| !leading.here) => {
                left?;
                return Err(MembershipError::NotLeading);
            }
        };
        let applicant = applicant.ok_or(MembershipError::Abandoned)?;
        let id = applicant.id;
        held.reached(Stage::CatchingUp {
            id,
            entries_to_go: self.overview().last_log,
        });
        self.add_learner(applicant).await?;
        Ok(id)
    }

    async fn add_learner(&self, node: Applicant) -> Result<(), MembershipError> {
        let Applicant { id, record } = node;
        let known = self.member(id);
        if known.is_some_and(|member| member.uuid != record.uuid) {
            return Err(MembershipError::SeatTaken(record.seat));
        }
        committed(self.raft.add_learner(id, NodeInfo(record), false).await)
    }

    /// Takes a learner out.
    async fn forget(&self, id: u64) -> Result<(), MembershipError> {
        let change = ChangeMembers::RemoveNodes(BTreeSet::from([id]));
        committed(self.raft.change_membership(change, false).await)
    }

    /// Changes the voters in one joint change. Members that vote no more are members no more.
    async fn set_voters(
        &self,
        edit: impl FnOnce(&mut BTreeSet<u64>) -> bool,
    ) -> Result<(), MembershipError> {
        let (mut voters, known) = {
            let metrics = self.raft.server_metrics();
            let metrics = metrics.borrow_watched();
            let membership = &metrics.membership_config;
            let voters: BTreeSet<u64> = membership.voter_ids().collect();
            (voters, *membership.log_id())
        };
        if !edit(&mut voters) {
            return Ok(());
        }
        let unchanged = Precondition::LastMembershipLogId {
            last_membership_log_id: known,
        };
        let change = ChangeMembers::ReplaceAllVoters(voters);
        let changed = self.raft.change_membership_if(change, false, [unchanged]);
        committed(changed.await)
    }

    /// Ends a change of members that its leader began and did not end: a joint configuration needs both majorities.
    ///
    /// # Errors
    /// If this node does not lead any more, or the change is not committed.
    pub async fn leave_joint(&self) -> Result<(), MembershipError> {
        if !self.is_joint() {
            return Ok(());
        }
        let change = ChangeMembers::AddVoterIds(BTreeSet::new());
        committed(self.raft.change_membership(change, false).await)
    }

    /// Waits until this node leads, and a change of members is half done that it does not carry out itself.
    ///
    /// # Errors
    /// If consensus stops first.
    pub async fn wait_half_done(&self) -> Result<(), Stopped> {
        let own = || self.changes.describe().is_some();
        self.wait_leading(|leading| leading.here && self.is_joint() && !own())
            .await
            .map(|_| ())
    }

    fn voters(&self) -> BTreeSet<u64> {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        metrics.membership_config.voter_ids().collect()
    }

    pub(super) fn check_removal(&self, id: u64, risk: Risk) -> Result<(), MembershipError> {
        if self.member(id).is_none() {
            return Err(MembershipError::NoMember(id));
        }
        if self.voters() == BTreeSet::from([id]) {
            return Err(MembershipError::LastVoter(id));
        }
        match risk {
            Risk::Refused => self.check_quorum(id, None),
            Risk::Accepted => Ok(()),
        }
    }

    /// Refuses a change after which too few voters answer to commit anything, the change itself included.
    fn check_quorum(&self, leaving: u64, coming: Option<u64>) -> Result<(), MembershipError> {
        if !self.voters().contains(&leaving) {
            return Ok(());
        }
        let overview = self.overview();
        let staying = overview
            .members
            .iter()
            .filter(|m| (m.voter || Some(m.id) == coming) && m.id != leaving);
        let (voters, silent) = staying.fold((0, Vec::new()), |(voters, mut silent), m| {
            if self.is_silent(m, overview.term) {
                silent.push(m.id);
            }
            (voters + 1, silent)
        });
        if (voters - silent.len()) * 2 > voters {
            return Ok(());
        }
        Err(MembershipError::QuorumAtRisk {
            id: leaving,
            voters,
            silent,
        })
    }
}

/// What a proposal of a membership came to.
fn committed<T>(result: Changed<T>) -> Result<(), MembershipError> {
    match result {
        Ok(_) => Ok(()),
        Err(RaftError::APIError(ClientWriteError::ForwardToLeader(_))) => {
            Err(MembershipError::NotLeading)
        }
        Err(RaftError::APIError(ClientWriteError::ChangeMembershipError(
            ChangeMembershipError::InProgress(_),
        ))) => Err(MembershipError::Busy(
            "one that is not committed yet".to_owned(),
        )),
        Err(error) => Err(MembershipError::NotCommitted(error.to_string())),
    }
}
