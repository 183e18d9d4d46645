//! Conflicts: that a record had another revision than was asked for, somewhere between the call and its answer.

use super::Replay;
use crate::{
    judge::{
        bounds::Bounds,
        possible_states::{PossibleState, UNSEEN},
        stage::Stage,
        timeline::Doubt,
    },
    model::{At, Said, step},
};

/// All conflicts of some records, in the order in which they may have come about.
pub(super) struct Conflicts<'s> {
    all: Vec<Doubted<'s>>,
    /// This many of them may have by now.
    begun: usize,
    /// Those of them that still may.
    open: Vec<usize>,
}

/// A conflict.
struct Doubted<'s> {
    /// The place of its record, and its number there.
    place: usize,
    number: usize,
    doubt: &'s Doubt<'s>,
}

/// A conflict that may stand in a gap.
pub(super) struct Conflict<'s> {
    conflict: usize,
    place: usize,
    doubt: &'s Doubt<'s>,
    at: At,
}

impl<'s> Conflicts<'s> {
    pub(super) fn of(stage: &'s Stage<'_, '_>) -> Self {
        let records = stage.records.iter().enumerate();
        let all = records.flat_map(|(place, record)| {
            let doubts = record.timeline.doubts.iter().enumerate();
            doubts.map(move |(number, doubt)| Doubted {
                place,
                number,
                doubt,
            })
        });
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|doubted| doubted.doubt.after);
        Self {
            all,
            begun: 0,
            open: Vec::new(),
        }
    }

    /// Those that may stand in this gap, in which the entry of the conflict itself must have room.
    pub(super) fn within(
        &mut self,
        bounds: &Bounds,
        (after, until): (u64, u64),
    ) -> Vec<Conflict<'s>> {
        while let Some(doubted) = self.all.get(self.begun)
            && doubted.doubt.after < until
        {
            self.open.push(self.begun);
            self.begun += 1;
        }
        let within = self.open.iter().filter_map(|conflict| {
            let Doubted { place, doubt, .. } = self.all[*conflict];
            let (from, to) = (after.max(doubt.after), until.min(doubt.until));
            let has_room = from < to && bounds.has_room(from, to);
            has_room.then(|| Conflict {
                conflict: *conflict,
                place,
                doubt,
                at: At {
                    index: UNSEEN,
                    clock: bounds.clock(from, to),
                },
            })
        });
        within.collect()
    }

    /// Those that cannot stand behind this index, which are done with.
    pub(super) fn over(&mut self, until: u64) -> Vec<usize> {
        let is_over = |conflict: &usize| self.all[*conflict].doubt.until <= until;
        let over = self.open.iter().copied().filter(is_over).collect();
        self.open.retain(|conflict| !is_over(conflict));
        over
    }

    /// The place of the conflict's record, and its number there.
    pub(super) fn of_record(&self, conflict: usize) -> (usize, usize) {
        (self.all[conflict].place, self.all[conflict].number)
    }
}

impl Replay<'_, '_> {
    /// Notes the conflicts that the possible state explains.
    pub(super) fn explain(&self, state: &mut PossibleState, conflicts: &[Conflict<'_>]) {
        for conflict in conflicts {
            if self.may_meet(state, conflict) {
                state.explains(conflict.conflict);
            }
        }
    }

    fn may_meet(&self, state: &PossibleState, conflict: &Conflict<'_>) -> bool {
        let Conflict {
            place, doubt, at, ..
        } = conflict;
        let records = &state.records[*place];
        let name = self.stage.records[*place].name;
        let steps = step(&records.cell, name, doubt.act, *at);
        steps.iter().any(|(said, _)| match said {
            Said::Conflict(UNSEEN) => records.perhaps.contains(&doubt.revision),
            Said::Conflict(revision) => *revision == doubt.revision,
            Said::Done { .. } | Said::NotLive(_) => false,
        })
    }
}
