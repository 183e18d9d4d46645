//! Evidence: which unknown mutations took effect after all, by what reads show.
//!
//! A revision is the log index of the write that made it. One that no told mutation has must be an unknown one's, which wrote that
//! value to that record: so its index is known, its time too, and with it all its other parts.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{
    bounds::Bounds,
    mutations::{Fate, Mutation},
    told::{Sighting, sightings},
    verdict::{Finding, Rule},
};
use crate::{
    history::Event,
    model::{Name, Part, Target},
};

/// What the evidence shows.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    pub(super) findings: Vec<Finding>,
    /// Records that were returned with a value that no client wrote; judging them further has no
    /// use.
    pub(super) phantoms: HashSet<Name>,
    /// Unknown mutations that were seen.
    pub(super) settled: usize,
    pub(super) pins: Vec<Pin>,
}

/// A revision that was shown, and that several mutations of unknown outcome may have made.
#[derive(Debug)]
pub(super) struct Pin {
    pub(super) revision: u64,
    pub(super) clock_ms: u64,
    /// The event that shows it.
    pub(super) event: usize,
    /// The records that it was shown of.
    pub(super) shown: BTreeSet<Name>,
    pub(super) writers: Vec<Writer>,
}

impl Pin {
    /// The records that it may have been written to.
    pub(super) fn names(&self) -> BTreeSet<&Name> {
        let names = self.writers.iter().flat_map(|writer| &writer.names);
        names.flatten().collect()
    }
}

/// A mutation that may have made a revision.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) mutation: usize,
    /// Which records its parts are then about.
    pub(super) names: Vec<Option<Name>>,
}

/// What was shown of one revision, and by which events.
type Shown<'a> = Vec<(usize, Sighting<'a>)>;

/// Settles unknown mutations by what is shown.
pub(super) fn settle(
    events: &[Event],
    mutations: &mut [Mutation],
    bounds: &mut Bounds,
) -> Evidence {
    let mut evidence = Evidence::default();
    let mut open = shown(events, mutations);
    // What is settled is no candidate for any other revision, so that others may be settled then.
    loop {
        let before = open.len();
        open.retain(|revision, seen| {
            let unknown = writers(mutations, *revision, seen, |fate| fate == Fate::Unknown);
            let [only] = unknown[..] else {
                return true;
            };
            give(mutations, bounds, *revision, seen, only);
            evidence.settled += 1;
            false
        });
        if open.len() == before {
            break;
        }
    }
    for (revision, seen) in open {
        place(mutations, bounds, revision, &seen, &mut evidence);
    }
    evidence
}

/// By revision, what is shown that no told mutation wrote.
fn shown<'a>(events: &'a [Event], mutations: &[Mutation]) -> BTreeMap<u64, Shown<'a>> {
    let told: HashSet<u64> = mutations
        .iter()
        .filter_map(|mutation| Some(mutation.place()?.0))
        .collect();
    let of_reads = events.iter().flat_map(|event| {
        let sightings = sightings(event).into_iter();
        sightings.map(|sighting| (event.number, sighting))
    });
    let mut shown: BTreeMap<u64, Shown<'_>> = BTreeMap::new();
    for (event, sighting) in of_reads.chain(carried(events, mutations)) {
        if !told.contains(&sighting.info.revision) {
            let seen = shown.entry(sighting.info.revision).or_default();
            seen.push((event, sighting));
        }
    }
    shown
}

/// Records that replies to takes and renewals show: written by others.
fn carried<'a>(events: &'a [Event], mutations: &[Mutation]) -> Vec<(usize, Sighting<'a>)> {
    let mut carried = Vec::new();
    for mutation in mutations {
        let heard = mutation.heard(events);
        for ((part, name), heard) in mutation.parts.iter().zip(&mutation.names).zip(heard) {
            if part.act.written().is_none()
                && let Some(name) = name
                && let Some(super::told::Heard::Done {
                    info: Some(info),
                    value,
                    ..
                }) = heard
            {
                let name = name.clone();
                carried.push((mutation.teller, Sighting { name, info, value }));
            }
        }
    }
    carried
}

/// The mutations that may have made a revision, by their fates.
fn writers(
    mutations: &[Mutation],
    revision: u64,
    seen: &Shown<'_>,
    fates: impl Fn(Fate) -> bool,
) -> Vec<usize> {
    let is_writer = |mutation: &Mutation| {
        fates(mutation.fate)
            && revision > mutation.after
            && seen.iter().all(|(_, sighting)| wrote(mutation, sighting))
    };
    let numbered = mutations.iter().enumerate();
    let writers = numbered.filter(|(_, mutation)| is_writer(mutation));
    writers.map(|(number, _)| number).collect()
}

/// Gives a revision that was shown to the mutation that made it.
fn give(
    mutations: &mut [Mutation],
    bounds: &mut Bounds,
    revision: u64,
    seen: &Shown<'_>,
    writer: usize,
) {
    let clock_ms = seen[0].1.info.updated_at_ms;
    let mutation = &mut mutations[writer];
    mutation.names = named(mutation, seen);
    mutation.fate = Fate::Shown {
        index: revision,
        clock_ms,
    };
    bounds.settle(revision, clock_ms);
}

/// Which records a mutation's parts are about, if it wrote what is seen.
fn named(mutation: &Mutation, seen: &Shown<'_>) -> Vec<Option<Name>> {
    let mut names = mutation.names.clone();
    for (_, sighting) in seen {
        if names.contains(&Some(sighting.name.clone())) {
            continue;
        }
        let mut parts = mutation.parts.iter().zip(&mut names);
        let part = parts.find(|(part, name)| name.is_none() && is_by(part, sighting));
        if let Some((_, name)) = part {
            *name = Some(sighting.name.clone());
        }
    }
    names
}

/// A revision that none of the unknown mutations must have made: several may have, or a denied one, or
/// none.
fn place(
    mutations: &mut [Mutation],
    bounds: &mut Bounds,
    revision: u64,
    seen: &Shown<'_>,
    evidence: &mut Evidence,
) {
    let (event, sighting) = &seen[0];
    let unknown = writers(mutations, revision, seen, |fate| fate == Fate::Unknown);
    if !unknown.is_empty() {
        let writer = |mutation: &usize| Writer {
            mutation: *mutation,
            names: named(&mutations[*mutation], seen),
        };
        let shown = seen.iter().map(|(_, sighting)| sighting.name.clone());
        evidence.pins.push(Pin {
            revision,
            clock_ms: sighting.info.updated_at_ms,
            event: *event,
            shown: shown.collect(),
            writers: unknown.iter().map(writer).collect(),
        });
        evidence.settled += 1;
        bounds.settle(revision, sighting.info.updated_at_ms);
        return;
    }
    let is_denied = |fate| matches!(fate, Fate::Denied | Fate::Conflict { .. });
    let Some(denied) = writers(mutations, revision, seen, is_denied)
        .first()
        .copied()
    else {
        evidence.findings.push(phantom(mutations, revision, seen));
        let names = seen.iter().map(|(_, sighting)| sighting.name.clone());
        evidence.phantoms.extend(names);
        return;
    };
    evidence.findings.push(Finding {
        rule: Rule::Honest,
        events: vec![mutations[denied].teller, *event],
        text: format!(
            "#{} was told that it had no effect, and #{event} shows what it wrote: {} at revision {revision}",
            mutations[denied].teller, sighting.name
        ),
    });
    give(mutations, bounds, revision, seen, denied);
    evidence.settled += 1;
}

fn wrote(mutation: &Mutation, sighting: &Sighting<'_>) -> bool {
    mutation.parts.iter().any(|part| is_by(part, sighting))
}

/// Whether this part may have written what is shown.
fn is_by(part: &Part, sighting: &Sighting<'_>) -> bool {
    let is_target = match (&part.target, &sighting.name) {
        (Target::Named(name), shown) => name == shown,
        (
            Target::Minted {
                store,
                owner,
                id_prefix,
            },
            Name::Handle {
                store: at,
                owner: of,
                id,
            },
        ) => {
            let rest = match id_prefix.as_str() {
                "" => Some(id.as_str()),
                prefix => id
                    .strip_prefix(prefix)
                    .and_then(|rest| rest.strip_prefix('-')),
            };
            store == at && owner == of && rest.is_some_and(|rest| rest.len() == 26)
        }
        (Target::Minted { .. }, Name::Key { .. }) => false,
    };
    let is_value = part.act.written().is_some_and(|value| {
        value.len() as u64 == sighting.info.value_bytes
            && sighting.value.is_none_or(|shown| shown == value)
    });
    is_target && is_value
}

/// No client wrote this; or one did, once, and elsewhere in the log.
fn phantom(mutations: &[Mutation], revision: u64, seen: &Shown<'_>) -> Finding {
    let (event, sighting) = &seen[0];
    let is_twin = |mutation: &&Mutation| mutation.place().is_some() && wrote(mutation, sighting);
    let shown = format!(
        "#{event} shows {} at revision {revision} with {} bytes",
        sighting.name, sighting.info.value_bytes
    );
    let shown = match sighting.value {
        Some(value) => format!("{shown}, {}", value.escape_ascii()),
        None => shown,
    };
    match mutations
        .iter()
        .find(is_twin)
        .filter(|_| sighting.value.is_some())
    {
        Some(twin) => Finding {
            rule: Rule::Once,
            events: vec![twin.teller, *event],
            text: format!(
                "{shown}: #{} wrote that at index {}, so it took effect twice",
                twin.teller,
                twin.place().map_or(0, |(index, _)| index)
            ),
        },
        None => Finding {
            rule: Rule::Phantom,
            events: vec![*event],
            text: format!("{shown}, and no call wrote that"),
        },
    }
}
