//! What may have been done in the gaps between what is known.

use std::ops::Bound;

use bytes::Bytes;

use super::{Replay, WORLDS_MAX, conflicts::Conflict};
use crate::{
    judge::{
        known::Alike,
        stage::Float,
        worlds::{Distinct, UNSEEN, World},
    },
    model::{At, Cell, Span, cell::idle_deadline},
};

/// A float that may have taken effect behind one index, up to another.
struct Chance<'f, 's> {
    float: &'f Float<'s>,
    after: u64,
    until: u64,
    at: At,
}

impl Replay<'_, '_> {
    /// The worlds behind `after`, and all that floats and renewals may make of them up to `until`. Each notes the conflicts that it
    /// explains.
    pub(super) fn grow(
        &self,
        mut worlds: Vec<World>,
        (after, until): (u64, u64),
        conflicts: &[Conflict<'_>],
    ) -> Vec<World> {
        self.may_renew(&mut worlds, after, until);
        for world in &mut worlds {
            self.explain(world, conflicts);
        }
        let chances = self.chances(after, until);
        if chances.is_empty() {
            return worlds;
        }
        let mut grown = Distinct::default();
        for world in worlds {
            grown.insert(world);
        }
        let mut number = 0;
        while let Some(world) = grown.get(number) {
            number += 1;
            let Some(world) = world.cloned() else {
                continue;
            };
            if grown.len() > WORLDS_MAX || self.is_late() {
                break;
            }
            for chance in &chances {
                for mut world in self.taken(&world, chance) {
                    self.explain(&mut world, conflicts);
                    grown.insert(world);
                }
            }
        }
        grown.into_worlds()
    }

    fn chances(&self, after: u64, until: u64) -> Vec<Chance<'_, '_>> {
        let chances = self.stage.floats.iter().filter_map(|float| {
            let after = after.max(float.after);
            let has_room = after < until && self.known.bounds.has_room(after, until);
            has_room.then(|| Chance {
                float,
                after,
                until,
                at: At {
                    index: UNSEEN,
                    clock: self.known.bounds.clock(after, until),
                },
            })
        });
        chances.collect()
    }

    /// The worlds once the float has taken effect: none if it cannot.
    fn taken(&self, world: &World, chance: &Chance<'_, '_>) -> Vec<World> {
        let float = chance.float;
        let is_next = float.behind.is_none_or(|deed| world.has_used(deed));
        if world.has_used(float.deed) || !is_next {
            return Vec::new();
        }
        let mut taken = self.done(world, &float.acts, chance.at);
        for world in &mut taken {
            world.uses(float.deed);
            for (place, act) in &float.acts {
                if act.written().is_some() {
                    self.write_unseen(world, *place, chance);
                }
            }
        }
        taken
    }

    /// Keeps, of a write that was not seen, what may distinguish it from others.
    fn write_unseen(&self, world: &mut World, place: usize, chance: &Chance<'_, '_>) {
        let asked = &self.stage.records[place].asked;
        let asked = asked.range((Bound::Excluded(chance.after), Bound::Included(chance.until)));
        let standing = &mut world.standing[place];
        standing.perhaps = asked.copied().collect();
        if let Cell::Written(row) = &mut standing.cell
            && matches!(self.known.alike, Alike::By(_))
        {
            row.value = Bytes::new();
            row.updated_ms = Span::at(0);
        }
    }

    /// Gets in this gap may have restarted idle times.
    fn may_renew(&self, worlds: &mut [World], after: u64, until: u64) {
        let clock = self.known.bounds.clock(after, until);
        for (place, record) in self.stage.records.iter().enumerate() {
            let mut touches = record.timeline.touches.iter();
            if !touches.any(|touch| touch.after < until && after < touch.until) {
                continue;
            }
            for world in &mut *worlds {
                if let Cell::Written(row) = &mut world.standing[place].cell
                    && let (Some(ttl_ms), Some(deadline)) =
                        (row.idle_ttl_ms, &mut row.idle_deadline_ms)
                    && clock.from < deadline.to
                {
                    let renewed = idle_deadline(Span::at(clock.to), ttl_ms);
                    deadline.to = deadline.to.max(renewed.to);
                }
            }
        }
    }
}
