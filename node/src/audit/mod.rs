//! The audit log: who called what, and how it ended; one line of JSON for each call, chained by hashes.
//!
//! ```text
//! a call begins ── Audit::begin ──► room in the queue, or the call is not carried out
//! a call ends ──── Entry::ended ──► queue ──► writer thread ──► chain ──► file (put aside when large) | the node's own log
//! ```
//!
//! A call waits for no disk: what is on its way to the disk when the machine loses power, at most [`AUDIT_SYNC_SPACING`] of lines and
//! what a sync takes, has no line afterwards; killing the process loses what is in the queue, which is less. That the log cannot be
//! written at all shows to the calls after that: they are refused, if the operator does not say otherwise.
//!
//! [`AUDIT_SYNC_SPACING`]: crate::limits::AUDIT_SYNC_SPACING

mod apart;
mod bound;
mod budget;
mod chain;
mod entry;
mod event;
mod file;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod head_file;
mod health;
mod key;
mod kinds;
mod names;
mod open;
mod record;
mod room;
mod settings;
mod sink;
#[cfg(test)]
mod tests;
pub mod verify;
mod writer;

use std::{
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread::JoinHandle,
};

pub use self::{
    chain::Head,
    entry::{Ended, Entry},
    event::{Class, Event, Target},
    key::{AuditKey, KeyError},
    names::Ids,
    open::OpenError,
    settings::{Destination, OnFailure, Settings},
};
use self::{health::Health, kinds::Kinds, writer::Message};
use crate::{
    keyed_places::SharedPlace, limits::AUDIT_DENIED_TARGETS_MAX, metrics::AuditCounters, stamp,
};

/// The audit log of a node; or none, which records nothing and costs nothing. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Audit(Option<Arc<Desk>>);

/// Where calls hand in what is to be written.
#[derive(Debug)]
struct Desk {
    classes: Vec<Class>,
    on_failure: OnFailure,
    has_file: bool,
    queue: mpsc::Sender<Message>,
    health: Arc<Health>,
    /// Calls that were turned away, in this period.
    denied: Arc<Mutex<Kinds>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// No line could be written about a call, so it was not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the audit log cannot be written")]
pub struct Unrecorded;

impl Audit {
    /// Whether there may be more to write of a call of this class, once its caller may touch what it names: an operator's call may be
    /// turned away later than that.
    #[must_use]
    pub fn follows(&self, class: Class) -> bool {
        let is_chosen = |desk: &Arc<Desk>| class == Class::Admin || desk.classes.contains(&class);
        self.0.as_ref().is_some_and(is_chosen)
    }

    /// A call begins. `event` says what is known of it; its end is written however it ends, once the [`Entry`] is told of it or dropped.
    ///
    /// # Errors
    /// [`Unrecorded`] if it should be recorded and cannot be, and the operator wants such calls refused.
    pub fn begin(&self, event: impl FnOnce() -> Event) -> Result<Entry, Unrecorded> {
        let Some(desk) = &self.0 else {
            return Ok(Entry::none());
        };
        let mut event = event();
        let bytes = bound::bound(&mut event);
        let is_chosen = desk.classes.contains(&event.class);
        let room = match is_chosen.then(|| desk.room(&event, bytes)) {
            Some(Some(room)) => Some(room),
            None => None,
            Some(None) if desk.on_failure == OnFailure::Refuse => return Err(Unrecorded),
            Some(None) => {
                desk.health.lose();
                None
            }
        };
        Ok(Entry::of(self.clone(), event, room))
    }

    /// Records a call that has ended and that [`Audit::begin`] was not told of, such as one that was turned away at the door. If there
    /// is no room for a line, it is counted as lost.
    ///
    /// Calls that were turned away go to a file of their own, take no room of others, and are counted in one line a period for each
    /// address, caller and reason once some have had a line.
    pub fn record(&self, mut event: Event) {
        let Some(desk) = &self.0 else { return };
        if event.is_denied() {
            desk.deny(event);
            return;
        }
        if !desk.classes.contains(&event.class) {
            return;
        }
        let bytes = bound::bound(&mut event);
        match desk.room(&event, bytes) {
            Some(room) => desk.send(event, room),
            None => desk.health.lose(),
        }
    }

    /// Whether it goes to a file of its own.
    #[must_use]
    pub fn has_file(&self) -> bool {
        self.0.as_ref().is_some_and(|desk| desk.has_file)
    }

    /// Has the writer look now whether the file was moved or removed; then it goes on in a new one, as it does by itself with the
    /// next line.
    ///
    /// # Errors
    /// [`Unrecorded`] if the writer has ended.
    pub fn look(&self) -> Result<(), Unrecorded> {
        let Some(desk) = &self.0 else { return Ok(()) };
        desk.queue.send(Message::Look).map_err(|_| Unrecorded)
    }

    /// Writes what has been handed in, and ends the log in good order. Blocks until that is on disk, or was tried.
    pub fn close(&self) {
        let Some(desk) = &self.0 else { return };
        // Who is not there any more has ended already.
        let _ended = desk.queue.send(Message::Close);
        let thread = desk.thread.lock();
        let thread = thread.unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the audit log broke: report this");
        }
    }

    /// What it counts; `None` if there is no audit log.
    #[must_use]
    pub fn counters(&self) -> Option<&AuditCounters> {
        self.0.as_ref().map(|desk| desk.health.counters())
    }
}

impl Desk {
    /// Room in the queue; `None` if lines cannot be written now.
    fn room(&self, event: &Event, bytes: usize) -> Option<SharedPlace> {
        if self.health.is_failing() {
            return None;
        }
        self.health.room().take(event.owner(), bytes)
    }

    /// Counts a call that was turned away, and hands in the few that have a line of their own.
    fn deny(&self, mut event: Event) {
        self.health.counters().denied.inc();
        let kinds = self.denied.lock();
        let has_line = kinds
            .unwrap_or_else(PoisonError::into_inner)
            .count_denied(&event);
        if !has_line {
            return;
        }
        let named = event.targets.len();
        event.targets.truncate(AUDIT_DENIED_TARGETS_MAX);
        event.more_targets += (named - event.targets.len()) as u64;
        bound::bound(&mut event);
        self.count_left_out(&event);
        event.wall_ms = stamp::wall_ms();
        if self.queue.send(Message::Denied(Box::new(event))).is_err() {
            self.health.lose();
        }
    }

    fn count_left_out(&self, event: &Event) {
        let left_out = &self.health.counters().targets_left_out;
        left_out.inc_by(event.more_targets);
    }

    fn send(&self, mut event: Event, room: SharedPlace) {
        self.count_left_out(&event);
        event.wall_ms = stamp::wall_ms();
        let message = Message::Call(Box::new(event), room);
        if self.queue.send(message).is_err() {
            self.health.lose();
        }
    }
}
