//! The second judge: each record by itself, by the times of its calls alone. It trusts no log index: it searches for an order of the
//! calls on one record in which each does what it was told, with a checker that we did not write.
//!
//! Records that may expire are left to the main judge: time is no call.

mod record;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use bytes::Bytes;
use helve_client::v1::{RecordInfo, exchange_answer::Answer, exchange_call::Call};
use porcupine_rs::{CheckResult, Operation, check_operations_timeout};

use self::record::{Move, Record};
use super::{
    describe,
    evidence::Pin,
    mutations::{Fate, Mutation},
    told::{self, Heard},
    verdict::{Finding, Rule},
};
use crate::{
    history::{Event, Reply, Request},
    model::{Act, Name, Write},
};

/// How long one record is searched. What is not found by then is undecided.
const SEARCH: Duration = Duration::from_secs(5);

/// The second judge's verdict.
#[derive(Debug, Default)]
pub(super) struct Searched {
    pub(super) findings: Vec<Finding>,
    pub(super) undecided: Vec<String>,
    /// How many records were searched.
    pub(super) searched: usize,
}

/// Judges each record by itself, until then at most.
pub(super) fn judge(
    events: &[Event],
    mutations: &[Mutation],
    pins: &[Pin],
    until: Instant,
) -> Searched {
    let mut searched = Searched::default();
    for (name, calls) in records(events, mutations, pins) {
        if calls.expires {
            continue;
        }
        searched.searched += 1;
        match check(&calls, until) {
            CheckResult::Ok => {}
            CheckResult::Unknown => searched.undecided.push(format!(
                "{name}: no order of its {} calls was found in {SEARCH:?}, or in the time that was left",
                calls.told.len() + calls.unknown.len()
            )),
            CheckResult::Illegal => {
                searched.findings.push(finding(events, &name, &calls, until));
            }
        }
    }
    searched
}

/// All calls on one record.
#[derive(Debug, Default)]
struct Calls {
    told: Vec<Operation<Record>>,
    unknown: Vec<Operation<Record>>,
    /// Whether the record may have expired.
    expires: bool,
}

/// That an unknown call had no effect is always possible, and the quickest to check.
fn check(calls: &Calls, until: Instant) -> CheckResult {
    let without = check_operations(&calls.told, until);
    if without != CheckResult::Illegal || calls.unknown.is_empty() {
        return without;
    }
    // Those whose value was seen explain most; the others cost the most to search.
    let is_seen = |unknown: &&Operation<Record>| match &unknown.op {
        Move::Perhaps(op) => match &**op {
            Move::Wrote { value, .. } => calls.told.iter().any(|told| shows(&told.op, value)),
            _ => true,
        },
        _ => true,
    };
    let seen: Vec<_> = calls.unknown.iter().filter(is_seen).cloned().collect();
    let with_seen = check_operations(&[&calls.told[..], &seen].concat(), until);
    if with_seen != CheckResult::Illegal || seen.len() == calls.unknown.len() {
        return with_seen;
    }
    check_operations(&[&calls.told[..], &calls.unknown].concat(), until)
}

fn check_operations(operations: &[Operation<Record>], until: Instant) -> CheckResult {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return CheckResult::Unknown;
    }
    check_operations_timeout(operations, SEARCH.min(left))
}

fn shows(op: &Move, value: &Bytes) -> bool {
    match op {
        Move::Saw { value: shown, .. } => shown.as_ref().is_none_or(|shown| shown == value),
        Move::Took {
            value: Some(shown), ..
        } => shown == value,
        _ => false,
    }
}

fn records(events: &[Event], mutations: &[Mutation], pins: &[Pin]) -> BTreeMap<Name, Calls> {
    let mut records: BTreeMap<Name, Calls> = BTreeMap::new();
    for mutation in mutations {
        add_call(&mut records, events, mutation, &mutation.names);
    }
    for writer in pins.iter().flat_map(|pin| &pin.writers) {
        // Mints, whose ids are those that were shown if they made them.
        let mutation = &mutations[writer.mutation];
        let drawn = writer.names.iter().zip(&mutation.names);
        let drawn = drawn.map(|(name, known)| name.clone().filter(|_| known.is_none()));
        add_call(&mut records, events, mutation, &drawn.collect::<Vec<_>>());
    }
    for event in events {
        for (name, op) in looks(event) {
            let calls = records.entry(name).or_default();
            calls.told.push(operation(event, event, op));
        }
    }
    records
}

fn add_call(
    records: &mut BTreeMap<Name, Calls>,
    events: &[Event],
    mutation: &Mutation,
    names: &[Option<Name>],
) {
    let (first, teller) = (&events[mutation.events[0]], &events[mutation.teller]);
    let heard = mutation.heard(events);
    let parts = mutation.parts.iter().zip(names).zip(heard).enumerate();
    for (number, ((part, name), heard)) in parts {
        let Some(name) = name else { continue };
        let calls = records.entry(name.clone()).or_default();
        calls.expires |= may_expire(&part.act);
        match mutation.fate {
            Fate::Told { .. } => {
                if let Some(op) = heard.and_then(|heard| did(&part.act, &heard)) {
                    calls.told.push(operation(first, teller, op));
                }
            }
            Fate::Conflict { revision, part } if part == number => {
                calls
                    .told
                    .push(operation(first, teller, Move::Met(revision)));
            }
            Fate::Conflict { .. } | Fate::Denied => {}
            Fate::Shown { .. } | Fate::Unknown => {
                if let Some(op) = did(&part.act, &Heard::Shown) {
                    let mut operation = operation(first, teller, Move::Perhaps(Box::new(op)));
                    operation.return_time = i64::MAX;
                    calls.unknown.push(operation);
                }
            }
        }
    }
}

fn may_expire(act: &Act) -> bool {
    use helve_client::v1::lifetime::Absolute;
    let (Act::Write { lifetime, .. } | Act::Renew { lifetime, .. }) = act else {
        return false;
    };
    lifetime.is_some_and(|lifetime| {
        lifetime.idle_ttl_ms.is_some() || matches!(lifetime.absolute, Some(Absolute::AfterMs(_)))
    })
}

/// What a part did. A renewal of what never expires changes nothing here.
fn did(act: &Act, heard: &Heard<'_>) -> Option<Move> {
    let (existed, info, taken) = match heard {
        Heard::NotLive(status) => return Some(Move::SawNone(Some(*status))),
        Heard::Ready => return None,
        Heard::Shown => (None, None, None),
        Heard::Done {
            existed,
            info,
            value,
        } => (*existed, *info, *value),
    };
    match act {
        Act::Write {
            write,
            value,
            if_revision,
            ..
        } => Some(Move::Wrote {
            value: value.clone(),
            revision: info.map(|info| info.revision),
            existed: if *write == Write::Mint {
                Some(false)
            } else {
                existed
            },
            if_revision: *if_revision,
        }),
        Act::Take { if_revision } => {
            let told = matches!(heard, Heard::Done { .. });
            let value = told.then(|| taken.cloned().unwrap_or_default());
            Some(Move::Took {
                value,
                if_revision: *if_revision,
            })
        }
        Act::Delete { if_revision } | Act::DeleteKey { if_revision } => Some(Move::Deleted {
            existed,
            if_revision: *if_revision,
        }),
        Act::Renew { .. } => info.map(|info| Move::Saw {
            value: None,
            revision: info.revision,
        }),
    }
}

/// What a read sees of the records that it names. Lists are for the main judge.
fn looks(event: &Event) -> Vec<(Name, Move)> {
    let (Request::Call(call), Some(Reply::Answer(answer))) = (&event.request, told::reply(event))
    else {
        return Vec::new();
    };
    let saw = |value: &Bytes, info: &RecordInfo| Move::Saw {
        value: Some(value.clone()),
        revision: info.revision,
    };
    match (call, answer) {
        (Call::Get(get), Answer::Get(reply)) => {
            let op = match &reply.info {
                Some(info) => saw(&reply.value, info),
                None => Move::SawNone(Some(reply.status())),
            };
            vec![(Name::handle(&get.store, &get.owner, &get.id), op)]
        }
        (Call::Exists(get), Answer::Exists(reply)) => {
            let op = if reply.exists {
                Move::SawSome
            } else {
                Move::SawNone(None)
            };
            vec![(Name::key(&get.owner, &get.key), op)]
        }
        (Call::Retrieve(get), Answer::Retrieve(reply)) if reply.record.is_none() => {
            vec![(Name::key(&get.owner, &get.key), Move::SawNone(None))]
        }
        (Call::BatchRetrieve(get), Answer::BatchRetrieve(reply)) => {
            let absent = get
                .keys
                .iter()
                .zip(&reply.keys)
                .filter(|(_, key)| key.record.is_none());
            let absent = absent.map(|(key, _)| (Name::key(&get.owner, key), Move::SawNone(None)));
            absent.chain(shown(event)).collect()
        }
        (Call::Retrieve(_), _) => shown(event).collect(),
        _ => Vec::new(),
    }
}

fn shown(event: &Event) -> impl Iterator<Item = (Name, Move)> {
    told::sightings(event).into_iter().map(|sighting| {
        let op = Move::Saw {
            value: sighting.value.cloned(),
            revision: sighting.info.revision,
        };
        (sighting.name, op)
    })
}

fn operation(first: &Event, teller: &Event, op: Move) -> Operation<Record> {
    let ns = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    Operation {
        client_id: u32::try_from(teller.client).ok(),
        call_time: ns(first.invoked_ns),
        return_time: teller.returned_ns.map_or(i64::MAX, ns),
        op,
        metadata: Some(teller.number),
    }
}

/// The calls that cannot be put in order: as few of them, from the first on, as cannot.
fn finding(events: &[Event], name: &Name, calls: &Calls, until: Instant) -> Finding {
    let mut told: Vec<_> = calls.told.clone();
    told.sort_by_key(|operation| operation.return_time);
    let (mut holds, mut breaks) = (0, told.len());
    while breaks - holds > 1 {
        let middle = usize::midpoint(holds, breaks);
        let some = Calls {
            told: told[..middle].to_vec(),
            unknown: calls.unknown.clone(),
            expires: false,
        };
        match check(&some, until) {
            CheckResult::Illegal => breaks = middle,
            CheckResult::Ok | CheckResult::Unknown => holds = middle,
        }
    }
    let from = breaks.saturating_sub(6);
    let numbers: Vec<_> = told[from..breaks]
        .iter()
        .filter_map(|call| call.metadata)
        .collect();
    let lines = numbers
        .iter()
        .map(|number| describe::event(&events[*number]));
    let lines = lines.collect::<Vec<_>>().join("\n    ");
    Finding {
        rule: Rule::Linearizable,
        text: format!(
            "{name}: no order of its calls explains what they were told, up to the last of these:\n    {lines}"
        ),
        events: numbers,
    }
}
