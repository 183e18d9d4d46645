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

mod chain;
mod entry;
mod event;
mod file;
mod head_file;
mod health;
mod key;
mod names;
mod open;
mod record;
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

use tokio::sync::OwnedSemaphorePermit;

pub use self::{
    chain::Head,
    entry::{Ended, Entry},
    event::{Class, Event, Target},
    key::{AuditKey, KeyError},
    names::Ids,
    open::OpenError,
    settings::{Destination, OnFailure, Settings},
};
use self::{health::Health, writer::Message};
use crate::{limits::AUDIT_QUEUE_BYTES_MAX, metrics::AuditCounters, stamp};

/// About what a line takes besides the names in it, and each target besides its own, in bytes.
const LINE_BYTES: usize = 512;
const TARGET_BYTES: usize = 128;

/// Who was turned away may fill this part of the queue, and no more: strangers must not keep others from being served.
const DENIED_PART: usize = AUDIT_QUEUE_BYTES_MAX / 4;

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
        let event = event();
        let is_chosen = desk.classes.contains(&event.class);
        let room = match is_chosen.then(|| desk.room(&event)) {
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
    pub fn record(&self, event: Event) {
        let Some(desk) = &self.0 else { return };
        if !event.is_denied() && !desk.classes.contains(&event.class) {
            return;
        }
        let is_crowded = desk.health.room().available_permits() < DENIED_PART;
        let is_barred = event.is_denied() && is_crowded;
        match desk.room(&event).filter(|_| !is_barred) {
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
    fn room(&self, event: &Event) -> Option<OwnedSemaphorePermit> {
        if self.health.is_failing() {
            return None;
        }
        let bytes = u32::try_from(bytes_of(event)).ok()?;
        let room = Arc::clone(self.health.room());
        room.try_acquire_many_owned(bytes).ok()
    }

    fn send(&self, mut event: Event, room: OwnedSemaphorePermit) {
        event.wall_ms = stamp::wall_ms();
        let message = Message::Call(Box::new(event), room);
        if self.queue.send(message).is_err() {
            self.health.lose();
        }
    }
}

/// About how many bytes the line of a call takes.
fn bytes_of(event: &Event) -> usize {
    let names = |target: &Target| {
        let Target {
            store,
            owner,
            id,
            key,
            prefix,
            subject,
        } = target;
        let names = [store, owner, id, key, prefix, subject];
        names.into_iter().flatten().map(String::len).sum::<usize>()
    };
    let targets = event.targets.iter();
    LINE_BYTES + targets.map(|t| TARGET_BYTES + names(t)).sum::<usize>()
}
