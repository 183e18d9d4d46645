//! The judges: whether a history contradicts what Helve promises.
//!
//! The main judge puts mutations in the order of the log indexes that their replies carry and
//! replays the [model](crate::model); every answer, and every read at the index of its view, must
//! be what the model says at the clock of its header. It checks real time (what was acknowledged
//! before a call is before it in the log), that the clock never falls, that a call takes effect
//! once, and that transactions and lists are whole. The second judge, beside it, searches an order
//! for each record by itself, with the times of calls alone: it trusts no index.
//!
//! A mutation of unknown outcome may have taken effect at any time after its invocation, or never. A revision that a read shows is
//! the log index of the write that made it, so a value that is seen says who wrote it and when. So that this evidence is plain,
//! a workload must choose its values well:
//!
//! - No two writes write the same value, of one run and all its clients: put the number of the client and of the call into each.
//!   (Names may be written again and again; values may not.) Without it the judges search longer, and find less.
//! - Record through [`History::record`](crate::history::History::record) alone. A write that goes
//!   around the history is a phantom. All clients of a run share one history, one tenant, and begin
//!   with records that no other client writes.
//! - After faults are healed, read every record: [`final_state`] names them. A get, or a list with values, settles what is unknown;
//!   a count, an `exists` or a delete settles little.
//! - Give each mutation of unknown outcome up: read, then decide. A retry of the caller's own must repeat the same identity and
//!   the same request; under a new identity it is another mutation, and must write another value.
//! - Deletes, takes and renewals leave no revision behind. Let few of unknown outcome be on one record at a time: the search
//!   tries each in each gap.
//! - Lifetimes are judged by the replicated clock in the headers. Let them be long against a call, or short enough to end in the
//!   run; and for a lifetime to be judged at all, call something after its end.
//! - A list of which only a part is read (a resume token is left) says nothing of the records before and behind.

mod bounds;
mod by_record;
mod describe;
mod evidence;
mod explain;
mod known;
mod lifetimes;
mod looks;
mod mutations;
mod possible_states;
mod replay;
mod search;
mod stage;
mod timeline;
mod told;
mod verdict;

use std::{
    collections::{BTreeMap, HashSet},
    time::{Duration, Instant},
};

pub use self::verdict::{Finding, Rule, Stats, Verdict};
use self::{
    bounds::Bounds,
    evidence::Evidence,
    known::{Alike, Known},
    mutations::{Fate, Mutation},
    search::Search,
};
use crate::{
    history::{Effect, Event, History, Request},
    model::{Cell, Name},
};

/// This many findings say enough.
const FINDINGS_MAX: usize = 20;

/// How long each of the two judges may search. What they have not decided by then is undecided, and so fails.
const SEARCH_MAX: Duration = Duration::from_secs(60);

/// Judges a history. Events that are still open are taken as such: wait for the clients first.
#[must_use]
pub fn judge(history: &History) -> Verdict {
    let events = history.events();
    let case = Prepared::of(&events);
    let known = case.known(Alike::of(&case.mutations, &case.evidence));
    let mut judged = Search::new(&known).run();
    let findings = [&case.findings[..], &known.timelines.findings].concat();
    judged.findings.splice(0..0, findings);
    if judged.findings.is_empty() {
        judged
            .findings
            .extend(lifetimes::check(&events, &case.bounds));
    }
    let until = Instant::now() + SEARCH_MAX;
    let second = by_record::judge(&events, &case.mutations, &case.evidence.pins, until);
    judged.findings.extend(second.findings);
    judged.undecided.extend(second.undecided);
    if !judged.findings.is_empty() {
        judged.findings.truncate(FINDINGS_MAX);
        return Verdict::Broken(judged.findings);
    }
    if !judged.undecided.is_empty() {
        judged.undecided.truncate(FINDINGS_MAX);
        return Verdict::Undecided(judged.undecided.join("; "));
    }
    let settled = case.evidence.settled;
    Verdict::Held(Stats {
        settled,
        records: known.timelines.of.len(),
        searched: second.searched,
        ..stats(&events)
    })
}

/// What each record may hold once a history that held is over, by the model: one cell if all is
/// known, several if calls of unknown outcome leave that open, and of very many some. A record that
/// is not named was never written, but for mints that no client was told of. Idle times may have
/// been restarted since; a call of unknown outcome may still take effect.
#[must_use]
pub fn final_state(history: &History) -> BTreeMap<Name, Vec<Cell>> {
    let events = history.events();
    let case = Prepared::of(&events);
    search::left(&case.known(Alike::Apart))
}

/// A history, taken apart.
struct Prepared<'e> {
    events: &'e [Event],
    mutations: Vec<Mutation>,
    bounds: Bounds,
    evidence: Evidence,
    findings: Vec<Finding>,
}

impl<'e> Prepared<'e> {
    fn of(events: &'e [Event]) -> Self {
        let (groups, mut findings) = mutations::group(events);
        let repeats: HashSet<usize> = groups
            .iter()
            .flat_map(|group| &group[1..])
            .copied()
            .collect();
        let mut bounds = Bounds::of(events, |number| repeats.contains(&number));
        let mutation = |group| mutations::mutation(events, group, &bounds);
        let mut mutations: Vec<Mutation> = groups.into_iter().map(mutation).collect();
        findings.extend(bounds::check_clock(events));
        findings.extend(real_time(events, &mutations, &bounds));
        let mut evidence = evidence::settle(events, &mut mutations, &mut bounds);
        findings.append(&mut evidence.findings);
        findings.extend(mutations::check_once(events, &mutations));
        Self {
            events,
            mutations,
            bounds,
            evidence,
            findings,
        }
    }

    fn known(&self, alike: Alike) -> Known<'_> {
        Known {
            events: self.events,
            mutations: &self.mutations,
            bounds: &self.bounds,
            evidence: &self.evidence,
            timelines: timeline::timelines(
                self.events,
                &self.mutations,
                &self.evidence.pins,
                &self.bounds,
            ),
            alike,
            until: Instant::now() + SEARCH_MAX,
        }
    }
}

/// Everything that was told before a call was made is before it in the log.
fn real_time(events: &[Event], mutations: &[Mutation], bounds: &Bounds) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut check = |event: &Event, index: u64, must: u64, by: Option<usize>| {
        if let Some(by) = by.filter(|_| index < must) {
            let lines = [&events[by], event].map(describe::event);
            findings.push(Finding {
                rule: Rule::RealTime,
                events: vec![by, event.number],
                text: format!(
                    "the second was called when the first had returned, and is before index {must}:\n    {}",
                    lines.join("\n    ")
                ),
            });
        }
    };
    for mutation in mutations {
        if let Fate::Told { index, .. } = mutation.fate {
            let first = &events[mutation.events[0]];
            let (after, by) = bounds.after(first.invoked_ns);
            check(&events[mutation.teller], index, after + 1, by);
        }
    }
    for event in events.iter().filter(|event| !event.is_mutation()) {
        if let Some((index, _)) = told::view(event) {
            let (after, by) = bounds.after(event.invoked_ns);
            check(event, index, after, by);
        }
    }
    findings
}

fn stats(events: &[Event]) -> Stats {
    let count = |is: &dyn Fn(&Event) -> bool| events.iter().filter(|event| is(event)).count();
    let is_told = |event: &Event| event.effect() == Effect::Told;
    let is_list = |event: &Event| !matches!(event.request, Request::Call(_));
    Stats {
        calls: events.len(),
        mutations: count(&|event| is_told(event) && event.is_mutation()),
        reads: count(&|event| is_told(event) && !event.is_mutation()),
        lists: count(&|event| is_told(event) && is_list(event)),
        refused: count(&|event| event.effect() == Effect::Denied),
        unknown: count(&|event| event.effect() == Effect::Unknown && event.is_mutation()),
        ..Stats::default()
    }
}

#[cfg(test)]
mod tests;
