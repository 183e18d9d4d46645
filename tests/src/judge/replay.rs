//! Replays one record's timeline through the model. Mutations of unknown outcome may stand in any gap that has room for them, so what
//! the record holds is a set of *worlds*; each told reply leaves those that agree with it. No world left is a contradiction.

use std::{collections::HashMap, time::Instant};

use super::{
    bounds::Bounds,
    timeline::{Doubt, Entry, Float, Seen, Timeline, What},
    told::Heard,
    worlds::{Forced, UNSEEN, Used, World, agrees, told},
};
use crate::model::{Act, At, Cell, Name, Said, Span, cell::idle_deadline, step};

/// More worlds than this are not searched through.
const WORLDS_MAX: usize = 2_000;

/// What a replay comes to.
#[derive(Debug)]
pub(super) enum Ran {
    /// It held; these are the worlds at the end, and what counts saw.
    Through {
        worlds: Vec<World>,
        counted: Vec<Counted>,
    },
    /// No world agrees with this.
    Stuck {
        at: Contradiction,
        /// Those that there were before.
        before: Vec<World>,
    },
    /// Too many worlds, or too little time for them.
    TooMany,
}

/// Whether a count may have met the record alive, and not alive.
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
    /// What another record shows to have taken effect did not here.
    Forced,
}

/// A replay of one record.
pub(super) struct Replay<'r, 'a> {
    pub(super) name: &'r Name,
    pub(super) timeline: &'r Timeline<'a>,
    pub(super) bounds: &'r Bounds,
    /// Which floats may take effect, by their deeds.
    pub(super) allowed: &'r dyn Fn(usize) -> bool,
    pub(super) forced: &'r Forced,
    /// When the search ends, wherever it is.
    pub(super) until: Instant,
}

impl Replay<'_, '_> {
    pub(super) fn run(&self) -> Ran {
        let mut worlds = vec![World {
            cell: Cell::Empty,
            used: Vec::new(),
        }];
        let mut doubts: Vec<bool> = vec![true; self.timeline.doubts.len()];
        let (mut counted, mut after) = (Vec::new(), 0);
        for (number, entry) in self.timeline.entries.iter().enumerate() {
            let until = match entry.what {
                What::Act { .. } => entry.index.saturating_sub(1),
                What::Look(_) => entry.index,
            };
            worlds = self.grow(worlds, after, until);
            self.settle(&mut doubts, &worlds, after, until);
            if let What::Look(Seen::Counted(count)) = entry.what {
                counted.push(self.count(count, &worlds, entry));
            }
            let next = self.meet(&worlds, entry);
            if next.is_empty() && self.is_late() {
                return Ran::TooMany;
            }
            if next.is_empty() {
                return Ran::Stuck {
                    at: Contradiction::Entry(number),
                    before: worlds,
                };
            }
            worlds = self.distinct(next);
            if worlds.len() > WORLDS_MAX || self.is_late() {
                return Ran::TooMany;
            }
            after = entry.index;
        }
        worlds = self.grow(worlds, after, u64::MAX);
        self.settle(&mut doubts, &worlds, after, u64::MAX);
        if self.is_late() {
            return Ran::TooMany;
        }
        if let Some(number) = doubts.iter().position(|is_open| *is_open) {
            return Ran::Stuck {
                at: Contradiction::Doubt(number),
                before: worlds,
            };
        }
        let forced = self
            .floats()
            .filter(|float| self.forced.contains_key(&float.deed));
        let forced: Vec<_> = forced.map(|float| float.deed).collect();
        let before = worlds.clone();
        worlds.retain(|world| forced.iter().all(|deed| world.has_used(*deed)));
        if worlds.is_empty() {
            return Ran::Stuck {
                at: Contradiction::Forced,
                before,
            };
        }
        Ran::Through { worlds, counted }
    }

    /// Whatever is found from here on, worlds may be missing.
    fn is_late(&self) -> bool {
        Instant::now() >= self.until
    }

    fn floats(&self) -> impl Iterator<Item = &Float<'_>> {
        let floats = self.timeline.floats.iter();
        floats.filter(|float| (self.allowed)(float.deed) || self.forced.contains_key(&float.deed))
    }

    /// The worlds behind `after`, and all that floats and renewals may make of them up to `until`.
    fn grow(&self, mut worlds: Vec<World>, after: u64, until: u64) -> Vec<World> {
        if until <= after {
            return worlds;
        }
        let clock = self.bounds.clock(after, until);
        for world in &mut worlds {
            self.may_renew(world, clock, (after, until));
        }
        if self.floats().next().is_none() {
            return worlds;
        }
        let mut grown = self.distinct(worlds);
        let mut edge = grown.clone();
        while !edge.is_empty() && grown.len() <= WORLDS_MAX && !self.is_late() {
            let mut found = Vec::new();
            for world in &edge {
                for float in self.floats().filter(|float| !world.has_used(float.deed)) {
                    found.extend(self.with(world, float, after, until));
                }
            }
            found.retain(|world| !grown.iter().any(|known| self.stands_for(known, world)));
            edge = self.distinct(found);
            grown.extend(edge.iter().cloned());
        }
        self.distinct(grown)
    }

    /// Whether the one holds the same as the other, and used up no more to come to it.
    fn stands_for(&self, one: &World, other: &World) -> bool {
        let forced = |world: &World| {
            let used = world.used.iter().map(|used| used.deed);
            used.filter(|deed| self.forced.contains_key(deed))
                .collect::<Vec<_>>()
        };
        one.cell == other.cell && one.used_within(other) && forced(one) == forced(other)
    }

    /// The world once the float has taken effect in this gap: none if it cannot.
    fn with(&self, world: &World, float: &Float<'_>, after: u64, until: u64) -> Vec<World> {
        let mut after = after.max(float.after);
        let mut until = until;
        if let Some((from, to)) = self.forced.get(&float.deed) {
            (after, until) = (after.max(*from), until.min(*to));
        }
        if after >= until || !self.bounds.has_room(after, until) {
            return Vec::new();
        }
        let at = At {
            index: UNSEEN + float.deed as u64,
            clock: self.bounds.clock(after, until),
        };
        let cell = self.compared(world, float.act);
        let steps = step(&cell, self.name, float.act, at);
        let done = steps
            .into_iter()
            .filter(|(said, _)| matches!(said, Said::Done { .. }));
        done.map(|(_, cell)| {
            let mut used = world.used.clone();
            used.push(Used {
                deed: float.deed,
                after,
                until,
            });
            used.sort_unstable_by_key(|used| used.deed);
            World { cell, used }
        })
        .collect()
    }

    /// The cell as an act with a condition on its revision meets it: a revision that nobody saw may be the one that is asked for, if
    /// it lies where the write took effect.
    fn compared(&self, world: &World, act: &Act) -> Cell {
        let mut cell = world.cell.clone();
        if let Cell::Written(row) = &mut cell
            && let Some(revision) = act.if_revision().filter(|revision| *revision > 0)
            && !self.bounds.is_told(revision)
        {
            let is_writer = |used: &&Used| UNSEEN + used.deed as u64 == row.revision;
            let writer = world.used.iter().find(is_writer);
            if writer.is_some_and(|used| used.after < revision && revision <= used.until) {
                row.revision = revision;
            }
        }
        cell
    }

    /// A get in this gap may have restarted the idle time.
    fn may_renew(&self, world: &mut World, clock: Span, (after, until): (u64, u64)) {
        let Cell::Written(row) = &mut world.cell else {
            return;
        };
        let (Some(ttl_ms), Some(deadline)) = (row.idle_ttl_ms, &mut row.idle_deadline_ms) else {
            return;
        };
        let mut touches = self.timeline.touches.iter();
        let is_here = touches.any(|touch| touch.after < until && after < touch.until);
        if is_here && clock.from < deadline.to {
            deadline.to = deadline
                .to
                .max(idle_deadline(Span::at(clock.to), ttl_ms).to);
        }
    }

    /// Notes the conflicts that some world explains, somewhere in this gap.
    fn settle(&self, open: &mut [bool], worlds: &[World], after: u64, until: u64) {
        for (doubt, is_open) in self.timeline.doubts.iter().zip(open) {
            let (from, to) = (after.max(doubt.after), until.min(doubt.until));
            // The entry of the conflict itself stands in the gap.
            if *is_open && from < to && self.bounds.has_room(from, to) {
                *is_open = !worlds
                    .iter()
                    .any(|world| self.explains(world, doubt, from, to));
            }
        }
    }

    fn explains(&self, world: &World, doubt: &Doubt<'_>, from: u64, to: u64) -> bool {
        let at = At {
            index: UNSEEN,
            clock: self.bounds.clock(from, to),
        };
        let steps = step(&world.cell, self.name, doubt.act, at);
        steps.iter().any(|(said, _)| match said {
            Said::Conflict(revision) if *revision >= UNSEEN => {
                doubt.revision > 0 && !self.bounds.is_told(doubt.revision)
            }
            Said::Conflict(revision) => *revision == doubt.revision,
            Said::Done { .. } | Said::NotLive(_) => false,
        })
    }

    fn count(&self, count: usize, worlds: &[World], entry: &Entry<'_>) -> Counted {
        let clock = Span::at(entry.clock_ms);
        let may = |seen: Seen<'_>| {
            worlds.iter().any(|world| {
                let statuses = world.cell.statuses(self.name, clock);
                let row = world.cell.row();
                statuses
                    .iter()
                    .any(|status| seen.may_be(self.name, *status, row))
            })
        };
        Counted {
            count,
            may_live: may(Seen::Lives),
            may_not: may(Seen::Gone),
        }
    }

    /// What is left of the worlds that agree with an entry.
    fn meet(&self, worlds: &[World], entry: &Entry<'_>) -> Vec<World> {
        let meet = |world: &World| match &entry.what {
            What::Act { act, heard, .. } => self.act(world, act, heard, entry),
            What::Look(seen) => self.look(world, seen, entry).into_iter().collect(),
        };
        worlds.iter().flat_map(meet).collect()
    }

    fn act(&self, world: &World, act: &Act, heard: &Heard<'_>, entry: &Entry<'_>) -> Vec<World> {
        let at = At::new(entry.index, entry.clock_ms);
        let cell = self.compared(world, act);
        let steps = step(&cell, self.name, act, at);
        let agreeing = steps
            .into_iter()
            .filter(|(said, _)| agrees(self.name, act, said, heard));
        agreeing
            .map(|(_, cell)| World {
                cell: match heard {
                    Heard::Ready => world.cell.clone(),
                    Heard::Done {
                        info: Some(info), ..
                    } => told(cell, info),
                    Heard::Done { .. } | Heard::NotLive(_) | Heard::Shown => cell,
                },
                used: world.used.clone(),
            })
            .collect()
    }

    fn look(&self, world: &World, seen: &Seen<'_>, entry: &Entry<'_>) -> Option<World> {
        let statuses = world.cell.statuses(self.name, Span::at(entry.clock_ms));
        let row = world.cell.row();
        let mut statuses = statuses.into_iter();
        statuses.find(|status| seen.may_be(self.name, *status, row))?;
        let cell = match seen {
            Seen::Record { info, .. } => told(world.cell.clone(), info),
            _ => world.cell.clone(),
        };
        Some(World {
            cell,
            used: world.used.clone(),
        })
    }

    /// One of each: of two that hold the same, the one that used up less.
    fn distinct(&self, worlds: Vec<World>) -> Vec<World> {
        if worlds.len() < 2 {
            return worlds;
        }
        let mut by_cell: HashMap<(Cell, Vec<usize>), Vec<World>> = HashMap::new();
        let mut order = Vec::new();
        for world in worlds {
            let forced = world.used.iter().map(|used| used.deed);
            let forced: Vec<_> = forced
                .filter(|deed| self.forced.contains_key(deed))
                .collect();
            let key = (world.cell.clone(), forced);
            let alike = by_cell.entry(key.clone()).or_insert_with(|| {
                order.push(key);
                Vec::new()
            });
            if !alike.iter().any(|other| other.used_within(&world)) {
                alike.retain(|other| !world.used_within(other));
                alike.push(world);
            }
        }
        let mut take = |key| by_cell.remove(key).unwrap_or_default();
        order.iter().flat_map(&mut take).collect()
    }
}
