//! What a caller hears of a change of members that was not made.

use helve_proto::Reason;

use crate::membership::MembershipError;

/// Why the members, or the leader, were not changed.
pub(super) fn reason(error: &MembershipError) -> Reason {
    match error {
        MembershipError::NotLeading => Reason::NotLeading,
        MembershipError::Busy(_) => Reason::ChangeUnderWay,
        MembershipError::NoMember(_) | MembershipError::Removed => Reason::NoMember,
        MembershipError::AlreadyVoter(_) => Reason::AlreadyVoter,
        MembershipError::StartedAsLearner(_) => Reason::StaysLearner,
        MembershipError::SeatTaken(_)
        | MembershipError::UnknownSeat { .. }
        | MembershipError::OtherAddress { .. }
        | MembershipError::StaysLearner(_)
        | MembershipError::SeatOfVoter { .. }
        | MembershipError::SeatHeld { .. }
        | MembershipError::AddressHeld { .. }
        | MembershipError::TooManySeats => Reason::SeatTaken,
        MembershipError::LastVoter(_) | MembershipError::QuorumAtRisk { .. } => {
            Reason::QuorumAtRisk
        }
        MembershipError::LeadsAlready(_) | MembershipError::NoSuchVoter(_) => Reason::BadRequest,
        MembershipError::NoSuccessor
        | MembershipError::LearnerSilent(_)
        | MembershipError::Abandoned
        | MembershipError::NotThere(_) => Reason::NodeSilent,
        MembershipError::NotCommitted(_) => Reason::Ambiguous,
        MembershipError::Stopped(_) => Reason::Stopping,
    }
}
