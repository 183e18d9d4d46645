//! A contradiction as a finding: which promise, which events, and what the model says.

use helve_client::v1::HandleStatus;

use super::{
    describe,
    known::Known,
    replay::{Contradiction, Stuck},
    timeline::{Entry, Seen, Timeline, What},
    told::Heard,
    verdict::{Finding, Rule},
};
use crate::{
    history::Request,
    model::{Cell, Name, Row},
};

/// Events of the record that are told before the one that contradicts.
const BEFORE: usize = 3;

/// A history in which something contradicts the model.
pub(super) struct Case<'c> {
    pub(super) known: &'c Known<'c>,
}

impl Case<'_> {
    /// The finding that a replay of this record, or of others with it, stuck at.
    pub(super) fn finding(&self, name: &Name, stuck: &Stuck) -> Finding {
        let holds = describe::cells(&stuck.before);
        let timeline = &self.known.timelines.of[name];
        match stuck.at {
            Contradiction::Entry(number) => {
                let mut events = self.told_before(timeline, number);
                events.push(timeline.entries[number].event);
                let lines = events
                    .iter()
                    .map(|event| describe::event(&self.known.events[*event]));
                let lines = lines.collect::<Vec<_>>().join("\n    ");
                Finding {
                    rule: self.rule(name, timeline, number, &stuck.before),
                    text: format!(
                        "{name}: the model holds {holds} at the last of these:\n    {lines}"
                    ),
                    events,
                }
            }
            Contradiction::Doubt(number) => {
                let doubt = &timeline.doubts[number];
                Finding {
                    rule: Rule::Answer,
                    events: vec![doubt.event],
                    text: format!(
                        "{name}: had revision {} nowhere behind index {} up to {}: {}",
                        doubt.revision,
                        doubt.after,
                        doubt.until,
                        describe::event(&self.known.events[doubt.event])
                    ),
                }
            }
        }
    }

    /// The events that wrote the record last, of all those before that entry.
    fn told_before(&self, timeline: &Timeline<'_>, number: usize) -> Vec<usize> {
        let before = timeline.entries[..number].iter().rev();
        let acts = before.filter(|entry| matches!(entry.what, What::Act { .. }));
        let mut events: Vec<_> = acts.take(BEFORE).map(|entry| entry.event).collect();
        events.reverse();
        events
    }

    fn rule(&self, name: &Name, timeline: &Timeline<'_>, number: usize, before: &[Cell]) -> Rule {
        let entry = &timeline.entries[number];
        let row = before.iter().find_map(Cell::row);
        if let What::Act {
            mutation, heard, ..
        } = &entry.what
        {
            return match (heard, self.known.mutations[*mutation].parts.len()) {
                (Heard::Shown, 2..) => Rule::Torn,
                (Heard::Shown, _) => Rule::Answer,
                (Heard::Done { value: Some(_), .. }, _) if is_taken(before) => Rule::Taken,
                (
                    Heard::Done {
                        info: Some(info), ..
                    },
                    _,
                ) if row.is_some_and(|row| row.revision == info.revision && ends(row, entry)) => {
                    Rule::Lifetime
                }
                (Heard::NotLive(HandleStatus::Expired), _) if row.is_some() => Rule::Lifetime,
                (Heard::NotLive(HandleStatus::Unknown), _) if row.is_some() => Rule::Lost,
                _ => Rule::Answer,
            };
        }
        let What::Look(seen) = &entry.what else {
            // None of the calls that may have written what is shown can have done so.
            return Rule::Phantom;
        };
        if self.is_of_another(name, seen) {
            return Rule::Owner;
        }
        let rule = look_rule(seen, row, entry, before);
        let is_list = !matches!(self.known.events[entry.event].request, Request::Call(_));
        match rule {
            Rule::Lifetime | Rule::Phantom => rule,
            _ if self.is_torn(timeline, number) => Rule::Torn,
            _ if is_list => Rule::List,
            rule => rule,
        }
    }

    /// Whether what is shown was written to the same id of another owner, and never here.
    fn is_of_another(&self, name: &Name, seen: &Seen<'_>) -> bool {
        let Seen::Record { info, .. } = seen else {
            return false;
        };
        let wrote = self.known.mutations.iter().filter(|mutation| {
            mutation
                .place()
                .is_some_and(|(index, _)| index == info.revision)
        });
        let mut names = wrote.flat_map(|mutation| mutation.names.iter().flatten());
        let here = names.clone().any(|other| other == name);
        !here && names.any(|other| other.own() == name.own() && other.owner() != name.owner())
    }

    /// Whether what the model holds was done together with other records.
    fn is_torn(&self, timeline: &Timeline<'_>, number: usize) -> bool {
        let mut before = timeline.entries[..number].iter().rev();
        before
            .find_map(|entry| match &entry.what {
                What::Act {
                    mutation,
                    heard: Heard::Done { .. } | Heard::Shown,
                    ..
                } => Some(*mutation),
                _ => None,
            })
            .is_some_and(|mutation| self.known.mutations[mutation].parts.len() > 1)
    }
}

fn look_rule(seen: &Seen<'_>, row: Option<&Row>, entry: &Entry<'_>, before: &[Cell]) -> Rule {
    match (seen, row) {
        (Seen::Record { info, .. }, Some(row)) if row.revision == info.revision => {
            let is_time = ends(row, entry)
                || row.expires_ms.map(|at| at.from) != info.expires_at_ms
                || row.idle_deadline_ms.is_some();
            if is_time {
                Rule::Lifetime
            } else {
                Rule::Phantom
            }
        }
        (Seen::Lives, Some(row)) if ends(row, entry) => Rule::Lifetime,
        (Seen::Status(HandleStatus::Expired), Some(row)) if !ends(row, entry) => Rule::Lifetime,
        (Seen::Record { .. } | Seen::Lives, None) if is_taken(before) => Rule::Taken,
        (Seen::Record { .. }, _) => Rule::Stale,
        (Seen::Lives, None) => Rule::Stale,
        (Seen::Gone | Seen::Status(_), Some(row))
            if row.deadline().is_some() && !ends(row, entry) =>
        {
            Rule::Lifetime
        }
        (_, Some(_)) => Rule::Lost,
        _ => Rule::Stale,
    }
}

fn is_taken(cells: &[Cell]) -> bool {
    cells.iter().any(|cell| matches!(cell, Cell::Taken(_)))
}

/// Whether the row's deadline has come at the entry's place.
fn ends(row: &Row, entry: &Entry<'_>) -> bool {
    row.deadline()
        .is_some_and(|deadline| deadline.to <= entry.clock_ms)
}
