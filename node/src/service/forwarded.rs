//! Commands that another node forwarded to this one.

use std::{mem, sync::Arc, time::Duration};

use data_encoding::HEXLOWER;
use helve_proto::{
    Reason,
    command::v1::{
        Command, Reseal, command::Operation, outcome::Outcome as Kind, resealed_record::Record,
    },
    peer::v1::{
        ForwardAnswer, ForwardBatch, ForwardCall, ForwardReply, Rejected, forward_answer::Answer,
        rejected::Reason as RejectReason,
    },
};
use helve_seal::KEY_ID_BYTES;
use prost::Message;
use tokio::{sync::mpsc, time::Instant};
use tonic::Status;

use super::{
    audited::{Peer, about, named_in},
    failure::Failure,
    status::Problem,
    target::{Target, Targets},
};
use crate::{
    attempt::{Attempt, Rejection, Timed},
    audit::{Audit, Class, Ended, Entry, Event},
    excerpt::head,
    limits::{AUDIT_NAME_BYTES_MAX, FORWARD_BYTES_MAX},
    log_throttle::LogThrottle,
    propose::{Answered, Answers, Proposer},
    traces::Span,
    vault::{UnfitChange, Vault, check_change},
};

/// What a node has for commands that other nodes forward to it. Cheap to clone.
#[derive(Clone)]
pub(super) struct Executor {
    pub(super) proposer: Proposer,
    pub(super) audit: Audit,
    pub(super) vault: Arc<Vault>,
}

impl Executor {
    /// Admits a command, and begins its line if it gets one.
    ///
    /// # Errors
    /// Why it is not executed: it may not be forwarded, or its line cannot be written.
    fn admit(&self, command: &Command, from: u64, peer: Peer) -> Result<Entry, Rejection> {
        let Some(event) = forwarded_event(command, from, peer) else {
            return Ok(Entry::none());
        };
        // A sender that keeps to the rules tries again until its deadline.
        match self.check(command) {
            Ok(()) => self.audit.begin(|| event).map_err(|_| {
                // One that was deposed has no say: the leader's log may be sound.
                match self.proposer.leads() {
                    true => Rejection::Unrecorded,
                    false => Rejection::NotLeading,
                }
            }),
            Err(UnfitChange::Behind) => Err(Rejection::NotLeading),
            Err(UnfitChange::Never(why)) => {
                refused(&why);
                self.audit.record(Event {
                    outcome: Reason::Denied.as_str(),
                    ..event
                });
                Err(Rejection::NotLeading)
            }
        }
    }

    /// Refuses what could stop every node for good. A leader's own commands are not checked: it
    /// proposes none of these.
    fn check(&self, command: &Command) -> Result<(), UnfitChange> {
        match &command.operation {
            // A level that nodes do not know stops them. No node forwards a raise: the leader
            // proposes it through its own log.
            Some(Operation::RaiseFeatureLevel(_)) => {
                let why = "the leader alone raises the feature level";
                Err(UnfitChange::Never(why.to_owned()))
            }
            Some(Operation::SetSealing(change)) => check_change(&self.vault, change),
            _ => Ok(()),
        }
    }
}

fn refused(why: &str) {
    static REFUSED: LogThrottle = LogThrottle::new();
    if let Some(count) = REFUSED.count(Instant::now().into_std()) {
        tracing::warn!(
            why,
            count,
            "forwarded commands were refused; this is the last one"
        );
    }
}

/// A batch that is executed, if this node leads. Its administrative commands are recorded here as well as on the node that took them: a
/// process that acts as a node leaves a line.
pub(super) struct Executing {
    proposer: Proposer,
    /// Answers to calls that are not executed.
    rejected: Vec<ForwardAnswer>,
    /// The other calls by their places among the commands; nothing of those that were answered.
    calls: Vec<Option<Call>>,
    /// When the stream ends, commands that still wait go with it.
    attempts: Answers,
}

/// A call that is not answered yet.
struct Call {
    correlation_id: u64,
    /// It writes its line when it is dropped, too: a process that acts as a node could else end its
    /// stream before the answer, and leave no line of a command that was executed.
    entry: Entry,
    _span: Option<Span>,
}

impl Executing {
    /// Has the commands of a batch wait for their turns, behind those of the same tenants that wait on this node already. No order of
    /// execution follows from that: commands of other nodes, and those that are tried again, come between them.
    pub(super) fn begin(executor: Executor, peer: Peer, batch: ForwardBatch) -> Self {
        let now = Instant::now();
        let from = batch.header.as_ref().map_or(0, |header| header.from);
        let leader_id = executor.proposer.leader_id();
        let mut rejected = Vec::new();
        let mut calls = Vec::with_capacity(batch.calls.len());
        let mut commands = Vec::with_capacity(batch.calls.len());
        for call in batch.calls {
            let correlation_id = call.correlation_id;
            let command = call.command.as_deref();
            let none = || Ok(Entry::none());
            let entry = command.map_or_else(none, |command| executor.admit(command, from, peer));
            let entry = match entry {
                Ok(entry) => entry,
                Err(rejection) => {
                    rejected.push(ForwardAnswer {
                        correlation_id,
                        answer: Some(answer(Attempt::Rejected(rejection), leader_id)),
                    });
                    continue;
                }
            };
            let parent = call.span.as_ref();
            let span = parent.and_then(|parent| executor.proposer.traces().forwarded(parent));
            let trace = span.as_ref().map(|span| span.trace().clone());
            calls.push(Some(Call {
                correlation_id,
                entry,
                _span: span,
            }));
            commands.push(Timed {
                trace,
                ..timed(call, now)
            });
        }
        let attempts = executor.proposer.execute_here(commands);
        Self {
            proposer: executor.proposer,
            rejected,
            calls,
            attempts,
        }
    }

    /// Answers each call once it is known what became of it, together with those of which that is known, too.
    pub(super) async fn answer(mut self, replies: mpsc::Sender<Result<ForwardReply, Status>>) {
        for reply in messages(mem::take(&mut self.rejected)) {
            if replies.send(Ok(reply)).await.is_err() {
                return;
            }
        }
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
        let answers = attempts.into_iter().filter_map(|(at, attempt)| {
            let Call {
                correlation_id,
                entry,
                _span,
            } = self.calls.get_mut(at)?.take()?;
            entry.ended(|| Ended::with(outcome(&attempt)));
            Some(ForwardAnswer {
                correlation_id,
                answer: Some(answer(attempt, leader_id)),
            })
        });
        messages(answers)
    }
}

/// Answers, in messages that are not too large.
fn messages(answers: impl IntoIterator<Item = ForwardAnswer>) -> Vec<ForwardReply> {
    let mut replies: Vec<ForwardReply> = Vec::new();
    let mut bytes = 0;
    for answer in answers {
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

/// What is recorded of a command that a node forwarded; `None` for what callers' reads and writes
/// become: the node that took those records them.
pub(super) fn forwarded_event(command: &Command, from: u64, peer: Peer) -> Option<Event> {
    let one = |target| (vec![target], 0);
    let (operation, (named, more_targets)) = match command.operation.as_ref()? {
        Operation::Mint(_)
        | Operation::Put(_)
        | Operation::Take(_)
        | Operation::Renew(_)
        | Operation::Delete(_)
        | Operation::Claim(_)
        | Operation::Store(_)
        | Operation::DeleteKey(_)
        | Operation::BatchStore(_)
        | Operation::Transact(_)
        | Operation::OpenSession(_)
        | Operation::Tick(_)
        | Operation::Touch(_) => return None,
        Operation::CreateToken(request) => ("CreateToken", named_in(request)),
        Operation::RevokeToken(request) => ("RevokeToken", named_in(request)),
        Operation::SetTenant(request) => ("SetTenant", named_in(request)),
        // What an operator's call becomes.
        Operation::SetSealing(request) => ("SetDataKey", one(about(&data_key(&request.key_id)))),
        Operation::Reseal(request) => ("Reseal", named_in(request)),
        Operation::EndSealing(_) => ("EndSealing", (Vec::new(), 0)),
        Operation::AllocateNodeId(_) => ("AllocateNodeId", (Vec::new(), 0)),
        Operation::SetClusterId(request) => ("SetClusterId", one(about(&request.cluster_id))),
        Operation::RaiseFeatureLevel(request) => {
            let level = format!("level {}", request.level);
            ("RaiseFeatureLevel", one(about(&level)))
        }
        Operation::Probe(_) => ("Probe", (Vec::new(), 0)),
    };
    let mut targets = vec![about(&format!("forwarded by node {from}"))];
    targets.extend(named);
    Some(Event {
        tenant: head(&command.tenant, AUDIT_NAME_BYTES_MAX).to_owned(),
        principal: head(&command.principal, AUDIT_NAME_BYTES_MAX).to_owned(),
        by_operator: is_of_operators(command),
        peer,
        targets,
        more_targets,
        ..Event::of(Class::Admin, operation)
    })
}

/// Whether the line is charged to the operators, whichever tenant the sender names: only tokens are
/// also managed by a tenant's own callers.
fn is_of_operators(command: &Command) -> bool {
    let is_about_tokens = matches!(
        command.operation,
        Some(Operation::CreateToken(_) | Operation::RevokeToken(_))
    );
    command.tenant.is_empty() || !is_about_tokens
}

/// A key, whose id may have any length here.
fn data_key(key_id: &[u8]) -> String {
    match key_id {
        [] => "no data key".to_owned(),
        id => format!(
            "data key {}",
            HEXLOWER.encode(&id[..id.len().min(KEY_ID_BYTES)])
        ),
    }
}

impl Targets for Reseal {
    fn targets<'a>(&'a self, see: &mut dyn FnMut(Target<'a>)) {
        for record in self.records.iter().filter_map(|it| it.record.as_ref()) {
            see(match record {
                Record::Handle(handle) => Target::Handle {
                    store: &handle.store,
                    owner: &handle.owner,
                    id: Some(handle.id.as_str()),
                },
                Record::Key(key) => Target::Key {
                    owner: &key.owner,
                    key: &key.key,
                },
            });
        }
    }
}

/// How the command ended, in the words of the audit log.
fn outcome(attempt: &Attempt) -> &'static str {
    match attempt {
        Attempt::Outcome(outcome) => match &outcome.outcome {
            Some(Kind::Refused(refused)) => {
                let problem = Problem::from(Failure::Refused(refused.clone()));
                problem.reason().as_str()
            }
            _ => "OK",
        },
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
        Rejection::Unrecorded => RejectReason::AuditFailing,
    }
}

#[cfg(test)]
mod tests;
