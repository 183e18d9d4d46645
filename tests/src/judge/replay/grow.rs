//! What may have been done in the gaps between what is known.

use std::ops::Bound;

use bytes::Bytes;

use super::{Replay, WORLDS_MAX, conflicts::Conflict};
use crate::{
    judge::{
        known::Alike,
        possible_states::{Distinct, PossibleState, UNSEEN},
        stage::Float,
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
    /// The possible states behind `after`, and all that floats and renewals may make of them up to `until`. Each notes the conflicts that
    /// it explains.
    pub(super) fn grow(
        &self,
        mut possible_states: Vec<PossibleState>,
        (after, until): (u64, u64),
        conflicts: &[Conflict<'_>],
    ) -> Vec<PossibleState> {
        self.may_renew(&mut possible_states, after, until);
        for state in &mut possible_states {
            self.explain(state, conflicts);
        }
        let chances = self.chances(after, until);
        if chances.is_empty() {
            return possible_states;
        }
        let mut grown = Distinct::default();
        for state in possible_states {
            grown.insert(state);
        }
        let mut number = 0;
        while let Some(state) = grown.get(number) {
            number += 1;
            let Some(state) = state.cloned() else {
                continue;
            };
            if grown.len() > WORLDS_MAX || self.is_late() {
                break;
            }
            for chance in &chances {
                for mut state in self.taken(&state, chance) {
                    self.explain(&mut state, conflicts);
                    grown.insert(state);
                }
            }
        }
        grown.into_states()
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

    /// The possible states once the float has taken effect: none if it cannot.
    fn taken(&self, state: &PossibleState, chance: &Chance<'_, '_>) -> Vec<PossibleState> {
        let float = chance.float;
        let is_next = float.behind.is_none_or(|mutation| state.has_used(mutation));
        if state.has_used(float.mutation) || !is_next {
            return Vec::new();
        }
        let mut taken = self.done(state, &float.acts, chance.at);
        for state in &mut taken {
            state.uses(float.mutation);
            for (place, act) in &float.acts {
                if act.written().is_some() {
                    self.write_unseen(state, *place, chance);
                }
            }
        }
        taken
    }

    /// Keeps, of a write that was not seen, what may distinguish it from others.
    fn write_unseen(&self, state: &mut PossibleState, place: usize, chance: &Chance<'_, '_>) {
        let asked = &self.stage.records[place].asked;
        let asked = asked.range((Bound::Excluded(chance.after), Bound::Included(chance.until)));
        let records = &mut state.records[place];
        records.perhaps = asked.copied().collect();
        if let Cell::Written(row) = &mut records.cell
            && matches!(self.known.alike, Alike::By(_))
        {
            row.value = Bytes::new();
            row.updated_ms = Span::at(0);
        }
    }

    /// Gets in this gap may have restarted idle times.
    fn may_renew(&self, possible_states: &mut [PossibleState], after: u64, until: u64) {
        let clock = self.known.bounds.clock(after, until);
        for (place, record) in self.stage.records.iter().enumerate() {
            let mut touches = record.timeline.touches.iter();
            if !touches.any(|touch| touch.after < until && after < touch.until) {
                continue;
            }
            for state in &mut *possible_states {
                if let Cell::Written(row) = &mut state.records[place].cell
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
