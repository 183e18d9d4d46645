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
use tokio::{sync::mpsc, time::Instant};
use tonic::Status;

use super::audited::Peer;
use crate::{
    attempt::{Attempt, Rejection, Timed},
    audit::{self, Audit, Class, Event},
    excerpt::head,
    limits::{AUDIT_NAME_BYTES_MAX, FORWARD_BYTES_MAX},
    propose::{Answered, Answers, Proposer},
    traces::Span,
};

/// A batch that is executed, if this node leads. Its administrative commands are recorded here as well as on the node that took them: a
/// process that acts as a node leaves a line.
pub(super) struct Executing {
    proposer: Proposer,
    audit: Audit,
    /// The calls by their places in the batch; nothing of those that were answered.
    calls: Vec<Option<Call>>,
    /// When the stream ends, commands that still wait go with it.
    attempts: Answers,
}

/// A call that is not answered yet.
struct Call {
    correlation_id: u64,
    /// What is recorded of it.
    event: Option<Event>,
    _span: Option<Span>,
}

impl Executing {
    /// Has the commands of a batch wait for their turns, behind those of the same tenants that wait on this node already. No order of
    /// execution follows from that: commands of other nodes, and those that are tried again, come between them.
    pub(super) fn begin(proposer: Proposer, audit: Audit, peer: Peer, batch: ForwardBatch) -> Self {
        let now = Instant::now();
        let from = batch.header.as_ref().map_or(0, |header| header.from);
        let mut calls = Vec::with_capacity(batch.calls.len());
        let mut commands = Vec::with_capacity(batch.calls.len());
        for call in batch.calls {
            let command = call.command.as_deref();
            let event = command.and_then(|command| forwarded_event(command, from, peer));
            let parent = call.span.as_ref();
            let span = parent.and_then(|parent| proposer.traces().forwarded(parent));
            let trace = span.as_ref().map(|span| span.trace().clone());
            calls.push(Some(Call {
                correlation_id: call.correlation_id,
                event,
                _span: span,
            }));
            commands.push(Timed {
                trace,
                ..timed(call, now)
            });
        }
        let attempts = proposer.execute_here(commands);
        Self {
            proposer,
            audit,
            calls,
            attempts,
        }
    }

    /// Answers each call once it is known what became of it, together with those of which that is known, too.
    pub(super) async fn answer(mut self, replies: mpsc::Sender<Result<ForwardReply, Status>>) {
        let mut left = self.calls.len();
        while left > 0 {
            let mut received = Vec::new();
            let messages = self.attempts.recv_many(&mut received, left).await;
            let attempts = match messages {
                0 => self.lost(),
                _ => received.into_iter().flatten().collect(),
            };
            left = left.saturating_sub(attempts.len());
            for reply in self.replies(attempts) {
                if replies.send(Ok(reply)).await.is_err() {
                    return;
                }
            }
        }
    }

    /// What is said of all calls that were not answered when no more answers come.
    fn lost(&self) -> Answered {
        let unanswered = self.calls.iter().enumerate();
        let unanswered = unanswered.filter(|(_, call)| call.is_some());
        let lost = || Attempt::Unknown("no answer within the deadline".to_owned());
        unanswered.map(|(at, _)| (at, lost())).collect()
    }

    /// The answers, in messages that are not too large.
    fn replies(&mut self, attempts: Answered) -> Vec<ForwardReply> {
        let leader_id = self.proposer.leader_id();
        let mut replies: Vec<ForwardReply> = Vec::new();
        let mut bytes = 0;
        for (at, attempt) in attempts {
            let Some(call) = self.calls.get_mut(at).and_then(Option::take) else {
                continue;
            };
            let correlation_id = call.correlation_id;
            if let Some(event) = call.event {
                let outcome = outcome(&attempt);
                self.audit.record(Event { outcome, ..event });
            }
            let answer = ForwardAnswer {
                correlation_id,
                answer: Some(answer(attempt, leader_id)),
            };
            let answer_bytes = answer.encoded_len();
            match replies.last_mut() {
                Some(reply) if bytes + answer_bytes <= FORWARD_BYTES_MAX => {
                    reply.answers.push(answer);
                }
                _ => {
                    bytes = 0;
                    let answers = vec![answer];
                    replies.push(ForwardReply { answers });
                }
            }
            bytes += answer_bytes;
        }
        replies
    }
}

impl Drop for Executing {
    /// Records the commands that were not answered. Without this, a process that acts as a node could end its stream before the answer,
    /// and leave no line of a command that was executed.
    fn drop(&mut self) {
        let unanswered = self.calls.iter_mut().filter_map(Option::take);
        for event in unanswered.filter_map(|call| call.event) {
            // Its outcome is still that of a caller who went away.
            self.audit.record(event);
        }
    }
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
        trace: None,
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
        Rejection::Overloaded(_) => RejectReason::Overloaded,
        Rejection::DiskFull => RejectReason::DiskFull,
        Rejection::WriteRate => RejectReason::WriteRate,
        Rejection::Stopping => RejectReason::Stopping,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use helve_machine::level::is_administrative;
    use helve_proto::peer::v1 as proto;
    use helve_proto::v1::{CreateTokenRequest, MintRequest, RevokeTokenRequest, SetTenantRequest};
    use proptest::prelude::*;

    use super::*;
    use crate::{
        limits::{EXECUTE_BATCHES_MAX, EXECUTE_COMMANDS_MAX},
        node::Alone,
        properties::{bytes_like, check},
    };

    fn call(correlation_id: u64, tenant: &str) -> ForwardCall {
        let command = Command {
            tenant: tenant.to_owned(),
            ..Command::default()
        };
        ForwardCall {
            correlation_id,
            timeout_ms: 60_000,
            command: Some(Box::new(command)),
            span: None,
        }
    }

    #[tokio::test]
    async fn call_behind_many_of_another_tenant_is_answered_early() {
        let Alone {
            consensus,
            services,
            ..
        } = &Alone::start().await;
        let us = consensus.identity();
        let members = BTreeMap::from([(us.node_id(), us.record().clone())]);
        consensus.initialize(members).await.unwrap();
        let led = consensus.wait_leading(|leading| leading.here).await;
        led.unwrap();

        // More batches than are under way at once.
        let many = (EXECUTE_BATCHES_MAX + 2) * EXECUTE_COMMANDS_MAX;
        let last = u64::try_from(many).unwrap();
        let mut calls: Vec<_> = (0..last).map(|id| call(id, "greedy")).collect();
        calls.push(call(last, "honest"));
        let batch = ForwardBatch {
            header: None,
            calls,
        };
        let proposer = Proposer::clone(&services.proposer);
        let (replies, mut received) = mpsc::channel(many + 1);
        let executing = Executing::begin(proposer, Audit::default(), None, batch);
        executing.answer(replies).await;
        let mut answered = Vec::new();
        while let Some(reply) = received.recv().await {
            answered.extend(reply.unwrap().answers);
        }
        let outcome = |it: &ForwardAnswer| matches!(it.answer, Some(Answer::Outcome(_)));
        assert!(answered.iter().all(outcome));
        let mut ids: Vec<_> = answered.iter().map(|it| it.correlation_id).collect();
        let at = ids.iter().position(|id| *id == last).unwrap();
        assert!(at < EXECUTE_BATCHES_MAX * EXECUTE_COMMANDS_MAX, "{at}");
        ids.sort_unstable();
        assert_eq!(ids, (0..=last).collect::<Vec<_>>(), "each once");
    }

    #[tokio::test]
    async fn calls_to_a_node_that_does_not_lead_are_each_refused() {
        let Alone { services, .. } = &Alone::start().await;
        let batch = ForwardBatch {
            header: None,
            calls: vec![call(7, "acme"), call(8, "shop")],
        };
        let proposer = Proposer::clone(&services.proposer);
        let (replies, mut received) = mpsc::channel(2);
        let executing = Executing::begin(proposer, Audit::default(), None, batch);
        executing.answer(replies).await;
        let mut ids = Vec::new();
        while let Some(reply) = received.recv().await {
            for answer in reply.unwrap().answers {
                let Some(Answer::Rejected(rejected)) = &answer.answer else {
                    panic!("not refused: {answer:?}");
                };
                assert_eq!(rejected.reason(), RejectReason::NotLeader);
                ids.push(answer.correlation_id);
            }
        }
        assert_eq!(ids, [7, 8]);
    }

    #[tokio::test]
    async fn forwarded_command_without_an_answer_leaves_a_line() {
        let node = Alone::start().await;
        let mut call = call(7, "acme");
        let operation = Operation::SetTenant(SetTenantRequest::default());
        call.command.as_mut().unwrap().operation = Some(operation);
        let batch = ForwardBatch {
            header: None,
            calls: vec![call],
        };
        let proposer = Proposer::clone(&node.services.proposer);
        let audit = node.services.access_check().audit().clone();
        drop(Executing::begin(proposer, audit, None, batch));
        let line = ["SetTenant", "acme", "", "CANCELLED"];
        assert_eq!(node.recorded(), [line]);
    }

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
            span: Some(proto::Span::default()),
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
