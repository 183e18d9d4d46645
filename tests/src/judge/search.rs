//! The main judge: every record's timeline through the model, and with it those of the records that it shares deeds of unknown outcome
//! with, if it cannot be explained without such deeds.
//!
//! Records are replayed with as few deeds of unknown outcome as explain them: with none first. A
//! record that is stuck is replayed with all deeds that may have touched it, as if they touched
//! nothing else; what then explains it with the fewest is taken up, and the other records of those
//! deeds join the group, which is replayed as one. So the search ends: each time a group takes up
//! another deed, or is explained, or shown to contradict the model whatever was done.

mod contradiction;
mod counts;

use std::collections::{BTreeMap, BTreeSet};

use super::{
    known::Known,
    replay::{Counted, Ran, Replay},
    verdict::Finding,
    worlds::World,
};
use crate::model::{Cell, Name};

/// The main judge's verdict.
#[derive(Debug, Default)]
pub(super) struct Judged {
    pub(super) findings: Vec<Finding>,
    /// Why it could not tell, record by record.
    pub(super) undecided: Vec<String>,
}

/// A search through all records of a history.
pub(super) struct Search<'s, 'a> {
    known: &'s Known<'a>,
    /// By deed of unknown outcome, the records that it may have touched.
    touched: BTreeMap<usize, BTreeSet<&'s Name>>,
    groups: Vec<Group<'s>>,
}

/// Records that are explained together.
#[derive(Debug, Default)]
struct Group<'s> {
    names: BTreeSet<&'s Name>,
    /// Deeds of unknown outcome that may explain them. All their records are in the group.
    deeds: BTreeSet<usize>,
    counted: Vec<Counted>,
}

/// What more deeds may explain a group.
enum More {
    /// These, as far as the group knows.
    Deeds(Vec<usize>),
    /// None.
    Nothing,
    /// It cannot be told.
    TooMany,
}

impl<'s, 'a> Search<'s, 'a> {
    pub(super) fn new(known: &'s Known<'a>) -> Self {
        Self {
            known,
            touched: known.touched(),
            groups: Vec::new(),
        }
    }

    /// Judges every record.
    pub(super) fn run(mut self) -> Judged {
        let mut judged = Judged::default();
        let mut grouped: BTreeSet<&Name> = self.known.evidence.phantoms.iter().collect();
        for name in self.known.timelines.of.keys() {
            if !grouped.contains(name) {
                let group = Group {
                    names: BTreeSet::from([name]),
                    ..Group::default()
                };
                let group = self.explain(group, &mut judged);
                grouped.extend(&group.names);
                self.groups.push(group);
            }
        }
        if judged.findings.is_empty() && judged.undecided.is_empty() {
            judged.findings.extend(self.check_counts());
        }
        judged
    }

    /// Lets a group take up deeds until it is explained, if it can be.
    fn explain(&mut self, mut group: Group<'s>, judged: &mut Judged) -> Group<'s> {
        loop {
            let stuck = match self.replay(&group.names, &group.deeds) {
                Ran::Through { counted, .. } => {
                    group.counted = counted;
                    return group;
                }
                Ran::Stuck(stuck) => stuck,
                Ran::TooMany => {
                    judged.undecided.push(too_many(&group));
                    return group;
                }
            };
            match self.more(&group, stuck.place) {
                More::Deeds(deeds) => self.take_up(&mut group, &deeds),
                More::Nothing => {
                    judged.findings.push(self.contradiction(&group, &stuck));
                    return group;
                }
                More::TooMany => {
                    judged.undecided.push(too_many(&group));
                    return group;
                }
            }
        }
    }

    fn replay(&self, names: &BTreeSet<&'s Name>, allowed: &BTreeSet<usize>) -> Ran {
        Replay::new(self.known, names.iter().copied(), allowed).run()
    }

    /// The fewest deeds that may explain the record in this place, and then all of the group: as if they touched no others.
    fn more(&self, group: &Group<'s>, place: usize) -> More {
        let names: Vec<_> = group.names.iter().copied().collect();
        let mut free = BTreeSet::from([names[place]]);
        loop {
            let mut allowed = group.deeds.clone();
            allowed.extend(self.unknown(&free));
            match self.replay(&group.names, &allowed) {
                Ran::Through { worlds, .. } => return self.fewest(group, &worlds),
                Ran::TooMany => return More::TooMany,
                Ran::Stuck(_) if free.len() == names.len() => return More::Nothing,
                Ran::Stuck(stuck) => {
                    if !free.insert(names[stuck.place]) {
                        free.extend(&names);
                    }
                }
            }
        }
    }

    /// The deeds of unknown outcome that may have touched these records.
    fn unknown(&self, names: &BTreeSet<&Name>) -> impl Iterator<Item = usize> {
        let timelines = names
            .iter()
            .filter_map(|name| self.known.timelines.of.get(*name));
        let floats = timelines.flat_map(|timeline| timeline.floats.iter().copied());
        floats.filter(|deed| self.known.is_unknown(*deed))
    }

    /// The deeds that the group must take up for the world that needs the fewest, above all of those that touch other records.
    fn fewest(&self, group: &Group<'s>, worlds: &[World]) -> More {
        let more = worlds.iter().map(|world| {
            let used = world.used.iter().copied();
            let more = used.filter(|deed| !group.deeds.contains(deed));
            more.collect::<Vec<_>>()
        });
        let cost = |deeds: &Vec<usize>| {
            let others = deeds.iter().flat_map(|deed| &self.touched[deed]);
            let others = others.filter(|name| !group.names.contains(*name));
            (others.count(), deeds.len())
        };
        more.min_by_key(cost).map_or(More::Nothing, More::Deeds)
    }

    /// Deeds join a group with all their records, and these with all that they share deeds with.
    fn take_up(&mut self, group: &mut Group<'s>, deeds: &[usize]) {
        group.deeds.extend(deeds);
        for name in deeds.iter().flat_map(|deed| &self.touched[deed]) {
            if self.known.evidence.phantoms.contains(*name) || !group.names.insert(name) {
                continue;
            }
            let other = self
                .groups
                .iter()
                .position(|other| other.names.contains(name));
            if let Some(other) = other {
                let other = self.groups.swap_remove(other);
                group.names.extend(other.names);
                group.deeds.extend(other.deeds);
            }
        }
    }
}

/// What each record may hold at the end, each judged by itself.
pub(super) fn left(known: &Known<'_>) -> BTreeMap<Name, Vec<Cell>> {
    let mut left = BTreeMap::new();
    for (name, timeline) in &known.timelines.of {
        let floats = timeline.floats.iter().copied();
        let allowed = floats.filter(|deed| known.is_unknown(*deed)).collect();
        if let Ran::Through { worlds, .. } = Replay::new(known, [name], &allowed).run() {
            let mut cells: Vec<Cell> = Vec::new();
            for world in worlds {
                let [standing] = &world.standing[..] else {
                    continue;
                };
                if !cells.contains(&standing.cell) {
                    cells.push(standing.cell.clone());
                }
            }
            left.insert(name.clone(), cells);
        }
    }
    left
}

fn too_many(group: &Group<'_>) -> String {
    let names: Vec<_> = group.names.iter().map(ToString::to_string).collect();
    format!(
        "{}: too many calls of unknown outcome to search through, or too little time",
        names.join(", ")
    )
}
