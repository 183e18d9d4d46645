//! Which node may have which seat.
//!
//! A seat that a silent member holds is free to a node without state: so a lost disk is replaced
//! without a word. A seat that no member holds is given only by an operator's command, so that no
//! cluster grows by mistake.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use helve_proto::peer::v1::NodeRecord;

use super::{
    change::{Change, Risk, Voting},
    error::MembershipError,
};
use crate::{
    limits::SEATS_MAX,
    raft::{Group, overview::MemberProgress},
};

/// A member that has been silent for longer may be replaced.
const SILENCE_MIN: Duration = Duration::from_secs(2);

/// Why a node may have a seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// The change that is under way is about it.
    Wanted,
    /// The seat's member is silent.
    Vacant,
}

/// Who has which seat, and what may be changed about that. Cheap to clone.
#[derive(Clone)]
pub(super) struct Seats<G> {
    pub(super) group: G,
    /// The last term in which this node was asked as the leader, and since when.
    leads_since: Arc<Mutex<(u64, Instant)>>,
}

impl<G: Group> Seats<G> {
    pub(super) fn new(group: G) -> Self {
        Self {
            group,
            leads_since: Arc::new(Mutex::new((0, Instant::now()))),
        }
    }

    /// Whether this node, which is no voter, may have the seat that it asks for, to vote there or not. `wanted_at` is the address that the
    /// change under way gives that seat to, if it is about it.
    ///
    /// # Errors
    /// Why not, for the one who started it.
    pub(super) fn admission(
        &self,
        node: &NodeRecord,
        voting: Voting,
        wanted_at: Option<String>,
    ) -> Result<Admission, MembershipError> {
        if let Some(approved) = wanted_at {
            if approved == node.peer_address {
                return Ok(Admission::Wanted);
            }
            return Err(MembershipError::OtherAddress {
                seat: node.seat,
                approved,
                asked: node.peer_address.clone(),
            });
        }
        let members = self.group.overview().members;
        let mut holders = members.iter().filter(|m| m.record.seat == node.seat);
        let others = holders.clone().any(|m| m.record.uuid != node.uuid);
        if others {
            let former = self.former_members(&node.uuid, node.seat)?;
            let voters = self.group.members().voters();
            let voter = former.intersection(&voters).next().copied();
            return match voter.filter(|_| voting == Voting::Learner) {
                Some(id) => Err(MembershipError::SeatOfVoter {
                    seat: node.seat,
                    id,
                }),
                None => Ok(Admission::Vacant),
            };
        }
        Err(match holders.next() {
            Some(learner) => MembershipError::StaysLearner(learner.id),
            None => MembershipError::UnknownSeat {
                seat: node.seat,
                peer_address: node.peer_address.clone(),
            },
        })
    }

    /// The member that has this seat at this address, if any; `leaving` does not count.
    pub(super) fn holder(
        &self,
        seat: u64,
        peer_address: &str,
        leaving: Option<u64>,
    ) -> Result<Option<MemberProgress>, MembershipError> {
        let members = self.group.overview().members;
        let staying = members.iter().filter(|m| Some(m.id) != leaving);
        let mut found = None;
        for member in staying.clone() {
            let (held, at) = (member.record.seat, &member.record.peer_address);
            match (held == seat, at == peer_address) {
                (true, true) => found = Some(member.clone()),
                (true, false) => {
                    return Err(MembershipError::SeatHeld {
                        seat,
                        id: member.id,
                        peer_address: at.clone(),
                    });
                }
                (false, true) => {
                    return Err(MembershipError::AddressHeld {
                        peer_address: at.clone(),
                        id: member.id,
                    });
                }
                (false, false) => {}
            }
        }
        if found.is_none() && staying.count() >= SEATS_MAX {
            return Err(MembershipError::TooManySeats);
        }
        Ok(found)
    }

    /// Refuses what can be seen to be wrong before anything is done.
    pub(super) fn check(&self, change: &Change) -> Result<(), MembershipError> {
        if self.group.members().is_joint() {
            let half_done = "one that a former leader left half done".to_owned();
            return Err(MembershipError::Busy(half_done));
        }
        match change {
            Change::Add {
                seat, peer_address, ..
            } => self.holder(*seat, peer_address, None).map(|_| ()),
            Change::Remove { id, risk } => self.check_removal(*id, *risk),
            Change::Promote { id } => self.check_promotion(*id),
            Change::Replace {
                id,
                seat,
                peer_address,
            } => {
                let holder = self.holder(*seat, peer_address, Some(*id))?;
                self.check_replaced(*id, holder.map(|member| member.id))
            }
            Change::TakeOver { .. } => Ok(()),
        }
    }

    /// Refuses to replace a member that is gone, unless `coming` votes in its place already. If the member was removed otherwise, whether
    /// `coming` was to vote is not known.
    pub(super) fn check_replaced(
        &self,
        leaving: u64,
        coming: Option<u64>,
    ) -> Result<(), MembershipError> {
        let members = self.group.members();
        let is_done = coming.is_some_and(|id| members.voters().contains(&id));
        if is_done || members.member(leaving).is_some() {
            return Ok(());
        }
        Err(MembershipError::NoMember(leaving))
    }

    fn check_promotion(&self, id: u64) -> Result<(), MembershipError> {
        let members = self.group.members();
        if members.member(id).is_none() {
            return Err(MembershipError::NoMember(id));
        }
        if members.voters().contains(&id) {
            return Err(MembershipError::AlreadyVoter(id));
        }
        Ok(())
    }

    pub(super) fn check_removal(&self, id: u64, risk: Risk) -> Result<(), MembershipError> {
        let members = self.group.members();
        if members.member(id).is_none() {
            return Err(MembershipError::NoMember(id));
        }
        if members.voters() == BTreeSet::from([id]) {
            return Err(MembershipError::LastVoter(id));
        }
        match risk {
            Risk::Refused => self.check_quorum(id, None),
            Risk::Accepted => Ok(()),
        }
    }

    /// Refuses a change after which too few voters answer to commit anything, the change itself included.
    pub(super) fn check_quorum(
        &self,
        leaving: u64,
        coming: Option<u64>,
    ) -> Result<(), MembershipError> {
        if !self.group.members().voters().contains(&leaving) {
            return Ok(());
        }
        let overview = self.group.overview();
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

    /// The other members that hold a seat, all silent.
    pub(super) fn former_members(
        &self,
        uuid: &str,
        seat: u64,
    ) -> Result<BTreeSet<u64>, MembershipError> {
        let overview = self.group.overview();
        if overview.leader_id != self.group.own_id() {
            return Err(MembershipError::NotLeading);
        }
        let holders = overview
            .members
            .iter()
            .filter(|m| m.record.seat == seat && m.record.uuid != uuid);
        holders
            .map(|m| {
                if self.is_silent(m, overview.term) {
                    Ok(m.id)
                } else {
                    Err(MembershipError::SeatTaken(seat))
                }
            })
            .collect()
    }

    /// A member that this leader has not heard of for a while.
    pub(super) fn is_silent(&self, member: &MemberProgress, term: u64) -> bool {
        member.id != self.group.own_id()
            && member.silent_for.unwrap_or_else(|| self.led_for(term)) > SILENCE_MIN
    }

    /// How long this node is known to have led in this term: a member that never answered it may not have had the time.
    fn led_for(&self, term: u64) -> Duration {
        let mut since = self
            .leads_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if since.0 != term {
            *since = (term, Instant::now());
        }
        since.1.elapsed()
    }
}
