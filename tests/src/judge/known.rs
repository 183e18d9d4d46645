//! All that is known of a history, and which of its mutations are alike.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Instant,
};

use bytes::Bytes;

use super::{
    bounds::Bounds,
    evidence::Evidence,
    mutations::{Fate, Mutation},
    timeline::Timelines,
};
use crate::{
    history::Event,
    model::{Act, Name},
};

/// All that is known of a history.
pub(super) struct Known<'a> {
    pub(super) events: &'a [Event],
    pub(super) mutations: &'a [Mutation],
    pub(super) bounds: &'a Bounds,
    pub(super) evidence: &'a Evidence,
    pub(super) timelines: Timelines<'a>,
    /// By mutation, the first one that is like it.
    pub(super) alike: Alike,
    /// When the search ends: what is not decided by then is undecided.
    pub(super) until: Instant,
}

/// Which mutations of unknown outcome cannot be told apart.
///
/// A write that was not seen differs in nothing that a history shows: neither its value nor its
/// revision. So of two such mutations that do the same to the same records but for the value, the
/// earlier one may be wherever the later one may, and a search need not try both.
pub(super) enum Alike {
    /// Each mutation by itself, and with its value.
    Apart,
    /// By mutation, the first one that is like it.
    By(Vec<usize>),
}

impl Alike {
    /// Those that differ in their values alone, and of which nothing was seen.
    pub(super) fn of(mutations: &[Mutation], evidence: &Evidence) -> Self {
        let writers = evidence.pins.iter().flat_map(|pin| &pin.writers);
        let writers: BTreeSet<usize> = writers.map(|writer| writer.mutation).collect();
        let mut first: HashMap<&[Option<Name>], Vec<usize>> = HashMap::new();
        let mut by = Vec::with_capacity(mutations.len());
        for (number, mutation) in mutations.iter().enumerate() {
            by.push(number);
            if mutation.fate != Fate::Unknown || writers.contains(&number) {
                continue;
            }
            let others = first.entry(&mutation.names).or_default();
            match others
                .iter()
                .find(|other| are_alike(mutation, &mutations[**other]))
            {
                Some(other) => by[number] = *other,
                None => others.push(number),
            }
        }
        Self::By(by)
    }

    /// The first one that is like this one.
    pub(super) fn first(&self, mutation: usize) -> usize {
        match self {
            Self::Apart => mutation,
            Self::By(by) => by[mutation],
        }
    }
}

fn are_alike(one: &Mutation, other: &Mutation) -> bool {
    let mut parts = one.parts.iter().zip(&other.parts);
    one.parts.len() == other.parts.len()
        && parts.all(|(one, other)| {
            one.target == other.target && without_value(&one.act) == without_value(&other.act)
        })
}

fn without_value(act: &Act) -> Act {
    match act {
        Act::Write {
            write,
            lifetime,
            if_revision,
            ..
        } => Act::Write {
            write: *write,
            value: Bytes::new(),
            lifetime: *lifetime,
            if_revision: *if_revision,
        },
        act => act.clone(),
    }
}

impl Known<'_> {
    /// By mutation of unknown outcome, the records that it may have touched.
    pub(super) fn touched(&self) -> BTreeMap<usize, BTreeSet<&Name>> {
        let mut touched: BTreeMap<usize, BTreeSet<&Name>> = BTreeMap::new();
        for (name, timeline) in &self.timelines.of {
            for mutation in timeline
                .floats
                .iter()
                .filter(|mutation| self.is_unknown(**mutation))
            {
                touched.entry(*mutation).or_default().insert(name);
            }
        }
        touched
    }

    pub(super) fn is_unknown(&self, mutation: usize) -> bool {
        self.mutations[mutation].fate == Fate::Unknown
    }
}
