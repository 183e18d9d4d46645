//! Known-good histories hold, known-bad ones break, each by the promise that it breaks.

mod bad;
mod doubt;
mod good;
mod history_builder;
mod random;
mod unseen;

use super::{Rule, Verdict, judge};
use crate::history::{Event, History};

fn verdict(events: &[Event]) -> Verdict {
    judge(&History::of(events.to_vec()))
}

#[track_caller]
fn holds(events: &[Event]) {
    let verdict = verdict(events);
    assert!(matches!(verdict, Verdict::Held(_)), "{verdict}");
}

/// Breaks this promise, whatever else it breaks.
#[track_caller]
fn breaks(rule: Rule, events: &[Event]) {
    let verdict = verdict(events);
    let Verdict::Broken(findings) = &verdict else {
        panic!("{verdict}");
    };
    assert!(
        findings.iter().any(|finding| finding.rule == rule),
        "not by {rule:?}: {verdict}"
    );
}
