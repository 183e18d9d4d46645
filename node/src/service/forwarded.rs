//! Commands that another node forwarded to this one.

use helve_proto::{
    command::v1::Command,
    peer::v1::{
        ForwardAnswer, ForwardBatch, ForwardReply, Rejected, forward_answer::Answer,
        rejected::Reason as RejectReason,
    },
};
use prost::Message;

use crate::{
    limits::FORWARD_BYTES_MAX,
    propose::{Attempt, Proposer, Rejection},
};

/// Executes a batch, if this node leads, and answers in messages that are not too large.
pub(super) async fn execute(proposer: Proposer, batch: ForwardBatch) -> Vec<ForwardReply> {
    let (ids, commands): (Vec<u64>, Vec<Option<Command>>) = batch
        .calls
        .into_iter()
        .map(|call| (call.correlation_id, call.command))
        .unzip();
    // A call without a command gets the default one, which the machine refuses.
    let commands = commands
        .into_iter()
        .map(Option::unwrap_or_default)
        .collect();
    let attempts = proposer.execute_here(commands).await;
    let mut replies = vec![ForwardReply::default()];
    let mut bytes = 0;
    for (correlation_id, attempt) in ids.into_iter().zip(attempts) {
        let answer = ForwardAnswer {
            correlation_id,
            answer: Some(answer(attempt)),
        };
        let answer_bytes = answer.encoded_len();
        if bytes > 0 && bytes + answer_bytes > FORWARD_BYTES_MAX {
            replies.push(ForwardReply::default());
            bytes = 0;
        }
        bytes += answer_bytes;
        replies
            .last_mut()
            .expect("there is one from the start")
            .answers
            .push(answer);
    }
    replies
}

fn answer(attempt: Attempt) -> Answer {
    match attempt {
        Attempt::Outcome(outcome) => Answer::Outcome(*outcome),
        Attempt::Rejected(rejection) => Answer::Rejected(Rejected {
            reason: reject_reason(rejection).into(),
            leader_id: 0,
        }),
        Attempt::Unknown(why) => Answer::Unknown(why),
    }
}

fn reject_reason(rejection: Rejection) -> RejectReason {
    match rejection {
        Rejection::NotLeading => RejectReason::NotLeader,
        Rejection::Overloaded => RejectReason::Overloaded,
        Rejection::DiskFull => RejectReason::DiskFull,
        Rejection::Stopping => RejectReason::Stopping,
    }
}
