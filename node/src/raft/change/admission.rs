//! Which node may have which seat.
//!
//! A seat that a silent member holds is free to a node without state: so a lost disk is replaced
//! without a word. A seat that no member holds is given only by an operator's command, so that no
//! cluster grows by mistake.

use std::{
    collections::BTreeSet,
    sync::PoisonError,
    time::{Duration, Instant},
};

use helve_proto::peer::v1::NodeRecord;

use super::{Applicant, Change, Stage};
use crate::{
    limits::SEATS_MAX,
    raft::{
        Consensus,
        membership::{MemberProgress, MembershipError},
    },
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

impl Consensus {
    /// Whether this node, which is no voter, may have the seat that it asks for.
    ///
    /// # Errors
    /// Why not, for the one who started it.
    pub fn admission(&self, node: &NodeRecord) -> Result<Admission, MembershipError> {
        let wanted = self.changes.current().as_ref().and_then(|under_way| {
            let (seat, address) = under_way.change.wanted()?;
            (seat == node.seat).then(|| address.to_owned())
        });
        if let Some(approved) = wanted {
            if approved == node.peer_address {
                return Ok(Admission::Wanted);
            }
            return Err(MembershipError::OtherAddress {
                seat: node.seat,
                approved,
                asked: node.peer_address.clone(),
            });
        }
        let members = self.overview().members;
        let mut holders = members.iter().filter(|m| m.record.seat == node.seat);
        let others = holders.clone().any(|m| m.record.uuid != node.uuid);
        if others {
            return self
                .former_members(&node.uuid, node.seat)
                .map(|_| Admission::Vacant);
        }
        Err(match holders.next() {
            Some(learner) => MembershipError::StaysLearner(learner.id),
            None => MembershipError::UnknownSeat {
                seat: node.seat,
                peer_address: node.peer_address.clone(),
            },
        })
    }

    /// Hands a node that runs under an id of its own to the change that waits for it.
    pub fn offer(&self, id: u64, record: NodeRecord) {
        if let Some(under_way) = self.changes.current().as_ref() {
            let waits = matches!(*under_way.stage.borrow(), Stage::Waiting);
            if waits {
                let applicant = Some(Applicant { id, record });
                under_way.applicant.send_replace(applicant);
            }
        }
    }

    /// The member that has this seat at this address, if any; `leaving` does not count.
    pub(super) fn holder(
        &self,
        seat: u64,
        peer_address: &str,
        leaving: Option<u64>,
    ) -> Result<Option<MemberProgress>, MembershipError> {
        let members = self.overview().members;
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
        if self.is_joint() {
            return Err(super::half_done());
        }
        match change {
            Change::Add {
                seat, peer_address, ..
            } => self.holder(*seat, peer_address, None).map(|_| ()),
            Change::Remove { id, risk } => self.check_removal(*id, *risk),
            Change::Replace {
                id,
                seat,
                peer_address,
            } => {
                let holder = self.holder(*seat, peer_address, Some(*id))?;
                if holder.is_none() && self.member(*id).is_none() {
                    return Err(MembershipError::NoMember(*id));
                }
                Ok(())
            }
            Change::TakeOver { .. } => Ok(()),
        }
    }

    /// The other members that hold a seat, all silent.
    pub(super) fn former_members(
        &self,
        uuid: &str,
        seat: u64,
    ) -> Result<BTreeSet<u64>, MembershipError> {
        let overview = self.overview();
        if overview.leader_id != self.identity.node_id() {
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
    pub(in crate::raft) fn is_silent(&self, member: &MemberProgress, term: u64) -> bool {
        member.id != self.identity.node_id()
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
