//! Events, and what the model holds, in words.

use bytes::Bytes;
use helve_client::v1::{HandleStatus, exchange_answer::Answer, exchange_call::Call};

use super::{
    possible_states::UNSEEN,
    told::{self, Heard},
};
use crate::{
    history::{Event, Outcome, Reply, Request},
    model::{Act, Cell, Name, Part, Target, parts},
};

/// More of a value says no more.
const SHOWN_BYTES: usize = 40;

/// Who asked what, when, and was told what.
pub(super) fn event(event: &Event) -> String {
    let ms = |ns: u64| ns as f64 / 1e6;
    let until = match event.returned_ns {
        Some(ns) => format!("{:.3}", ms(ns)),
        None => "never".to_owned(),
    };
    format!(
        "#{} (client {}, {:.3} to {until} ms): {} -> {}",
        event.number,
        event.client,
        ms(event.invoked_ns),
        request(&event.request),
        outcome(event)
    )
}

fn request(request: &Request) -> String {
    let call = match request {
        Request::Call(call) => call,
        Request::ListHandles(list) => {
            return match &list.owner {
                Some(owner) => format!("list handles of {} of owner {owner:?}", list.store),
                None => format!("list all handles of {}", list.store),
            };
        }
        Request::ListKeys(list) => {
            return format!("list keys {:?}.. of {:?}", list.prefix, list.owner);
        }
    };
    match call {
        Call::Get(get) => format!("get {}", Name::handle(&get.store, &get.owner, &get.id)),
        Call::Count(count) => format!("count handles of {} of {:?}", count.store, count.owner),
        Call::Retrieve(get) => format!("retrieve {}", Name::key(&get.owner, &get.key)),
        Call::Exists(get) => format!("is there {}", Name::key(&get.owner, &get.key)),
        Call::BatchRetrieve(get) => format!("retrieve keys {:?} of {:?}", get.keys, get.owner),
        Call::Claim(call) => {
            let name = Name::handle(&call.store, &call.owner, &call.id);
            format!("claim {name}: {:?}", call.action)
        }
        Call::OpenSession(_) => "open a replay session".to_owned(),
        call => parts(call)
            .iter()
            .map(part)
            .collect::<Vec<_>>()
            .join(" and "),
    }
}

fn part(part: &Part) -> String {
    let target = match &part.target {
        Target::Named(name) => name.to_string(),
        Target::Minted { store, owner, .. } => format!("a handle of {store} for {owner:?}"),
    };
    let (what, if_revision) = match &part.act {
        Act::Write {
            write,
            value: bytes,
            if_revision,
            ..
        } => (
            format!("{write:?} {target} = {}", value(bytes)),
            if_revision,
        ),
        Act::Take { if_revision } => (format!("take {target}"), if_revision),
        Act::Renew { if_revision, .. } => (format!("renew {target}"), if_revision),
        Act::Delete { if_revision } | Act::DeleteKey { if_revision } => {
            (format!("delete {target}"), if_revision)
        }
    };
    match if_revision {
        Some(revision) => format!("{what} if at revision {revision}"),
        None => what,
    }
}

fn outcome(event: &Event) -> String {
    let reply = match &event.outcome {
        Outcome::Open => return "no answer".to_owned(),
        Outcome::Failed { kind, .. } => return format!("{kind:?}"),
        Outcome::Answered(reply) => reply,
    };
    let view = match told::view(event) {
        Some((index, clock_ms)) => format!("at index {index}, clock {clock_ms}"),
        None => "of no view".to_owned(),
    };
    let said = match (&event.request, reply) {
        (_, Reply::Handles(_) | Reply::Keys(_)) => {
            format!("{} records", told::sightings(event).len())
        }
        (_, Reply::Answer(Answer::Count(reply))) => format!("{} live", reply.live),
        (_, Reply::Answer(Answer::Exists(reply))) => format!("{}", reply.exists),
        (_, Reply::Answer(Answer::Claim(reply))) => {
            format!("{:?} (fence {})", reply.status(), reply.fence)
        }
        (Request::Call(call), Reply::Answer(answer)) => match told::heard(call, answer) {
            Some(heard) => heard
                .iter()
                .flatten()
                .map(told)
                .collect::<Vec<_>>()
                .join(", "),
            None => read(event, answer),
        },
        _ => "a reply to another request".to_owned(),
    };
    format!("{said} {view}")
}

fn read(event: &Event, answer: &Answer) -> String {
    let shown = told::sightings(event);
    if shown.is_empty() {
        return match answer {
            Answer::Get(reply) => status(reply.status()).to_owned(),
            _ => "nothing".to_owned(),
        };
    }
    let one = |shown: &told::Sighting<'_>| {
        let shown_value = shown.value.map(value).unwrap_or_default();
        format!(
            "{} = {shown_value} (revision {})",
            shown.name, shown.info.revision
        )
    };
    shown.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn told(heard: &Heard<'_>) -> String {
    match heard {
        Heard::Done { existed, info, .. } => {
            let existed = match existed {
                Some(true) => "done over what was there",
                Some(false) => "done where nothing was",
                None => "done",
            };
            match info {
                Some(info) => format!("{existed} (revision {})", info.revision),
                None => existed.to_owned(),
            }
        }
        Heard::NotLive(why) => status(*why).to_owned(),
        Heard::Ready => "ready".to_owned(),
        Heard::Shown => "took effect".to_owned(),
    }
}

fn status(status: HandleStatus) -> &'static str {
    match status {
        HandleStatus::Live => "live",
        HandleStatus::Expired => "expired",
        HandleStatus::Taken => "taken",
        HandleStatus::Unknown => "unknown",
        HandleStatus::Unspecified => "unspecified",
    }
}

fn value(value: &Bytes) -> String {
    let shown = value.slice(..value.len().min(SHOWN_BYTES));
    let rest = if shown.len() < value.len() { ".." } else { "" };
    format!("\"{}{rest}\"", shown.escape_ascii())
}

/// What the model holds, in each of the ways in which it may have been.
pub(super) fn cells(cells: &[Cell]) -> String {
    let mut words: Vec<_> = cells.iter().take(3).map(cell).collect();
    words.dedup();
    if cells.len() > words.len() {
        words.push(format!("{} ways in all", cells.len()));
    }
    words.join("; or ")
}

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Empty => "nothing".to_owned(),
        Cell::Taken(at) => format!("taken at clock {}", at.from),
        Cell::Written(row) => {
            let written = match row.revision {
                UNSEEN => "what a call of unknown outcome wrote".to_owned(),
                revision => format!("{} at revision {revision}", value(&row.value)),
            };
            let until = match row.deadline() {
                Some(deadline) if deadline.from == deadline.to => {
                    format!(", until {}", deadline.from)
                }
                Some(deadline) => format!(", until {} to {}", deadline.from, deadline.to),
                None => String::new(),
            };
            format!("{written}{until}")
        }
    }
}
