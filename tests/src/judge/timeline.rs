//! One record's history: what was done to it and what was seen of it, in the order of the log.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use helve_client::v1::{HandleStatus, RecordInfo};

use super::{
    bounds::Bounds,
    evidence::Pin,
    looks,
    mutations::{Fate, Mutation},
    told::Heard,
    verdict::Finding,
};
use crate::{
    history::Event,
    model::{Act, Name, Row},
};

/// What is known to stand somewhere in the log.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    /// Its log index; of a look, its view's.
    pub(super) index: u64,
    pub(super) clock_ms: u64,
    pub(super) what: What<'a>,
    pub(super) event: usize,
}

impl Entry<'_> {
    /// Its place in the log: at one index the write is first, since the view holds it.
    pub(super) fn place(&self) -> (u64, bool) {
        (self.index, matches!(self.what, What::Look(_)))
    }
}

/// What is there.
#[derive(Debug)]
pub(super) enum What<'a> {
    /// The mutation of this number.
    Act {
        act: &'a Act,
        heard: Heard<'a>,
        mutation: usize,
    },
    /// The write that made this revision, whichever it was.
    Pin(&'a Pin),
    Look(Seen<'a>),
}

/// What a read shows of one record.
#[derive(Debug, Clone, Copy)]
pub(super) enum Seen<'a> {
    /// The record, alive.
    Record {
        info: &'a RecordInfo,
        value: Option<&'a Bytes>,
    },
    /// What became of it.
    Status(HandleStatus),
    /// That it lives.
    Lives,
    /// That it does not.
    Gone,
    /// The total of this count only.
    Counted(usize),
}

/// A conflict: at some index behind `after`, up to `until`, the record had this revision.
#[derive(Debug)]
pub(super) struct Doubt<'a> {
    pub(super) act: &'a Act,
    pub(super) revision: u64,
    pub(super) after: u64,
    pub(super) until: u64,
    pub(super) event: usize,
}

/// A read that may have restarted the idle time, at some index behind `after`, up to `until`.
#[derive(Debug)]
pub(super) struct Touch {
    pub(super) after: u64,
    pub(super) until: u64,
}

/// All that concerns one record.
#[derive(Debug, Default)]
pub(super) struct Timeline<'a> {
    pub(super) entries: Vec<Entry<'a>>,
    /// The mutations, by their numbers, that may stand anywhere or nowhere.
    pub(super) floats: BTreeSet<usize>,
    pub(super) doubts: Vec<Doubt<'a>>,
    pub(super) touches: Vec<Touch>,
    /// The first index at which something may have been there.
    born: Option<u64>,
}

impl Timeline<'_> {
    /// Whether nothing can have been there up to this index.
    pub(super) fn begins_after(&self, index: u64) -> bool {
        self.born.is_none_or(|born| index < born)
    }

    fn may_be_born(&mut self, index: u64) {
        self.born = Some(self.born.map_or(index, |born| born.min(index)));
    }
}

/// A count, and how many of its records are unknown.
#[derive(Debug)]
pub(super) struct Count {
    pub(super) event: usize,
    pub(super) live: u64,
    /// Mints that may have taken effect before, under ids that no client was told.
    pub(super) nameless: u64,
}

/// All records, and what concerns more than one.
#[derive(Debug, Default)]
pub(super) struct Timelines<'a> {
    pub(super) of: BTreeMap<Name, Timeline<'a>>,
    pub(super) counts: Vec<Count>,
    pub(super) findings: Vec<Finding>,
}

/// Takes a history apart into its records.
pub(super) fn timelines<'a>(
    events: &'a [Event],
    mutations: &'a [Mutation],
    pins: &'a [Pin],
    bounds: &Bounds,
) -> Timelines<'a> {
    let mut all = Timelines::default();
    for (number, mutation) in mutations.iter().enumerate() {
        add_call(&mut all, events, bounds, (number, mutation));
    }
    for pin in pins {
        add_pin(&mut all, pin);
    }
    looks::add_names(&mut all, events);
    // Now every name is known; lists and counts say something of those, too, that they do not show.
    for event in events {
        looks::add(&mut all, event, mutations, bounds);
    }
    for timeline in all.of.values_mut() {
        timeline.entries.sort_by_key(Entry::place);
    }
    all
}

fn add_call<'a>(
    all: &mut Timelines<'a>,
    events: &'a [Event],
    bounds: &Bounds,
    (number, mutation): (usize, &'a Mutation),
) {
    let heard = mutation.heard(events);
    let parts = mutation
        .parts
        .iter()
        .zip(&mutation.names)
        .zip(heard)
        .enumerate();
    for (part, ((this, name), heard)) in parts {
        let Some(name) = name else { continue };
        let timeline = all.of.entry(name.clone()).or_default();
        let act = &this.act;
        match mutation.fate {
            Fate::Told { index, clock_ms } | Fate::Shown { index, clock_ms } => {
                if let Some(heard) = heard {
                    timeline.may_be_born(index);
                    timeline.entries.push(Entry {
                        index,
                        clock_ms,
                        what: What::Act {
                            act,
                            heard,
                            mutation: number,
                        },
                        event: mutation.teller,
                    });
                }
            }
            Fate::Unknown | Fate::Denied => {
                timeline.may_be_born(mutation.after + 1);
                timeline.floats.insert(number);
            }
            Fate::Conflict {
                revision,
                part: failed,
            } if failed == part => {
                let until = events[mutation.teller]
                    .returned_ns
                    .map_or(u64::MAX, |ns| bounds.until(ns));
                timeline.doubts.push(Doubt {
                    act,
                    revision,
                    after: mutation.after,
                    until,
                    event: mutation.teller,
                });
            }
            Fate::Conflict { .. } => {}
        }
    }
}

fn add_pin<'a>(all: &mut Timelines<'a>, pin: &'a Pin) {
    for name in pin.names() {
        let timeline = all.of.entry(name.clone()).or_default();
        timeline.may_be_born(pin.revision);
        timeline
            .floats
            .extend(pin.writers.iter().map(|writer| writer.mutation));
        timeline.entries.push(Entry {
            index: pin.revision,
            clock_ms: pin.clock_ms,
            what: What::Pin(pin),
            event: pin.event,
        });
    }
}

impl Seen<'_> {
    /// Whether a record that lives, or has this status, may be seen so.
    pub(super) fn may_be(&self, name: &Name, status: HandleStatus, row: Option<&Row>) -> bool {
        let row = row.filter(|_| status == HandleStatus::Live);
        match self {
            Self::Record { info, value } => row.is_some_and(|row| {
                row.may_be_told(name, info) && value.is_none_or(|value| *value == row.value)
            }),
            Self::Status(told) => *told == status,
            Self::Lives => row.is_some(),
            Self::Gone => row.is_none(),
            Self::Counted(_) => true,
        }
    }
}
