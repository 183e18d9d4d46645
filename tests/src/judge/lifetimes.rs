//! Idle times: a handle never dies earlier than one idle time after a get.

use super::{
    bounds::Bounds,
    describe,
    told::sightings,
    verdict::{Finding, Rule},
};
use crate::history::{Event, Request};

/// What a get answers has at least one idle time left, counted from what was told before the get, unless it ends before anyway.
pub(super) fn check(events: &[Event], bounds: &Bounds) -> Vec<Finding> {
    let gets = events
        .iter()
        .filter(|event| matches!(event.request, Request::Call(_)));
    let mut findings = Vec::new();
    for event in gets {
        let clock_ms = bounds
            .clock(bounds.after(event.invoked_ns).0, u64::MAX)
            .from;
        for sighting in sightings(event) {
            let (Some(ttl_ms), Some(idle_ms)) =
                (sighting.info.idle_ttl_ms, sighting.info.idle_deadline_ms)
            else {
                continue;
            };
            let ends_anyway = sighting
                .info
                .expires_at_ms
                .is_some_and(|at_ms| at_ms <= idle_ms);
            if !ends_anyway && idle_ms <= clock_ms.saturating_add(ttl_ms) {
                findings.push(Finding {
                    rule: Rule::Lifetime,
                    events: vec![event.number],
                    text: format!(
                        "{} has less than its idle time of {ttl_ms} ms left, until {idle_ms}, though the clock was {clock_ms} before: {}",
                        sighting.name,
                        describe::event(event)
                    ),
                });
            }
        }
    }
    findings
}
