//! What may be said of a command after an attempt to have it executed.

use helve_proto::command::v1::{Outcome, Refusal, outcome::Outcome as Kind};

use super::ProposeError;
use crate::{
    attempt::{Attempt, Rejection},
    raft::Answer,
};

/// These refusals are never kept, or come before a kept outcome is looked up: so after an attempt whose fate is unknown they do not say
/// that nothing was executed.
pub(super) fn settle(outcome: Outcome, unknown: Option<String>) -> Result<Outcome, ProposeError> {
    let forgotten = match &outcome.outcome {
        Some(Kind::Refused(refused)) => matches!(
            refused.refusal(),
            Refusal::SessionExpired
                | Refusal::StaleCall
                | Refusal::RequestTooOld
                | Refusal::TooEarly
                // Of a new leader that has not applied the raise yet, after the old one executed the command.
                | Refusal::FeatureLevel
        ),
        _ => false,
    };
    match unknown {
        Some(why) if forgotten => Err(ProposeError::Unknown(why)),
        _ => Ok(outcome),
    }
}

pub(super) fn final_rejection(rejection: Rejection) -> Option<ProposeError> {
    match rejection {
        Rejection::NotLeading => None,
        Rejection::Overloaded(bound) => Some(ProposeError::Overloaded(bound)),
        Rejection::DiskFull => Some(ProposeError::DiskFull),
        Rejection::WriteRate => Some(ProposeError::WriteRate),
        Rejection::Stopping => Some(ProposeError::Stopping),
        Rejection::Unrecorded => Some(ProposeError::Unrecorded),
    }
}

pub(super) fn of_answer(answer: Answer) -> Attempt {
    match answer {
        Answer::Outcome(outcome) => Attempt::Outcome(outcome),
        Answer::NotLeading => Attempt::Rejected(Rejection::NotLeading),
        Answer::Unknown(why) => Attempt::Unknown(why),
    }
}

#[cfg(test)]
mod tests {
    use helve_proto::command::v1::Refused;

    use super::*;

    #[test]
    fn command_that_cannot_be_recorded_is_not_tried_again() {
        let error = final_rejection(Rejection::Unrecorded);
        assert!(matches!(error, Some(ProposeError::Unrecorded)), "{error:?}");
    }

    #[test]
    fn refusal_for_a_level_leaves_an_unknown_attempt_unknown() {
        let refused = || Outcome {
            outcome: Some(Kind::Refused(Refused {
                refusal: Refusal::FeatureLevel.into(),
                ..Refused::default()
            })),
        };
        let settled = settle(refused(), Some("no answer".to_owned()));
        assert!(
            matches!(settled, Err(ProposeError::Unknown(_))),
            "{settled:?}"
        );
        assert_eq!(settle(refused(), None).unwrap(), refused());
    }
}
