//! What was done: mutations with their retries, each of which takes effect once or never.

use std::collections::HashMap;

use helve_client::{
    ErrorKind,
    v1::{CallIdentity, call_identity::Identity, exchange_answer::Answer, exchange_call::Call},
};

use super::{
    bounds::Bounds,
    told::{self, Heard},
    verdict::{Finding, Rule},
};
use crate::{
    history::{Effect, Event, Outcome, Reply, Request},
    model::{Name, Part, Target, parts},
};

/// What became of a mutation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Its reply tells its place in the log.
    Told { index: u64, clock_ms: u64 },
    /// No client was told, but what it wrote was seen.
    Shown { index: u64, clock_ms: u64 },
    /// It met another revision, somewhere in the log.
    Conflict { revision: u64, part: usize },
    /// It may stand anywhere behind its invocation, or nowhere.
    Unknown,
    /// The client says that it is not in the log.
    Denied,
}

/// A mutation, its retries included.
#[derive(Debug)]
pub(super) struct Mutation {
    /// Its call, and the retries that its caller made under the same identity.
    pub(super) events: Vec<usize>,
    /// The event that tells its fate.
    pub(super) teller: usize,
    pub(super) parts: Vec<Part>,
    /// Which record each part is about; `None` for a mint whose id is unknown.
    pub(super) names: Vec<Option<Name>>,
    pub(super) fate: Fate,
    /// It is after this index.
    pub(super) after: u64,
}

impl Mutation {
    /// Its place in the log, if that is known, and the clock there.
    pub(super) fn place(&self) -> Option<(u64, u64)> {
        match self.fate {
            Fate::Told { index, clock_ms } | Fate::Shown { index, clock_ms } => {
                Some((index, clock_ms))
            }
            Fate::Conflict { .. } | Fate::Unknown | Fate::Denied => None,
        }
    }

    pub(super) fn call<'a>(&self, events: &'a [Event]) -> &'a Call {
        match &events[self.events[0]].request {
            Request::Call(call) => call,
            Request::ListHandles(_) | Request::ListKeys(_) => {
                unreachable!("mutations are made of mutations")
            }
        }
    }

    /// What was told of each part.
    pub(super) fn heard<'a>(&self, events: &'a [Event]) -> Vec<Option<Heard<'a>>> {
        let told = match (&self.fate, told::reply(&events[self.teller])) {
            (Fate::Told { .. }, Some(Reply::Answer(answer))) => {
                told::heard(self.call(events), answer)
            }
            _ => None,
        };
        told.unwrap_or_else(|| vec![Some(Heard::Shown); self.parts.len()])
    }
}

/// Puts mutations and their retries together.
pub(super) fn group(events: &[Event]) -> (Vec<Vec<usize>>, Vec<Finding>) {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut by_identity: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut findings = Vec::new();
    for event in events.iter().filter(|event| event.is_mutation()) {
        let Request::Call(call) = &event.request else {
            continue;
        };
        let Some(identity) = identity(call).and_then(key) else {
            groups.push(vec![event.number]);
            continue;
        };
        let group = *by_identity.entry(identity).or_insert(groups.len());
        if group == groups.len() {
            groups.push(vec![event.number]);
            continue;
        }
        let first = groups[group][0];
        let is_same =
            matches!(&events[first].request, Request::Call(first) if asks_the_same(first, call));
        if is_same {
            groups[group].push(event.number);
        } else if event.effect() == Effect::Told {
            findings.push(Finding {
                rule: Rule::Once,
                events: vec![first, event.number],
                text: format!(
                    "#{} bears the identity of #{first}, asks another thing, and was answered",
                    event.number
                ),
            });
        }
    }
    (groups, findings)
}

fn asks_the_same(first: &Call, retry: &Call) -> bool {
    match (first, retry) {
        (Call::Claim(first), Call::Claim(retry)) => first == retry,
        _ => parts(first) == parts(retry),
    }
}

/// The mutation of a group.
pub(super) fn mutation(events: &[Event], group: Vec<usize>, bounds: &Bounds) -> Mutation {
    let (teller, fate) = fate(events, &group);
    let Request::Call(call) = &events[group[0]].request else {
        unreachable!("groups are made of mutations")
    };
    let parts = parts(call);
    let mut mutation = Mutation {
        after: bounds.after(events[group[0]].invoked_ns).0,
        names: parts.iter().map(|part| named(&part.target)).collect(),
        events: group,
        teller,
        parts,
        fate,
    };
    let heard = mutation.heard(events);
    for ((name, part), heard) in mutation.names.iter_mut().zip(&mutation.parts).zip(heard) {
        if let (
            Target::Minted { store, owner, .. },
            Some(Heard::Done {
                info: Some(info), ..
            }),
        ) = (&part.target, heard)
        {
            *name = Some(Name::handle(store, owner, &info.name));
        }
    }
    mutation
}

fn named(target: &Target) -> Option<Name> {
    match target {
        Target::Named(name) => Some(name.clone()),
        Target::Minted { .. } => None,
    }
}

/// The plainest word that any of the tries was told.
fn fate(events: &[Event], group: &[usize]) -> (usize, Fate) {
    let word = |number: &usize| {
        let event = &events[*number];
        let fate = match (&event.outcome, told::view(event)) {
            (Outcome::Answered(_), Some((index, clock_ms))) => Fate::Told { index, clock_ms },
            (
                Outcome::Failed {
                    kind:
                        ErrorKind::Conflict {
                            revision,
                            operation,
                        },
                    ..
                },
                _,
            ) => Fate::Conflict {
                revision: *revision,
                part: *operation as usize,
            },
            _ if event.effect() == Effect::Denied => Fate::Denied,
            _ => Fate::Unknown,
        };
        let plainness = match fate {
            Fate::Told { .. } | Fate::Shown { .. } => 0,
            Fate::Conflict { .. } => 1,
            Fate::Unknown => 2,
            Fate::Denied => 3,
        };
        (plainness, *number, fate)
    };
    let plainest = group
        .iter()
        .map(word)
        .min_by_key(|(plainness, ..)| *plainness);
    let (_, teller, fate) = plainest.expect("a group has its first call");
    (teller, fate)
}

/// Retries are told the same, and no two mutations have one index.
pub(super) fn check_once(events: &[Event], mutations: &[Mutation]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut by_index: HashMap<u64, usize> = HashMap::new();
    for mutation in mutations {
        let told: Vec<_> = mutation
            .events
            .iter()
            .filter_map(|number| Some((*number, bare(told::reply(&events[*number])?))))
            .collect();
        for pair in told.windows(2) {
            if pair[0].1 != pair[1].1 {
                findings.push(Finding {
                    rule: Rule::Once,
                    events: vec![pair[0].0, pair[1].0],
                    text: format!(
                        "#{} and its retry #{} were told different things: {:?} and {:?}",
                        pair[0].0, pair[1].0, pair[0].1, pair[1].1
                    ),
                });
            }
        }
        let conflict = mutation.events.iter().find(|number| {
            let outcome = &events[**number].outcome;
            matches!(
                outcome,
                Outcome::Failed {
                    kind: ErrorKind::Conflict { .. },
                    ..
                }
            )
        });
        if let (Some((answered, _)), Some(conflict)) = (told.first(), conflict) {
            findings.push(Finding {
                rule: Rule::Once,
                events: vec![*answered, *conflict],
                text: format!("#{answered} was answered, and under the same identity #{conflict} met a conflict"),
            });
        }
        let Some((index, _)) = mutation.place() else {
            continue;
        };
        if let Some(other) = by_index.insert(index, mutation.teller) {
            findings.push(Finding {
                rule: Rule::Once,
                events: vec![other, mutation.teller],
                text: format!(
                    "#{other} and #{} both have log index {index}",
                    mutation.teller
                ),
            });
        }
    }
    findings
}

/// A reply without its hint, which may differ from node to node.
fn bare(reply: &Reply) -> Reply {
    let mut reply = reply.clone();
    if let Reply::Answer(answer) = &mut reply {
        let header = match answer {
            Answer::Mint(reply) => reply.header.as_mut(),
            Answer::Put(reply) => reply.header.as_mut(),
            Answer::Take(reply) => reply.header.as_mut(),
            Answer::Renew(reply) => reply.header.as_mut(),
            Answer::Delete(reply) => reply.header.as_mut(),
            Answer::Claim(reply) => reply.header.as_mut(),
            Answer::Store(reply) => reply.header.as_mut(),
            Answer::DeleteKey(reply) => reply.header.as_mut(),
            Answer::BatchStore(reply) => reply.header.as_mut(),
            Answer::Transact(reply) => reply.header.as_mut(),
            _ => None,
        };
        if let Some(header) = header {
            header.leader_hint.clear();
        }
    }
    reply
}

fn identity(call: &Call) -> Option<&CallIdentity> {
    match call {
        Call::Mint(call) => call.identity.as_ref(),
        Call::Put(call) => call.identity.as_ref(),
        Call::Take(call) => call.identity.as_ref(),
        Call::Renew(call) => call.identity.as_ref(),
        Call::Delete(call) => call.identity.as_ref(),
        Call::Claim(call) => call.identity.as_ref(),
        Call::Store(call) => call.identity.as_ref(),
        Call::DeleteKey(call) => call.identity.as_ref(),
        Call::BatchStore(call) => call.identity.as_ref(),
        Call::Transact(call) => call.identity.as_ref(),
        _ => None,
    }
}

fn key(identity: &CallIdentity) -> Option<Vec<u8>> {
    Some(match identity.identity.as_ref()? {
        Identity::RequestId(id) => [b"r", &id[..]].concat(),
        Identity::Session(call) => [b"s", &call.session_id[..], &call.seq.to_be_bytes()].concat(),
    })
}
