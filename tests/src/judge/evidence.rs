//! Evidence: which unknown mutations took effect after all, by what reads show.
//!
//! A revision is the log index of the write that made it. One that no told mutation has must be an unknown one's, which wrote that
//! value to that record: so its index is known, its time too, and with it all its other parts.

use std::collections::{BTreeMap, HashSet};

use super::{
    bounds::Bounds,
    deeds::{Deed, Fate},
    told::{Sighting, sightings},
    verdict::{Finding, Rule},
};
use crate::{
    history::Event,
    model::{Name, Part, Target},
};

/// What the evidence comes to.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    pub(super) findings: Vec<Finding>,
    /// Records that are shown as nobody wrote them; there is no use in judging them further.
    pub(super) phantoms: HashSet<Name>,
    /// Unknown deeds that were seen.
    pub(super) settled: usize,
    /// Deeds of which another could stand in the place given to them just as well, by the records that they wrote.
    pub(super) guesses: HashSet<Name>,
}

/// Settles unknown deeds by what is shown.
pub(super) fn settle(events: &[Event], deeds: &mut [Deed], bounds: &mut Bounds) -> Evidence {
    let told: HashSet<u64> = deeds
        .iter()
        .filter_map(|deed| Some(deed.place()?.0))
        .collect();
    let mut shown: BTreeMap<u64, Vec<(usize, Sighting<'_>)>> = BTreeMap::new();
    for event in events {
        for sighting in sightings(event) {
            if !told.contains(&sighting.info.revision) {
                let seen = shown.entry(sighting.info.revision).or_default();
                seen.push((event.number, sighting));
            }
        }
    }
    for (number, sighting) in carried(events, deeds) {
        if !told.contains(&sighting.info.revision) {
            let seen = shown.entry(sighting.info.revision).or_default();
            seen.push((number, sighting));
        }
    }
    let mut evidence = Evidence::default();
    for (revision, seen) in shown {
        place(deeds, bounds, revision, &seen, &mut evidence);
    }
    evidence
}

/// Records that replies to takes and renewals show: written by others.
fn carried<'a>(events: &'a [Event], deeds: &[Deed]) -> Vec<(usize, Sighting<'a>)> {
    let mut carried = Vec::new();
    for deed in deeds {
        let heard = deed.heard(events);
        for ((part, name), heard) in deed.parts.iter().zip(&deed.names).zip(heard) {
            if part.act.written().is_none()
                && let Some(name) = name
                && let Some(super::told::Heard::Done {
                    info: Some(info),
                    value,
                    ..
                }) = heard
            {
                let name = name.clone();
                carried.push((deed.teller, Sighting { name, info, value }));
            }
        }
    }
    carried
}

/// Gives a revision that was shown to the deed that made it.
fn place(
    deeds: &mut [Deed],
    bounds: &mut Bounds,
    revision: u64,
    seen: &[(usize, Sighting<'_>)],
    evidence: &mut Evidence,
) {
    let wrote_all = |deed: &&Deed| {
        revision > deed.after && seen.iter().all(|(_, sighting)| wrote(deed, sighting))
    };
    let of = |fates: fn(&Fate) -> bool| {
        let candidates = deeds
            .iter()
            .enumerate()
            .filter(|(_, deed)| fates(&deed.fate));
        candidates
            .filter(|(_, deed)| wrote_all(deed))
            .map(|(number, _)| number)
            .collect::<Vec<_>>()
    };
    let unknown = of(|fate| *fate == Fate::Unknown);
    let denied = of(|fate| matches!(fate, Fate::Denied | Fate::Conflict { .. }));
    let Some(chosen) = unknown.first().or(denied.first()).copied() else {
        evidence.findings.push(phantom(deeds, revision, seen));
        let names = seen.iter().map(|(_, sighting)| sighting.name.clone());
        evidence.phantoms.extend(names);
        return;
    };
    if unknown.is_empty() {
        evidence.findings.push(Finding {
            rule: Rule::Honest,
            events: vec![deeds[chosen].teller, seen[0].0],
            text: format!(
                "#{} was told that it had no effect, and #{} shows what it wrote: {} at revision {revision}",
                deeds[chosen].teller, seen[0].0, seen[0].1.name
            ),
        });
    }
    let clock_ms = seen[0].1.info.updated_at_ms;
    let deed = &mut deeds[chosen];
    deed.fate = Fate::Shown {
        index: revision,
        clock_ms,
    };
    for (_, sighting) in seen {
        let mut parts = deed.parts.iter().zip(&mut deed.names);
        if let Some((_, name)) = parts.find(|(part, name)| name.is_none() && is_by(part, sighting))
        {
            *name = Some(sighting.name.clone());
        }
    }
    if unknown.len() > 1 {
        evidence
            .guesses
            .extend(deed.names.iter().flatten().cloned());
    }
    evidence.settled += 1;
    bounds.settle(revision, clock_ms);
}

fn wrote(deed: &Deed, sighting: &Sighting<'_>) -> bool {
    deed.parts.iter().any(|part| is_by(part, sighting))
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

/// Nobody wrote this; or somebody did, once, and elsewhere in the log.
fn phantom(deeds: &[Deed], revision: u64, seen: &[(usize, Sighting<'_>)]) -> Finding {
    let (event, sighting) = &seen[0];
    let is_twin = |deed: &&Deed| deed.place().is_some() && wrote(deed, sighting);
    let shown = format!(
        "#{event} shows {} at revision {revision} with {} bytes",
        sighting.name, sighting.info.value_bytes
    );
    let shown = match sighting.value {
        Some(value) => format!("{shown}, {}", value.escape_ascii()),
        None => shown,
    };
    match deeds
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
