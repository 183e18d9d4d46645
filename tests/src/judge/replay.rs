//! Replays some records' timelines through the model, side by side. Mutations of unknown outcome may stand in any gap that has room for
//! them, so what the records hold is a set of *possible states*; each told reply leaves those that agree with it. No possible state left is
//! a contradiction.

mod conflicts;
mod grow;

use std::{collections::BTreeSet, time::Instant};

use self::conflicts::Conflicts;
use super::{
    evidence::Pin,
    known::Known,
    possible_states::{PossibleState, agrees, distinct, fewest, told},
    stage::Stage,
    timeline::{Entry, Seen, What},
    told::Heard,
};
use crate::model::{Act, At, Cell, Name, Said, Span, step};

/// More possible states than this are not searched through: the others are left out, so that what is found is a way in which it may have
/// been, but that none is found says nothing.
const WORLDS_MAX: usize = 2_000;
/// This many are left then.
const WORLDS_LEFT: usize = 500;

/// The result of a replay.
#[derive(Debug)]
pub(super) enum Ran {
    /// It held; these are the possible states at the end, and what counts saw.
    Through {
        possible_states: Vec<PossibleState>,
        counted: Vec<Counted>,
        /// Whether these are all of them.
        is_whole: bool,
    },
    /// No possible state agrees with what is known of one record.
    Stuck(Stuck),
    /// Too many possible states, or too little time for them.
    TooMany,
}

/// Where no possible state is left.
#[derive(Debug)]
pub(super) struct Stuck {
    /// The record, by its place among those that were replayed.
    pub(super) place: usize,
    pub(super) at: Contradiction,
    /// What it held in the possible states that there were before.
    pub(super) before: Vec<Cell>,
}

/// Whether a count may have met a record alive, and not alive.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    pub(super) count: usize,
    pub(super) may_live: bool,
    pub(super) may_not: bool,
}

/// What contradicts the model.
#[derive(Debug, Clone, Copy)]
pub(super) enum Contradiction {
    /// The entry of this number.
    Entry(usize),
    /// The conflict of this number.
    Doubt(usize),
}

/// A replay of some records.
pub(super) struct Replay<'s, 'a> {
    known: &'s Known<'a>,
    stage: Stage<'s, 'a>,
    allowed: &'s BTreeSet<usize>,
}

/// How far a replay has come.
struct Path<'s> {
    conflicts: Conflicts<'s>,
    after: u64,
    /// Whether no possible states were left out.
    is_whole: bool,
}

impl<'s, 'a> Replay<'s, 'a> {
    /// Of these records, in the order of their names; the allowed mutations of unknown outcome may have taken effect.
    pub(super) fn new(
        known: &'s Known<'a>,
        names: impl IntoIterator<Item = &'s Name>,
        allowed: &'s BTreeSet<usize>,
    ) -> Self {
        Self {
            known,
            stage: Stage::new(known, names.into_iter(), allowed),
            allowed,
        }
    }

    pub(super) fn run(&self) -> Ran {
        let mut path = Path {
            conflicts: Conflicts::of(&self.stage),
            after: 0,
            is_whole: true,
        };
        let mut possible_states = vec![PossibleState::new(self.stage.records.len())];
        let mut counted = Vec::new();
        for (place, number, entry) in &self.stage.entries {
            let until = match entry.what {
                What::Act { .. } | What::Pin(_) => entry.index.saturating_sub(1),
                What::Look(_) => entry.index,
            };
            possible_states = match self.pass(possible_states, until, &mut path) {
                Ok(possible_states) => possible_states,
                Err(ran) => return ran,
            };
            if let What::Look(Seen::Counted(count)) = entry.what {
                counted.push(self.count(count, &possible_states, *place, entry));
            }
            let next = self.meet(&possible_states, *place, entry);
            if next.is_empty() {
                return path.stuck(*place, Contradiction::Entry(*number), &possible_states);
            }
            possible_states = distinct(next);
            path.after = entry.index;
        }
        match self.pass(possible_states, u64::MAX, &mut path) {
            Ok(possible_states) => Ran::Through {
                possible_states,
                counted,
                is_whole: path.is_whole,
            },
            Err(ran) => ran,
        }
    }

    /// Passes the gap up to an index.
    fn pass(
        &self,
        possible_states: Vec<PossibleState>,
        until: u64,
        path: &mut Path<'_>,
    ) -> Result<Vec<PossibleState>, Ran> {
        if until <= path.after {
            return Ok(possible_states);
        }
        let gap = (path.after, until);
        let within = path.conflicts.within(self.known.bounds, gap);
        let mut possible_states = self.grow(possible_states, gap, &within);
        if self.is_late() {
            return Err(Ran::TooMany);
        }
        if possible_states.len() > WORLDS_MAX {
            possible_states = fewest(possible_states, WORLDS_LEFT);
            path.is_whole = false;
        }
        path.close(possible_states, until)
    }

    /// Whatever is found from here on, possible states may be missing.
    fn is_late(&self) -> bool {
        Instant::now() >= self.known.until
    }

    /// The cell as an act with a condition on its revision meets it: a revision that was not seen
    /// may be the one that is asked for, if it lies where the write took effect.
    fn compared(state: &PossibleState, place: usize, act: &Act) -> Cell {
        let records = &state.records[place];
        let mut cell = records.cell.clone();
        if let Cell::Written(row) = &mut cell
            && let Some(revision) = act.if_revision()
            && records.perhaps.contains(&revision)
        {
            row.revision = revision;
        }
        cell
    }

    /// The possible states once all these acts were done at one place in the log: none if one of them cannot be.
    fn done(&self, state: &PossibleState, acts: &[(usize, &Act)], at: At) -> Vec<PossibleState> {
        let mut possible_states = vec![state.clone()];
        for (place, act) in acts {
            let name = self.stage.records[*place].name;
            let next = possible_states.iter().flat_map(|state| {
                let steps = step(&Self::compared(state, *place, act), name, act, at).into_iter();
                let done = steps.filter(|(said, _)| matches!(said, Said::Done { .. }));
                done.map(|(_, cell)| state.with(*place, cell))
            });
            possible_states = next.collect();
        }
        possible_states
    }

    fn count(
        &self,
        count: usize,
        possible_states: &[PossibleState],
        place: usize,
        entry: &Entry<'_>,
    ) -> Counted {
        let (clock, name) = (Span::at(entry.clock_ms), self.stage.records[place].name);
        let may = |seen: Seen<'_>| {
            possible_states.iter().any(|state| {
                let cell = &state.records[place].cell;
                let mut statuses = cell.statuses(name, clock).into_iter();
                statuses.any(|status| seen.may_be(name, status, cell.row()))
            })
        };
        Counted {
            count,
            may_live: may(Seen::Lives),
            may_not: may(Seen::Gone),
        }
    }

    /// What is left of the possible states that agree with an entry.
    fn meet(
        &self,
        possible_states: &[PossibleState],
        place: usize,
        entry: &Entry<'_>,
    ) -> Vec<PossibleState> {
        let meet = |state: &PossibleState| match &entry.what {
            What::Act { act, heard, .. } => self.act(state, place, act, heard, entry),
            What::Pin(pin) => self.pinned(state, pin),
            What::Look(seen) => self.look(state, place, seen, entry).into_iter().collect(),
        };
        possible_states.iter().flat_map(meet).collect()
    }

    fn act(
        &self,
        state: &PossibleState,
        place: usize,
        act: &Act,
        heard: &Heard<'_>,
        entry: &Entry<'_>,
    ) -> Vec<PossibleState> {
        let at = At::new(entry.index, entry.clock_ms);
        let name = self.stage.records[place].name;
        let steps = step(&Self::compared(state, place, act), name, act, at).into_iter();
        let agreeing = steps.filter(|(said, _)| agrees(name, act, said, heard));
        agreeing
            .map(|(_, cell)| match heard {
                Heard::Ready => state.clone(),
                Heard::Done {
                    info: Some(info), ..
                } => state.with(place, told(cell, info)),
                Heard::Done { .. } | Heard::NotLive(_) | Heard::Shown => state.with(place, cell),
            })
            .collect()
    }

    /// One of the writers wrote this revision: to these records, or to others if it was not shown of these.
    fn pinned(&self, state: &PossibleState, pin: &Pin) -> Vec<PossibleState> {
        let has_it = |place: usize| {
            let row = state.records[place].cell.row();
            row.is_some_and(|row| row.revision == pin.revision)
        };
        let mut shown = pin.shown.iter().filter_map(|name| self.stage.place(name));
        let is_shown = shown.clone().next().is_some();
        if shown.any(has_it) {
            return vec![state.clone()];
        }
        let at = At::new(pin.revision, pin.clock_ms);
        let is_free = |mutation| self.allowed.contains(&mutation) && !state.has_used(mutation);
        let writers = pin.writers.iter().filter(|writer| is_free(writer.mutation));
        let written = writers.flat_map(|writer| {
            let acts = self.stage.acts(self.known, writer.mutation, &writer.names);
            let mut written = self.done(state, &acts, at);
            for state in &mut written {
                state.uses(writer.mutation);
            }
            written
        });
        let elsewhere = (!is_shown).then(|| state.clone());
        written.chain(elsewhere).collect()
    }

    fn look(
        &self,
        state: &PossibleState,
        place: usize,
        seen: &Seen<'_>,
        entry: &Entry<'_>,
    ) -> Option<PossibleState> {
        let (cell, name) = (&state.records[place].cell, self.stage.records[place].name);
        let statuses = cell.statuses(name, Span::at(entry.clock_ms));
        let mut statuses = statuses.into_iter();
        statuses.find(|status| seen.may_be(name, *status, cell.row()))?;
        Some(match seen {
            Seen::Record { info, .. } => state.with(place, told(cell.clone(), info)),
            _ => state.clone(),
        })
    }
}

impl Path<'_> {
    /// The possible states that have explained all conflicts that cannot stand behind this index.
    fn close(
        &mut self,
        mut possible_states: Vec<PossibleState>,
        until: u64,
    ) -> Result<Vec<PossibleState>, Ran> {
        for conflict in self.conflicts.over(until) {
            let left: Vec<_> = possible_states
                .iter()
                .filter_map(|state| state.rid_of(conflict))
                .collect();
            if left.is_empty() {
                let (place, number) = self.conflicts.of_record(conflict);
                return Err(self.stuck(place, Contradiction::Doubt(number), &possible_states));
            }
            possible_states = left;
        }
        Ok(possible_states)
    }

    /// No possible state is left; or of those that were not left out.
    fn stuck(&self, place: usize, at: Contradiction, possible_states: &[PossibleState]) -> Ran {
        if !self.is_whole {
            return Ran::TooMany;
        }
        let mut before: Vec<Cell> = Vec::new();
        for state in possible_states {
            let cell = &state.records[place].cell;
            if !before.contains(cell) {
                before.push(cell.clone());
            }
        }
        Ran::Stuck(Stuck { place, at, before })
    }
}
