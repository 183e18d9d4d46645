//! Commands that another node forwarded to this one.

use std::time::Duration;

use helve_proto::{
    Reason,
    command::v1::{Command, command::Operation},
    peer::v1::{
        ForwardAnswer, ForwardBatch, ForwardCall, ForwardReply, Rejected, forward_answer::Answer,
        rejected::Reason as RejectReason,
    },
};
use prost::Message;
use tokio::time::Instant;

use super::audited::Peer;
use crate::{
    attempt::{Attempt, Rejection, Timed},
    audit::{self, Audit, Class, Event},
    excerpt::head,
    limits::{AUDIT_NAME_BYTES_MAX, FORWARD_BYTES_MAX},
    propose::Proposer,
};

/// Executes a batch, if this node leads, and answers in messages that are not too large. Its administrative commands are recorded here
/// as well as on the node that took them: a process that acts as a node leaves a line.
pub(super) async fn execute(
    proposer: Proposer,
    audit: Audit,
    peer: Peer,
    batch: ForwardBatch,
) -> Vec<ForwardReply> {
    let now = Instant::now();
    let from = batch.header.as_ref().map_or(0, |header| header.from);
    let recorded = batch.calls.iter().map(|call| {
        let command = call.command.as_deref();
        command.and_then(|command| forwarded_event(command, from, peer))
    });
    let recorded: Vec<Option<Event>> = recorded.collect();
    let (ids, commands): (Vec<u64>, Vec<Timed>) = batch
        .calls
        .into_iter()
        .map(|call| (call.correlation_id, timed(call, now)))
        .unzip();
    let attempts = proposer.execute_here(commands).await;
    for (event, attempt) in recorded.into_iter().zip(&attempts) {
        if let Some(event) = event {
            let outcome = outcome(attempt);
            audit.record(Event { outcome, ..event });
        }
    }
    let leader_id = proposer.leader_id();
    let mut replies = vec![ForwardReply::default()];
    let mut bytes = 0;
    for (correlation_id, attempt) in ids.into_iter().zip(attempts) {
        let answer = ForwardAnswer {
            correlation_id,
            answer: Some(answer(attempt, leader_id)),
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

/// What is recorded of a command that a node forwarded, if it is an administrative one.
pub(super) fn forwarded_event(command: &Command, from: u64, peer: Peer) -> Option<Event> {
    let operation = match command.operation.as_ref()? {
        Operation::CreateToken(_) => "CreateToken",
        Operation::RevokeToken(_) => "RevokeToken",
        Operation::SetTenant(_) => "SetTenant",
        _ => return None,
    };
    let subject = format!("forwarded by node {from}");
    Some(Event {
        tenant: head(&command.tenant, AUDIT_NAME_BYTES_MAX).to_owned(),
        principal: head(&command.principal, AUDIT_NAME_BYTES_MAX).to_owned(),
        peer,
        targets: vec![audit::Target {
            subject: Some(subject),
            ..audit::Target::default()
        }],
        ..Event::of(Class::Admin, operation)
    })
}

/// How the command ended, in the words of the audit log.
fn outcome(attempt: &Attempt) -> &'static str {
    match attempt {
        Attempt::Outcome(_) => "OK",
        Attempt::Rejected(rejection) => reject_reason(*rejection).as_str_name(),
        Attempt::Unknown(_) => Reason::Ambiguous.as_str(),
    }
}

pub(super) fn timed(call: ForwardCall, now: Instant) -> Timed {
    Timed {
        // A call without a command gets the default one, which the machine refuses.
        command: call.command.unwrap_or_default(),
        deadline: now + Duration::from_millis(call.timeout_ms.into()),
    }
}

fn answer(attempt: Attempt, leader_id: u64) -> Answer {
    match attempt {
        Attempt::Outcome(outcome) => Answer::Outcome(outcome),
        Attempt::Rejected(rejection) => Answer::Rejected(Rejected {
            reason: reject_reason(rejection).into(),
            leader_id,
        }),
        Attempt::Unknown(why) => Answer::Unknown(why),
    }
}

fn reject_reason(rejection: Rejection) -> RejectReason {
    match rejection {
        Rejection::NotLeading => RejectReason::NotLeader,
        Rejection::Overloaded => RejectReason::Overloaded,
        Rejection::DiskFull => RejectReason::DiskFull,
        Rejection::WriteRate => RejectReason::WriteRate,
        Rejection::Stopping => RejectReason::Stopping,
    }
}

#[cfg(test)]
mod tests {
    use helve_machine::level::is_administrative;
    use helve_proto::v1::{CreateTokenRequest, MintRequest, RevokeTokenRequest, SetTenantRequest};
    use proptest::prelude::*;

    use super::*;
    use crate::properties::{bytes_like, check};

    #[test]
    fn administrative_commands_alone_are_recorded_when_forwarded() {
        let of = |operation| {
            let command = Command {
                tenant: "acme".to_owned(),
                principal: "root".to_owned(),
                operation: Some(operation),
                ..Command::default()
            };
            forwarded_event(&command, 3, None)
        };
        for (operation, name) in [
            (
                Operation::CreateToken(CreateTokenRequest::default()),
                "CreateToken",
            ),
            (
                Operation::RevokeToken(RevokeTokenRequest::default()),
                "RevokeToken",
            ),
            (
                Operation::SetTenant(SetTenantRequest::default()),
                "SetTenant",
            ),
        ] {
            assert!(is_administrative(&operation));
            let event = of(operation).unwrap();
            assert_eq!((event.operation, event.class), (name, Class::Admin));
            assert_eq!((&*event.tenant, &*event.principal), ("acme", "root"));
            let subject = event.targets[0].subject.as_deref();
            assert_eq!(subject, Some("forwarded by node 3"));
        }
        assert!(of(Operation::Mint(MintRequest::default())).is_none());
    }

    #[test]
    fn commands_that_a_peer_makes_up_keep_their_deadlines_and_their_words() {
        let call = ForwardCall {
            correlation_id: 7,
            timeout_ms: 5_000,
            command: Some(Box::new(Command {
                tenant: "default".to_owned(),
                fingerprint: vec![1; 16].into(),
                ..Command::default()
            })),
        };
        let batch = ForwardBatch {
            header: None,
            calls: vec![call.clone(), call],
        };
        let now = Instant::now();
        let longest = Duration::from_millis(u32::MAX.into());
        check(&bytes_like(vec![batch.encode_to_vec()]), |bytes| {
            let Ok(batch) = ForwardBatch::decode(bytes.as_slice()) else {
                return Ok(());
            };
            let again = ForwardBatch::decode(batch.encode_to_vec().as_slice());
            prop_assert_eq!(again.as_ref(), Ok(&batch));
            for call in batch.calls {
                let sent = call.command.clone().unwrap_or_default();
                let timed = timed(call, now);
                prop_assert!(timed.deadline >= now && timed.deadline <= now + longest);
                prop_assert_eq!(timed.command, sent);
            }
            Ok(())
        });
    }
}
