//! Figures of a history.

use std::time::Duration;

use helve_client::ErrorKind;
use helve_tests::history::{Effect, Event, Outcome};

/// A stretch of time, in the history's nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
}

/// How many calls were answered, a conflict counted: it is the cluster's answer, too.
pub(crate) fn answered(events: &[Event]) -> usize {
    events.iter().filter(|event| is_answered(event)).count()
}

/// How many mutations may or may not have taken effect.
pub(crate) fn in_doubt(events: &[Event]) -> usize {
    let is_in_doubt = |event: &&Event| event.is_mutation() && event.effect() == Effect::Unknown;
    events.iter().filter(is_in_doubt).count()
}

/// How many calls were answered in a stretch of time.
pub(crate) fn answered_in(events: &[Event], window: Window) -> usize {
    let is_in = |&at_ns: &u64| (window.from_ns..window.to_ns).contains(&at_ns);
    answers(events).filter(is_in).count()
}

/// The longest time without any answer, of those that overlap a fault. `end_ns` is when the callers
/// stopped.
pub(crate) fn longest_unavailability(events: &[Event], window: Window, end_ns: u64) -> Duration {
    let mut answers: Vec<u64> = answers(events).filter(|&at_ns| at_ns <= end_ns).collect();
    answers.push(end_ns);
    answers.sort_unstable();
    let gaps = answers
        .windows(2)
        .filter(|gap| gap[0] < window.to_ns && gap[1] > window.from_ns);
    let longest_ns = gaps.map(|gap| gap[1] - gap[0]).max();
    Duration::from_nanos(longest_ns.unwrap_or_default())
}

fn answers(events: &[Event]) -> impl Iterator<Item = u64> {
    let answered = events.iter().filter(|event| is_answered(event));
    answered.filter_map(|event| event.returned_ns)
}

fn is_answered(event: &Event) -> bool {
    match &event.outcome {
        Outcome::Answered(_) => true,
        Outcome::Failed { kind, .. } => matches!(kind, ErrorKind::Conflict { .. }),
        Outcome::Open => false,
    }
}
