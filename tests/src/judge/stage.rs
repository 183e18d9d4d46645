//! Some records side by side: all that is known of them, in the order of the log, and what may have been done to them besides.

use std::collections::{BTreeSet, HashMap};

use super::{
    known::Known,
    timeline::{Entry, Timeline, What},
};
use crate::model::{Act, Name};

/// Some records.
pub(super) struct Stage<'s, 'a> {
    pub(super) records: Vec<Record<'s, 'a>>,
    /// The entries of all, each with the place of its record and its number there.
    pub(super) entries: Vec<(usize, usize, &'s Entry<'a>)>,
    /// What may have been done besides.
    pub(super) floats: Vec<Float<'s>>,
}

/// One of them.
pub(super) struct Record<'s, 'a> {
    pub(super) name: &'s Name,
    pub(super) timeline: &'s Timeline<'a>,
    /// Revisions that somebody asked for, and that no known mutation has.
    pub(super) asked: BTreeSet<u64>,
}

/// A mutation that may stand anywhere behind an index, or nowhere.
pub(super) struct Float<'s> {
    pub(super) mutation: usize,
    pub(super) after: u64,
    /// One that is like it, and is before it if both are in the log.
    pub(super) behind: Option<usize>,
    pub(super) acts: Vec<(usize, &'s Act)>,
}

impl<'s, 'a> Stage<'s, 'a> {
    /// These records, in the order of their names, and of the mutations of unknown outcome those that are allowed to have taken effect.
    pub(super) fn new(
        known: &'s Known<'a>,
        names: impl Iterator<Item = &'s Name>,
        allowed: &BTreeSet<usize>,
    ) -> Self {
        let mut records = Vec::new();
        let mut entries = Vec::new();
        for name in names {
            let Some(timeline) = known.timelines.of.get(name) else {
                continue;
            };
            let numbered = timeline.entries.iter().enumerate();
            let place = records.len();
            entries.extend(numbered.map(|(number, entry)| (place, number, entry)));
            records.push(Record {
                name,
                timeline,
                asked: asked(known, timeline),
            });
        }
        entries.sort_by_key(|(_, _, entry)| entry.place());
        let mut stage = Self {
            records,
            entries,
            floats: Vec::new(),
        };
        stage.floats = stage.floats(known, allowed);
        stage
    }

    /// In the order of their invocation.
    fn floats(&self, known: &'s Known<'a>, allowed: &BTreeSet<usize>) -> Vec<Float<'s>> {
        let mut last: HashMap<usize, usize> = HashMap::new();
        let mut floats = Vec::new();
        for mutation in allowed {
            let acts = self.acts(known, *mutation, &known.mutations[*mutation].names);
            if !acts.is_empty() {
                floats.push(Float {
                    mutation: *mutation,
                    after: known.mutations[*mutation].after,
                    behind: last.insert(known.alike.first(*mutation), *mutation),
                    acts,
                });
            }
        }
        floats
    }

    /// What a mutation does to these records, if its parts are about those of these names.
    pub(super) fn acts(
        &self,
        known: &'s Known<'a>,
        mutation: usize,
        names: &[Option<Name>],
    ) -> Vec<(usize, &'s Act)> {
        let parts = known.mutations[mutation].parts.iter().zip(names);
        let acts = parts.filter_map(|(part, name)| Some((self.place(name.as_ref()?)?, &part.act)));
        acts.collect()
    }

    /// The place of the record of this name.
    pub(super) fn place(&self, name: &Name) -> Option<usize> {
        let place = self
            .records
            .binary_search_by(|record| record.name.cmp(name));
        place.ok()
    }
}

fn asked(known: &Known<'_>, timeline: &Timeline<'_>) -> BTreeSet<u64> {
    let told = timeline
        .entries
        .iter()
        .filter_map(|entry| match entry.what {
            What::Act { act, .. } => act.if_revision(),
            What::Look(_) | What::Pin(_) => None,
        });
    let floats = timeline.floats.iter();
    let floating = floats.flat_map(|mutation| &known.mutations[*mutation].parts);
    let floating = floating.filter_map(|part| part.act.if_revision());
    let met = timeline.doubts.iter().map(|doubt| doubt.revision);
    let asked = told.chain(floating).chain(met);
    asked
        .filter(|revision| *revision > 0 && !known.bounds.is_told(*revision))
        .collect()
}
