//! What kinds of commands there are to a proposer.

use helve_machine::{is_repeatable, level::is_administrative};
use helve_proto::{
    command::v1::{Command, Outcome, Refusal, Refused, outcome::Outcome as Kind},
    v1::ReplyHeader,
};

use crate::apply::Progress;

/// What is admitted while the disk is below its reserve.
pub(super) fn frees_space(command: &Command) -> bool {
    command
        .operation
        .as_ref()
        .is_some_and(|operation| operation.facts().low_disk.admits(operation))
}

/// What counts against a tenant's quota of writes a second: what a caller asked for that frees nothing.
pub(super) fn counts_as_write(command: &Command) -> bool {
    let administers = command.operation.as_ref().is_some_and(is_administrative);
    !frees_space(command) && !is_repeatable(command) && !administers
}

/// Refuses what needs a higher feature level than this leader has applied: in the log it would stop every node of an older version. An
/// earlier leader may have applied a raise that this one has not yet, and executed the command then.
pub(super) fn above_level(command: &Command, progress: Progress) -> Option<Outcome> {
    let header = ReplyHeader {
        index: progress.index,
        clock_ms: progress.clock_ms,
        ..ReplyHeader::default()
    };
    let refused = Refused {
        refusal: Refusal::FeatureLevel.into(),
        header: Some(header),
        ..Refused::default()
    };
    (command.feature_level > progress.feature_level).then_some(Outcome {
        outcome: Some(Kind::Refused(refused)),
    })
}

#[cfg(test)]
mod tests {
    use helve_proto::{
        command::v1::command::Operation,
        v1::{ClaimRequest, claim_request::Action},
    };

    use super::*;

    #[test]
    fn what_a_caller_writes_counts_against_its_rate_and_what_frees_space_does_not() {
        let counts = |operation| {
            counts_as_write(&Command {
                operation: Some(operation),
                ..Command::default()
            })
        };
        let claim = |action| {
            Operation::Claim(ClaimRequest {
                action: Some(action),
                ..ClaimRequest::default()
            })
        };
        for written in [
            Operation::Mint(Default::default()),
            Operation::Put(Default::default()),
            Operation::Renew(Default::default()),
            Operation::Store(Default::default()),
            Operation::BatchStore(Default::default()),
            Operation::Transact(Default::default()),
            claim(Action::Begin(Default::default())),
            claim(Action::Finish(Default::default())),
        ] {
            assert!(counts(written.clone()), "{written:?}");
        }
        for freed in [
            Operation::Delete(Default::default()),
            Operation::DeleteKey(Default::default()),
            Operation::Take(Default::default()),
            Operation::Tick(Default::default()),
            claim(Action::Abandon(Default::default())),
        ] {
            assert!(!counts(freed.clone()), "{freed:?}");
        }
    }

    #[test]
    fn what_is_above_the_clusters_level_is_refused_before_it_is_appended() {
        let command = |feature_level| Command {
            feature_level,
            ..Command::default()
        };
        let progress = Progress {
            feature_level: 1,
            ..Progress::default()
        };
        assert_eq!(above_level(&command(1), progress), None);
        let Some(Kind::Refused(refused)) =
            above_level(&command(2), progress).and_then(|refused| refused.outcome)
        else {
            panic!("not refused");
        };
        assert_eq!(refused.refusal(), Refusal::FeatureLevel);
    }
}
