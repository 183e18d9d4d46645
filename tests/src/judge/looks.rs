//! What reads say of each record, of those that they do not show as well.

use std::collections::HashMap;

use helve_client::v1::{HandleStatus, exchange_answer::Answer, exchange_call::Call};

use super::{
    bounds::Bounds,
    mutations::{Fate, Mutation},
    timeline::{Count, Entry, Seen, Timeline, Timelines, Touch, What},
    told::{self, Sighting},
    verdict::{Finding, Rule},
};
use crate::{
    history::{Event, Reply, Request},
    model::{Name, Target},
};

/// Makes a timeline for every record that a read asks for or shows.
pub(super) fn add_names(all: &mut Timelines<'_>, events: &[Event]) {
    for event in events {
        let asked = match &event.request {
            Request::Call(call) => asked(call),
            Request::ListHandles(_) | Request::ListKeys(_) => Vec::new(),
        };
        let shown = told::sightings(event)
            .into_iter()
            .map(|sighting| sighting.name);
        for name in asked.into_iter().chain(shown) {
            all.of.entry(name).or_default();
        }
    }
}

/// The records that a read asks for by name.
fn asked(call: &Call) -> Vec<Name> {
    match call {
        Call::Get(get) => vec![Name::handle(&get.store, &get.owner, &get.id)],
        Call::Retrieve(get) => vec![Name::key(&get.owner, &get.key)],
        Call::Exists(get) => vec![Name::key(&get.owner, &get.key)],
        Call::BatchRetrieve(get) => get
            .keys
            .iter()
            .map(|key| Name::key(&get.owner, key))
            .collect(),
        _ => Vec::new(),
    }
}

/// Adds what one event says to the timelines of all records that it says something of.
pub(super) fn add<'a>(
    all: &mut Timelines<'a>,
    event: &'a Event,
    mutations: &[Mutation],
    bounds: &Bounds,
) {
    touch(all, event, bounds);
    let (Some(reply), Some((index, clock_ms))) = (told::reply(event), told::view(event)) else {
        return;
    };
    let look = |seen| Entry {
        index,
        clock_ms,
        what: What::Look(seen),
        event: event.number,
    };
    match (&event.request, reply) {
        (Request::Call(Call::Count(count)), Reply::Answer(Answer::Count(reply))) => {
            let number = all.counts.len();
            for (_, timeline) in covered(all, &event.request) {
                if !timeline.begins_after(index) {
                    timeline.entries.push(look(Seen::Counted(number)));
                }
            }
            let is_nameless = |mutation: &&Mutation| {
                matches!(mutation.fate, Fate::Unknown | Fate::Denied) && mutation.after < index
            };
            let mints = mutations
                .iter()
                .filter(is_nameless)
                .flat_map(|mutation| &mutation.parts);
            let is_counted = |target: &Target| {
                matches!(target, Target::Minted { store, owner, .. }
                if *store == count.store && count.owner.as_ref().is_none_or(|own| own == owner))
            };
            all.counts.push(Count {
                event: event.number,
                live: reply.live,
                nameless: mints.filter(|part| is_counted(&part.target)).count() as u64,
            });
        }
        (Request::Call(call), Reply::Answer(answer)) => {
            for (name, seen) in seen(call, answer) {
                all.of.entry(name).or_default().entries.push(look(seen));
            }
        }
        (Request::ListHandles(_) | Request::ListKeys(_), _) => {
            list(all, event, look);
        }
        _ => {}
    }
}

/// What reads by name show.
fn seen<'a>(call: &Call, answer: &'a Answer) -> Vec<(Name, Seen<'a>)> {
    let record = |record: Option<&'a helve_client::v1::KeyRecord>| match record
        .and_then(|record| Some((record.info.as_ref()?, &record.value)))
    {
        Some((info, value)) => Seen::Record {
            info,
            value: Some(value),
        },
        None => Seen::Gone,
    };
    let names = asked(call).into_iter();
    match answer {
        Answer::Get(reply) => {
            let seen = match (reply.status(), &reply.info) {
                (HandleStatus::Live, Some(info)) => Seen::Record {
                    info,
                    value: Some(&reply.value),
                },
                (status, _) => Seen::Status(status),
            };
            names.map(|name| (name, seen)).collect()
        }
        Answer::Retrieve(reply) => names
            .map(|name| (name, record(reply.record.as_ref())))
            .collect(),
        Answer::Exists(reply) => {
            let seen = if reply.exists {
                Seen::Lives
            } else {
                Seen::Gone
            };
            names.map(|name| (name, seen)).collect()
        }
        Answer::BatchRetrieve(reply) => {
            let records = reply.keys.iter().map(|key| record(key.record.as_ref()));
            names.zip(records).collect()
        }
        _ => Vec::new(),
    }
}

/// A get restarts the idle time, whether its answer arrives or not.
fn touch(all: &mut Timelines<'_>, event: &Event, bounds: &Bounds) {
    let Request::Call(call @ (Call::Get(_) | Call::Retrieve(_) | Call::BatchRetrieve(_))) =
        &event.request
    else {
        return;
    };
    let after = bounds.after(event.invoked_ns).0;
    let until = told::view(event).map_or(u64::MAX, |(index, _)| index);
    for name in asked(call) {
        let timeline = all.of.entry(name).or_default();
        timeline.touches.push(Touch { after, until });
    }
}

/// The known records that a list or count is about.
fn covered<'t, 'a>(
    all: &'t mut Timelines<'a>,
    request: &Request,
) -> Vec<(&'t Name, &'t mut Timeline<'a>)> {
    let from = match request {
        Request::Call(Call::Count(count)) => {
            Name::handle(&count.store, count.owner.as_deref().unwrap_or_default(), "")
        }
        Request::ListHandles(list) => {
            Name::handle(&list.store, list.owner.as_deref().unwrap_or_default(), "")
        }
        Request::ListKeys(list) => Name::key(&list.owner, &list.prefix),
        Request::Call(_) => return Vec::new(),
    };
    let is_covered = |name: &Name| match (request, name) {
        (Request::Call(Call::Count(count)), Name::Handle { store, owner, .. }) => {
            *store == count.store && count.owner.as_ref().is_none_or(|own| own == owner)
        }
        (Request::ListHandles(list), Name::Handle { store, owner, .. }) => {
            *store == list.store && list.owner.as_ref().is_none_or(|own| own == owner)
        }
        (Request::ListKeys(list), Name::Key { owner, key }) => {
            *owner == list.owner && key.starts_with(&list.prefix)
        }
        _ => false,
    };
    let from = all.of.range_mut(from..);
    from.take_while(|(name, _)| is_covered(name)).collect()
}

fn list<'a>(all: &mut Timelines<'a>, event: &'a Event, look: impl Fn(Seen<'a>) -> Entry<'a>) {
    let rows = told::sightings(event);
    if let Some(flaw) = flaw(event, &rows) {
        all.findings.push(Finding {
            rule: Rule::List,
            events: vec![event.number],
            text: format!("#{} {flaw}", event.number),
        });
        return;
    }
    let (from, to) = (
        rows.first().map(|row| row.name.clone()),
        rows.last().map(|row| row.name.clone()),
    );
    let (is_resumed, is_cut) = ends(event);
    let shown: HashMap<Name, Sighting<'a>> = rows
        .into_iter()
        .map(|row| (row.name.clone(), row))
        .collect();
    let view = look(Seen::Gone).index;
    let mut covered_rows = 0;
    for (name, timeline) in covered(all, &event.request) {
        if let Some(Sighting { info, value, .. }) = shown.get(name) {
            covered_rows += 1;
            let (info, value) = (*info, *value);
            timeline.entries.push(look(Seen::Record { info, value }));
            continue;
        }
        let is_within = (!is_resumed || from.as_ref().is_some_and(|from| name > from))
            && (!is_cut || to.as_ref().is_some_and(|to| name < to));
        if is_within && !timeline.begins_after(view) {
            timeline.entries.push(look(Seen::Gone));
        }
    }
    if covered_rows != shown.len() {
        all.findings.push(Finding {
            rule: Rule::List,
            events: vec![event.number],
            text: format!("#{} lists records that it was not asked for", event.number),
        });
    }
}

/// Whether a list begins behind a resume token or a name, and whether it ends at a token.
fn ends(event: &Event) -> (bool, bool) {
    match (&event.request, told::reply(event)) {
        (Request::ListHandles(list), Some(Reply::Handles(parts))) => (
            !list.resume_token.is_empty() || !list.after.is_empty(),
            parts
                .last()
                .is_some_and(|part| !part.resume_token.is_empty()),
        ),
        (Request::ListKeys(list), Some(Reply::Keys(parts))) => (
            !list.resume_token.is_empty() || !list.after.is_empty(),
            parts
                .last()
                .is_some_and(|part| !part.resume_token.is_empty()),
        ),
        _ => (false, false),
    }
}

/// What no list may be, whatever the records.
fn flaw(event: &Event, rows: &[Sighting<'_>]) -> Option<String> {
    let headers = told::headers(told::reply(event)?);
    let views = headers
        .iter()
        .map(|header| header.map(|header| (header.index, header.clock_ms)));
    let views: Vec<_> = views.collect();
    if let Some(pair) = views.windows(2).find(|pair| pair[0] != pair[1]) {
        return Some(format!(
            "is a list of two views, {:?} and {:?}",
            pair[0], pair[1]
        ));
    }
    let same_owner = |pair: &&[Sighting<'_>]| pair[0].name.owner() == pair[1].name.owner();
    let mut pairs = rows.windows(2).filter(same_owner);
    let pair = pairs.find(|pair| pair[0].name.own() >= pair[1].name.own())?;
    Some(format!("lists {} before {}", pair[0].name, pair[1].name))
}
