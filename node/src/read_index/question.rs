//! What waits for a round: somebody who wants the ticket, or a query to ask of the round's view.

use std::sync::Arc;

use helve_machine::{Fault, query::Read};
use tokio::sync::oneshot;

use super::{ReadView, Ticket};

/// One that waits.
pub(super) trait Waiter: Send + Sync {
    /// Nobody wants the answer any more.
    fn is_gone(&self) -> bool;

    /// The round was answered.
    fn ticket(self: Box<Self>, ticket: Ticket);

    /// The same, and this node's rows are that far.
    fn view(self: Box<Self>, ticket: Ticket, view: &ReadView<'_>);
}

/// What a query of a round's view came to.
pub(super) struct Asked<T> {
    pub(super) ticket: Ticket,
    /// `None` if the rows were not that far soon enough to wait for all together.
    pub(super) read: Option<Result<Read<T>, Fault>>,
}

/// A query that waits.
pub(super) struct Question<T, Q> {
    pub(super) query: Arc<Q>,
    pub(super) reply: oneshot::Sender<Asked<T>>,
}

impl Waiter for oneshot::Sender<Ticket> {
    fn is_gone(&self) -> bool {
        self.is_closed()
    }

    fn ticket(self: Box<Self>, ticket: Ticket) {
        // A reader that has gone away wants no answer.
        let _ = self.send(ticket);
    }

    fn view(self: Box<Self>, ticket: Ticket, _view: &ReadView<'_>) {
        self.ticket(ticket);
    }
}

impl<T, Q> Waiter for Question<T, Q>
where
    T: Send,
    Q: Fn(&ReadView<'_>) -> Result<Read<T>, Fault> + Send + Sync,
{
    fn is_gone(&self) -> bool {
        self.reply.is_closed()
    }

    fn ticket(self: Box<Self>, ticket: Ticket) {
        // A reader that has gone away wants no answer.
        let _ = self.reply.send(Asked { ticket, read: None });
    }

    fn view(self: Box<Self>, ticket: Ticket, view: &ReadView<'_>) {
        if self.reply.is_closed() {
            return;
        }
        let read = Some((self.query)(view));
        // As above.
        let _ = self.reply.send(Asked { ticket, read });
    }
}
