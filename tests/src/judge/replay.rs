//! Replays some records' timelines through the model, side by side. Mutations of unknown outcome may stand in any gap that has room for
//! them, so what the records hold is a set of *worlds*; each told reply leaves those that agree with it. No world left is a
//! contradiction.

mod conflicts;
mod grow;

use std::{collections::BTreeSet, time::Instant};

use self::conflicts::Conflicts;
use super::{
    evidence::Pin,
    known::Known,
    stage::Stage,
    timeline::{Entry, Seen, What},
    told::Heard,
    worlds::{World, agrees, distinct, fewest, told},
};
use crate::model::{Act, At, Cell, Name, Said, Span, step};

/// More worlds than this are not searched through: the others are left out, so that what is found is a way in which it may have been,
/// but that none is found says nothing.
const WORLDS_MAX: usize = 2_000;
/// This many are left then.
const WORLDS_LEFT: usize = 500;

/// The result of a replay.
#[derive(Debug)]
pub(super) enum Ran {
    /// It held; these are the worlds at the end, and what counts saw.
    Through {
        worlds: Vec<World>,
        counted: Vec<Counted>,
        /// Whether these are all of them.
        is_whole: bool,
    },
    /// No world agrees with what is known of one record.
    Stuck(Stuck),
    /// Too many worlds, or too little time for them.
    TooMany,
}

/// Where no world is left.
#[derive(Debug)]
pub(super) struct Stuck {
    /// The record, by its place among those that were replayed.
    pub(super) place: usize,
    pub(super) at: Contradiction,
    /// What it held in the worlds that there were before.
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
    /// Whether no worlds were left out.
    is_whole: bool,
}

impl<'s, 'a> Replay<'s, 'a> {
    /// Of these records, in the order of their names; the allowed deeds of unknown outcome may have taken effect.
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
        let mut worlds = vec![World::new(self.stage.records.len())];
        let mut counted = Vec::new();
        for (place, number, entry) in &self.stage.entries {
            let until = match entry.what {
                What::Act { .. } | What::Pin(_) => entry.index.saturating_sub(1),
                What::Look(_) => entry.index,
            };
            worlds = match self.pass(worlds, until, &mut path) {
                Ok(worlds) => worlds,
                Err(ran) => return ran,
            };
            if let What::Look(Seen::Counted(count)) = entry.what {
                counted.push(self.count(count, &worlds, *place, entry));
            }
            let next = self.meet(&worlds, *place, entry);
            if next.is_empty() {
                return path.stuck(*place, Contradiction::Entry(*number), &worlds);
            }
            worlds = distinct(next);
            path.after = entry.index;
        }
        match self.pass(worlds, u64::MAX, &mut path) {
            Ok(worlds) => Ran::Through {
                worlds,
                counted,
                is_whole: path.is_whole,
            },
            Err(ran) => ran,
        }
    }

    /// Passes the gap up to an index.
    fn pass(&self, worlds: Vec<World>, until: u64, path: &mut Path<'_>) -> Result<Vec<World>, Ran> {
        if until <= path.after {
            return Ok(worlds);
        }
        let gap = (path.after, until);
        let within = path.conflicts.within(self.known.bounds, gap);
        let mut worlds = self.grow(worlds, gap, &within);
        if self.is_late() {
            return Err(Ran::TooMany);
        }
        if worlds.len() > WORLDS_MAX {
            worlds = fewest(worlds, WORLDS_LEFT);
            path.is_whole = false;
        }
        path.close(worlds, until)
    }

    /// Whatever is found from here on, worlds may be missing.
    fn is_late(&self) -> bool {
        Instant::now() >= self.known.until
    }

    /// The cell as an act with a condition on its revision meets it: a revision that was not seen
    /// may be the one that is asked for, if it lies where the write took effect.
    fn compared(world: &World, place: usize, act: &Act) -> Cell {
        let standing = &world.standing[place];
        let mut cell = standing.cell.clone();
        if let Cell::Written(row) = &mut cell
            && let Some(revision) = act.if_revision()
            && standing.perhaps.contains(&revision)
        {
            row.revision = revision;
        }
        cell
    }

    /// The worlds once all these acts were done at one place in the log: none if one of them cannot be.
    fn done(&self, world: &World, acts: &[(usize, &Act)], at: At) -> Vec<World> {
        let mut worlds = vec![world.clone()];
        for (place, act) in acts {
            let name = self.stage.records[*place].name;
            let next = worlds.iter().flat_map(|world| {
                let steps = step(&Self::compared(world, *place, act), name, act, at).into_iter();
                let done = steps.filter(|(said, _)| matches!(said, Said::Done { .. }));
                done.map(|(_, cell)| world.with(*place, cell))
            });
            worlds = next.collect();
        }
        worlds
    }

    fn count(&self, count: usize, worlds: &[World], place: usize, entry: &Entry<'_>) -> Counted {
        let (clock, name) = (Span::at(entry.clock_ms), self.stage.records[place].name);
        let may = |seen: Seen<'_>| {
            worlds.iter().any(|world| {
                let cell = &world.standing[place].cell;
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

    /// What is left of the worlds that agree with an entry.
    fn meet(&self, worlds: &[World], place: usize, entry: &Entry<'_>) -> Vec<World> {
        let meet = |world: &World| match &entry.what {
            What::Act { act, heard, .. } => self.act(world, place, act, heard, entry),
            What::Pin(pin) => self.pinned(world, pin),
            What::Look(seen) => self.look(world, place, seen, entry).into_iter().collect(),
        };
        worlds.iter().flat_map(meet).collect()
    }

    fn act(
        &self,
        world: &World,
        place: usize,
        act: &Act,
        heard: &Heard<'_>,
        entry: &Entry<'_>,
    ) -> Vec<World> {
        let at = At::new(entry.index, entry.clock_ms);
        let name = self.stage.records[place].name;
        let steps = step(&Self::compared(world, place, act), name, act, at).into_iter();
        let agreeing = steps.filter(|(said, _)| agrees(name, act, said, heard));
        agreeing
            .map(|(_, cell)| match heard {
                Heard::Ready => world.clone(),
                Heard::Done {
                    info: Some(info), ..
                } => world.with(place, told(cell, info)),
                Heard::Done { .. } | Heard::NotLive(_) | Heard::Shown => world.with(place, cell),
            })
            .collect()
    }

    /// One of the writers wrote this revision: to these records, or to others if it was not shown of these.
    fn pinned(&self, world: &World, pin: &Pin) -> Vec<World> {
        let has_it = |place: usize| {
            let row = world.standing[place].cell.row();
            row.is_some_and(|row| row.revision == pin.revision)
        };
        let mut shown = pin.shown.iter().filter_map(|name| self.stage.place(name));
        let is_shown = shown.clone().next().is_some();
        if shown.any(has_it) {
            return vec![world.clone()];
        }
        let at = At::new(pin.revision, pin.clock_ms);
        let is_free = |deed| self.allowed.contains(&deed) && !world.has_used(deed);
        let writers = pin.writers.iter().filter(|writer| is_free(writer.deed));
        let written = writers.flat_map(|writer| {
            let acts = self.stage.acts(self.known, writer.deed, &writer.names);
            let mut written = self.done(world, &acts, at);
            for world in &mut written {
                world.uses(writer.deed);
            }
            written
        });
        let elsewhere = (!is_shown).then(|| world.clone());
        written.chain(elsewhere).collect()
    }

    fn look(
        &self,
        world: &World,
        place: usize,
        seen: &Seen<'_>,
        entry: &Entry<'_>,
    ) -> Option<World> {
        let (cell, name) = (&world.standing[place].cell, self.stage.records[place].name);
        let statuses = cell.statuses(name, Span::at(entry.clock_ms));
        let mut statuses = statuses.into_iter();
        statuses.find(|status| seen.may_be(name, *status, cell.row()))?;
        Some(match seen {
            Seen::Record { info, .. } => world.with(place, told(cell.clone(), info)),
            _ => world.clone(),
        })
    }
}

impl Path<'_> {
    /// The worlds that have explained all conflicts that cannot stand behind this index.
    fn close(&mut self, mut worlds: Vec<World>, until: u64) -> Result<Vec<World>, Ran> {
        for conflict in self.conflicts.over(until) {
            let left: Vec<_> = worlds
                .iter()
                .filter_map(|world| world.rid_of(conflict))
                .collect();
            if left.is_empty() {
                let (place, number) = self.conflicts.of_record(conflict);
                return Err(self.stuck(place, Contradiction::Doubt(number), &worlds));
            }
            worlds = left;
        }
        Ok(worlds)
    }

    /// No world is left; or of those that were not left out.
    fn stuck(&self, place: usize, at: Contradiction, worlds: &[World]) -> Ran {
        if !self.is_whole {
            return Ran::TooMany;
        }
        let mut before: Vec<Cell> = Vec::new();
        for world in worlds {
            let cell = &world.standing[place].cell;
            if !before.contains(cell) {
                before.push(cell.clone());
            }
        }
        Ran::Stuck(Stuck { place, at, before })
    }
}
