//! What waits for a round: somebody who wants the ticket, or a query to ask of the round's view.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicBool, Ordering},
};

use helve_machine::{Fault, query::Read};
use tokio::sync::oneshot;

use super::{ReadView, Ticket, error::is_not_cached};
use crate::keyed_places::SharedPlace;

/// One that waits.
pub(super) trait Waiter: Send {
    /// Whose turns it takes where queries wait; empty if it only wants the ticket.
    fn tenant(&self) -> &str;

    /// No caller wants the answer any more.
    fn is_gone(&self) -> bool;

    /// Whether it waits for more than the round's ticket.
    fn wants_view(&self) -> bool;

    /// Now it waits for the disk.
    fn goes_to_disk(&self);

    /// Looks at a view that follows the round. False if the view does not reach far enough.
    fn look(&mut self, view: &ReadView<'_>) -> bool;

    /// The round was answered so: tells that, and what was seen.
    fn tell(self: Box<Self>, ticket: Ticket);
}

/// A read that waits for a round, with its place.
pub(super) struct Waiting {
    waiter: Box<dyn Waiter>,
    /// Held until the read is told, or waits for the disk, where it has another place.
    place: Option<SharedPlace>,
}

impl Waiting {
    pub(super) fn new(waiter: Box<dyn Waiter>, place: SharedPlace) -> Self {
        Self {
            waiter,
            place: Some(place),
        }
    }

    /// See [`Waiter::tenant`].
    pub(super) fn tenant(&self) -> &str {
        self.waiter.tenant()
    }

    /// See [`Waiter::is_gone`].
    pub(super) fn is_gone(&self) -> bool {
        self.waiter.is_gone()
    }

    /// See [`Waiter::wants_view`].
    pub(super) fn wants_view(&self) -> bool {
        self.waiter.wants_view()
    }

    /// See [`Waiter::goes_to_disk`].
    pub(super) fn goes_to_disk(&mut self) {
        self.waiter.goes_to_disk();
        self.place = None;
    }

    /// See [`Waiter::look`].
    pub(super) fn look(&mut self, view: &ReadView<'_>) -> bool {
        self.waiter.look(view)
    }

    /// See [`Waiter::tell`].
    pub(super) fn tell(self, ticket: Ticket) {
        self.waiter.tell(ticket);
    }
}

/// What a query of a round's view came to.
pub(super) struct Asked<T> {
    pub(super) ticket: Ticket,
    /// `None` if there was no view that follows the round soon enough to wait for all together.
    pub(super) read: Option<Result<Read<T>, Fault>>,
}

/// A query that waits.
pub(super) struct Question<T, Q> {
    tenant: String,
    /// The caller's: a read that gave up must leave no request behind, since nothing is charged
    /// for that any more.
    query: Weak<Q>,
    reply: oneshot::Sender<Asked<T>>,
    waits_for_disk: Arc<AtomicBool>,
    read: Option<Result<Read<T>, Fault>>,
}

impl<T, Q> Question<T, Q> {
    /// `waits_for_disk` is set once it does.
    pub(super) fn new(
        tenant: &str,
        query: Weak<Q>,
        reply: oneshot::Sender<Asked<T>>,
        waits_for_disk: Arc<AtomicBool>,
    ) -> Self {
        Self {
            tenant: tenant.to_owned(),
            query,
            reply,
            waits_for_disk,
            read: None,
        }
    }
}

/// A wait for a ticket alone, and for which tenant.
impl Waiter for (String, oneshot::Sender<Ticket>) {
    fn tenant(&self) -> &str {
        &self.0
    }

    fn is_gone(&self) -> bool {
        self.1.is_closed()
    }

    fn wants_view(&self) -> bool {
        false
    }

    fn goes_to_disk(&self) {}

    fn look(&mut self, _view: &ReadView<'_>) -> bool {
        true
    }

    fn tell(self: Box<Self>, ticket: Ticket) {
        // A reader that has gone away wants no answer.
        let _ = self.1.send(ticket);
    }
}

impl<T, Q> Waiter for Question<T, Q>
where
    T: Send,
    Q: Fn(&ReadView<'_>) -> Result<Read<T>, Fault> + Send + Sync,
{
    fn tenant(&self) -> &str {
        &self.tenant
    }

    fn is_gone(&self) -> bool {
        self.reply.is_closed()
    }

    fn wants_view(&self) -> bool {
        true
    }

    fn goes_to_disk(&self) {
        self.waits_for_disk.store(true, Ordering::Relaxed);
    }

    fn look(&mut self, view: &ReadView<'_>) -> bool {
        if self.reply.is_closed() {
            return true;
        }
        let Some(query) = self.query.upgrade() else {
            return true;
        };
        let read = query(view);
        if read.as_ref().is_err_and(is_not_cached) {
            return false;
        }
        self.read = Some(read);
        true
    }

    fn tell(self: Box<Self>, ticket: Ticket) {
        let read = self.read;
        // As above.
        let _ = self.reply.send(Asked { ticket, read });
    }
}
