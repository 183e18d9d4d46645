//! The main judge: every record's timeline through the model, and with it those of the records that it shares mutations of unknown outcome
//! with, if it cannot be explained without such mutations.
//!
//! Records are replayed with as few mutations of unknown outcome as explain them: with none first. A
//! record that is stuck is replayed with all mutations that may have touched it, as if they touched
//! nothing else; what then explains it with the fewest is taken up, and the other records of those
//! mutations join the group, which is replayed as one. So the search ends: each time a group takes up
//! another mutation, or is explained, or shown to contradict the model whatever was done.

mod contradiction;
mod counts;

use std::collections::{BTreeMap, BTreeSet};

use super::{
    known::Known,
    possible_states::PossibleState,
    replay::{Counted, Ran, Replay},
    verdict::Finding,
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
    /// By mutation of unknown outcome, the records that it may have touched.
    touched: BTreeMap<usize, BTreeSet<&'s Name>>,
    groups: Vec<Group<'s>>,
}

/// Records that are explained together.
#[derive(Debug, Default)]
struct Group<'s> {
    names: BTreeSet<&'s Name>,
    /// Mutations of unknown outcome that may explain them. All their records are in the group.
    mutations: BTreeSet<usize>,
    counted: Vec<Counted>,
}

/// What more mutations may explain a group.
enum More {
    /// These, as far as the group knows.
    Mutations(Vec<usize>),
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

    /// Lets a group take up mutations until it is explained, if it can be.
    fn explain(&mut self, mut group: Group<'s>, judged: &mut Judged) -> Group<'s> {
        loop {
            let stuck = match self.replay(&group.names, &group.mutations) {
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
                More::Mutations(mutations) => self.take_up(&mut group, &mutations),
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

    /// The fewest mutations that may explain the record in this place, and then all of the group: as if they touched no others.
    fn more(&self, group: &Group<'s>, place: usize) -> More {
        let names: Vec<_> = group.names.iter().copied().collect();
        let mut free = BTreeSet::from([names[place]]);
        loop {
            let mut allowed = group.mutations.clone();
            allowed.extend(self.unknown(&free));
            match self.replay(&group.names, &allowed) {
                Ran::Through {
                    possible_states, ..
                } => return self.fewest(group, &possible_states),
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

    /// The mutations of unknown outcome that may have touched these records.
    fn unknown(&self, names: &BTreeSet<&Name>) -> impl Iterator<Item = usize> {
        let timelines = names
            .iter()
            .filter_map(|name| self.known.timelines.of.get(*name));
        let floats = timelines.flat_map(|timeline| timeline.floats.iter().copied());
        floats.filter(|mutation| self.known.is_unknown(*mutation))
    }

    /// The mutations that the group must take up for the possible state that needs the fewest, above all of those that touch other records.
    fn fewest(&self, group: &Group<'s>, possible_states: &[PossibleState]) -> More {
        let more = possible_states.iter().map(|state| {
            let used = state.used.iter().copied();
            let more = used.filter(|mutation| !group.mutations.contains(mutation));
            more.collect::<Vec<_>>()
        });
        let cost = |mutations: &Vec<usize>| {
            let others = mutations
                .iter()
                .flat_map(|mutation| &self.touched[mutation]);
            let others = others.filter(|name| !group.names.contains(*name));
            (others.count(), mutations.len())
        };
        more.min_by_key(cost).map_or(More::Nothing, More::Mutations)
    }

    /// Mutations join a group with all their records, and these with all that they share mutations with.
    fn take_up(&mut self, group: &mut Group<'s>, mutations: &[usize]) {
        group.mutations.extend(mutations);
        for name in mutations
            .iter()
            .flat_map(|mutation| &self.touched[mutation])
        {
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
                group.mutations.extend(other.mutations);
            }
        }
    }
}

/// What each record may hold at the end, each judged by itself.
pub(super) fn left(known: &Known<'_>) -> BTreeMap<Name, Vec<Cell>> {
    let mut left = BTreeMap::new();
    for (name, timeline) in &known.timelines.of {
        let floats = timeline.floats.iter().copied();
        let allowed = floats
            .filter(|mutation| known.is_unknown(*mutation))
            .collect();
        if let Ran::Through {
            possible_states, ..
        } = Replay::new(known, [name], &allowed).run()
        {
            let mut cells: Vec<Cell> = Vec::new();
            for state in possible_states {
                let [records] = &state.records[..] else {
                    continue;
                };
                if !cells.contains(&records.cell) {
                    cells.push(records.cell.clone());
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
