//! All that is known of a history, and which of its deeds are alike.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Instant,
};

use bytes::Bytes;

use super::{
    bounds::Bounds,
    deeds::{Deed, Fate},
    evidence::Evidence,
    timeline::Timelines,
};
use crate::{
    history::Event,
    model::{Act, Name},
};

/// All that is known of a history.
pub(super) struct Known<'a> {
    pub(super) events: &'a [Event],
    pub(super) deeds: &'a [Deed],
    pub(super) bounds: &'a Bounds,
    pub(super) evidence: &'a Evidence,
    pub(super) timelines: Timelines<'a>,
    /// By deed, the first one that is like it.
    pub(super) alike: Alike,
    /// When the search ends: what is not decided by then is undecided.
    pub(super) until: Instant,
}

/// Which deeds of unknown outcome cannot be told apart.
///
/// A write that was not seen differs in nothing that a history shows: neither its value nor its
/// revision. So of two such deeds that do the same to the same records but for the value, the
/// earlier one may be wherever the later one may, and a search need not try both.
pub(super) enum Alike {
    /// Each deed by itself, and with its value.
    Apart,
    /// By deed, the first one that is like it.
    By(Vec<usize>),
}

impl Alike {
    /// Those that differ in their values alone, and of which nothing was seen.
    pub(super) fn of(deeds: &[Deed], evidence: &Evidence) -> Self {
        let writers = evidence.pins.iter().flat_map(|pin| &pin.writers);
        let writers: BTreeSet<usize> = writers.map(|writer| writer.deed).collect();
        let mut first: HashMap<&[Option<Name>], Vec<usize>> = HashMap::new();
        let mut by = Vec::with_capacity(deeds.len());
        for (number, deed) in deeds.iter().enumerate() {
            by.push(number);
            if deed.fate != Fate::Unknown || writers.contains(&number) {
                continue;
            }
            let others = first.entry(&deed.names).or_default();
            match others.iter().find(|other| are_alike(deed, &deeds[**other])) {
                Some(other) => by[number] = *other,
                None => others.push(number),
            }
        }
        Self::By(by)
    }

    /// The first one that is like this one.
    pub(super) fn first(&self, deed: usize) -> usize {
        match self {
            Self::Apart => deed,
            Self::By(by) => by[deed],
        }
    }
}

fn are_alike(one: &Deed, other: &Deed) -> bool {
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
    /// By deed of unknown outcome, the records that it may have touched.
    pub(super) fn touched(&self) -> BTreeMap<usize, BTreeSet<&Name>> {
        let mut touched: BTreeMap<usize, BTreeSet<&Name>> = BTreeMap::new();
        for (name, timeline) in &self.timelines.of {
            for deed in timeline
                .floats
                .iter()
                .filter(|deed| self.is_unknown(**deed))
            {
                touched.entry(*deed).or_default().insert(name);
            }
        }
        touched
    }

    pub(super) fn is_unknown(&self, deed: usize) -> bool {
        self.deeds[deed].fate == Fate::Unknown
    }
}
