//! Where in the log something can stand, by when it was asked and answered, and what the replicated clock was there.

use std::collections::BTreeMap;

use super::{
    told::view,
    verdict::{Finding, Rule},
};
use crate::{history::Event, model::Span};

/// What the told indexes and clocks of a history say of all the others.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    /// By the time of return: the largest index told until then, and by whom.
    returned: Vec<(u64, u64, usize)>,
    /// By the time of invocation: the smallest index that anything invoked from then on may follow.
    invoked: Vec<(u64, u64)>,
    /// The replicated clock by log index, as told.
    clocks: Vec<(u64, u64)>,
    /// The indexes of the mutations that were told.
    taken: Vec<u64>,
}

impl Bounds {
    /// The index of a repeat, answered with an earlier event's outcome, says nothing of when it was invoked.
    pub(super) fn of(events: &[Event], is_repeat: impl Fn(usize) -> bool) -> Self {
        let told = || {
            events
                .iter()
                .filter_map(|event| Some((event, view(event)?)))
        };
        let mut returned: Vec<_> = told()
            .filter_map(|(event, (index, _))| Some((event.returned_ns?, index, event.number)))
            .collect();
        returned.sort_unstable();
        let mut largest = (0, 0);
        for (_, index, event) in &mut returned {
            largest = largest.max((*index, *event));
            (*index, *event) = largest;
        }
        let mut invoked: Vec<_> = told()
            .filter(|(event, _)| !is_repeat(event.number))
            .map(|(event, (index, _))| {
                let before = index - u64::from(event.is_mutation() && index > 0);
                (event.invoked_ns, before)
            })
            .collect();
        invoked.sort_unstable();
        let mut smallest = u64::MAX;
        for (_, index) in invoked.iter_mut().rev() {
            smallest = smallest.min(*index);
            *index = smallest;
        }
        let clocks: BTreeMap<_, _> = told().map(|(_, view)| view).collect();
        let mut taken: Vec<_> = told()
            .filter(|(event, _)| event.is_mutation())
            .map(|(_, (index, _))| index)
            .collect();
        taken.sort_unstable();
        taken.dedup();
        Self {
            returned,
            invoked,
            clocks: clocks.into_iter().collect(),
            taken,
        }
    }

    /// What is invoked then is after this index, which the given event was told; 0 and no event if
    /// none was told before.
    pub(super) fn after(&self, invoked_ns: u64) -> (u64, Option<usize>) {
        let before = self
            .returned
            .partition_point(|(returned_ns, _, _)| *returned_ns < invoked_ns);
        let last = before.checked_sub(1).map(|last| self.returned[last]);
        last.map_or((0, None), |(_, index, event)| (index, Some(event)))
    }

    /// What has returned then is at or before this index.
    pub(super) fn until(&self, returned_ns: u64) -> u64 {
        let first = self
            .invoked
            .partition_point(|(invoked_ns, _)| *invoked_ns <= returned_ns);
        self.invoked
            .get(first)
            .map_or(u64::MAX, |(_, index)| *index)
    }

    /// The clock may have been this, in entries behind `after` up to `until`.
    pub(super) fn clock(&self, after: u64, until: u64) -> Span {
        let floor = self.clocks.partition_point(|(index, _)| *index <= after);
        let ceiling = self.clocks.partition_point(|(index, _)| *index < until);
        Span {
            from: floor.checked_sub(1).map_or(0, |last| self.clocks[last].1),
            to: self
                .clocks
                .get(ceiling)
                .map_or(u64::MAX, |(_, clock)| *clock),
        }
    }

    /// Whether an entry that no client was told of may be after `after`, up to `until`.
    pub(super) fn has_room(&self, after: u64, until: u64) -> bool {
        let from = self.taken.partition_point(|index| *index <= after);
        let to = self.taken.partition_point(|index| *index <= until);
        until.saturating_sub(after) > to.saturating_sub(from) as u64
    }

    /// Whether this is the index of a mutation that was told, or seen.
    pub(super) fn is_told(&self, index: u64) -> bool {
        self.taken.binary_search(&index).is_ok()
    }

    /// An index that a mutation turns out to have, and the clock there.
    pub(super) fn settle(&mut self, index: u64, clock_ms: u64) {
        if let Err(place) = self.taken.binary_search(&index) {
            self.taken.insert(place, index);
        }
        if let Err(place) = self
            .clocks
            .binary_search_by_key(&index, |(index, _)| *index)
        {
            self.clocks.insert(place, (index, clock_ms));
        }
    }
}

/// The clock must not fall from one index to a later one, and is one at each.
pub(super) fn check_clock(events: &[Event]) -> Vec<Finding> {
    let mut told: Vec<_> = events
        .iter()
        .filter_map(|event| view(event).map(|(index, clock_ms)| (index, clock_ms, event.number)))
        .collect();
    told.sort_unstable();
    let mut findings = Vec::new();
    for pair in told.windows(2) {
        let ((index, clock_ms, event), (next_index, next_ms, next_event)) = (pair[0], pair[1]);
        let is_one = index != next_index || clock_ms == next_ms;
        if clock_ms > next_ms || !is_one {
            findings.push(Finding {
                rule: Rule::Clock,
                events: vec![event, next_event],
                text: format!(
                    "the clock is {clock_ms} ms at index {index} (#{event}), and {next_ms} ms at index {next_index} (#{next_event})"
                ),
            });
        }
    }
    findings
}
