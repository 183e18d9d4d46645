//! A call on its way, whose line is written however it ends.

use super::{
    Audit,
    bound::bound,
    event::{CANCELLED, Event, Target},
};
use crate::keyed_places::SharedPlace;

/// A call on its way. Dropping it records that its caller went away before the answer.
#[derive(Debug)]
#[must_use = "dropping it at once records that the caller went away"]
pub struct Entry(Option<Begun>);

#[derive(Debug)]
struct Begun {
    audit: Audit,
    event: Event,
    /// Absent for a call that is recorded only if it is denied, or for which there was no room.
    room: Option<SharedPlace>,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ended {
    /// `OK`, or the reason of the refusal.
    pub outcome: &'static str,
    /// See [`Event::status`].
    pub status: Option<&'static str>,
    /// See [`Event::revision`].
    pub revision: u64,
    /// See [`Event::index`].
    pub index: u64,
    /// See [`Event::clock_ms`].
    pub clock_ms: u64,
    /// The ids that it minted, in order.
    pub minted: Vec<String>,
}

impl Ended {
    /// Ended so, and nothing more is known.
    #[must_use]
    pub fn with(outcome: &'static str) -> Self {
        Self {
            outcome,
            ..Self::default()
        }
    }
}

impl Entry {
    /// Of a call of which nothing is written.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    pub(super) fn of(audit: Audit, event: Event, room: Option<SharedPlace>) -> Self {
        Self(Some(Begun { audit, event, room }))
    }

    /// The call ended. What is said is asked for only if there is an audit log.
    pub fn ended(mut self, ended: impl FnOnce() -> Ended) {
        if let Some(begun) = self.0.take() {
            begun.end(ended());
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(begun) = self.0.take() {
            begun.end(Ended::with(CANCELLED));
        }
    }
}

impl Begun {
    fn end(self, ended: Ended) {
        let Self {
            audit,
            mut event,
            mut room,
        } = self;
        event.outcome = ended.outcome;
        event.status = ended.status;
        event.revision = ended.revision;
        event.index = ended.index;
        event.clock_ms = ended.clock_ms;
        let minted = ended.minted.into_iter().map(|id| Target {
            id: Some(id),
            ..Target::default()
        });
        event.targets.extend(minted);
        if let Some(room) = &mut room {
            room.resize(bound(&mut event));
        }
        match (room, &audit.0) {
            _ if event.is_denied() => audit.record(event),
            (Some(room), Some(desk)) => desk.send(event, room),
            _ => {}
        }
    }
}
