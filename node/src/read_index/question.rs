//! What waits for a round: somebody who wants the ticket, or a query to ask of the round's view.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use helve_machine::{Fault, query::Read};
use tokio::sync::oneshot;

use super::{ReadView, Ticket, error::is_not_cached};

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

/// What a query of a round's view came to.
pub(super) struct Asked<T> {
    pub(super) ticket: Ticket,
    /// `None` if there was no view that follows the round soon enough to wait for all together.
    pub(super) read: Option<Result<Read<T>, Fault>>,
}

/// A query that waits.
pub(super) struct Question<T, Q> {
    tenant: String,
    query: Arc<Q>,
    reply: oneshot::Sender<Asked<T>>,
    waits_for_disk: Arc<AtomicBool>,
    read: Option<Result<Read<T>, Fault>>,
}

impl<T, Q> Question<T, Q> {
    /// `waits_for_disk` is set once it does.
    pub(super) fn new(
        tenant: &str,
        query: Arc<Q>,
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
        let read = (self.query)(view);
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
