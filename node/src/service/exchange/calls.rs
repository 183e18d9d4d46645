//! The calls of one stream of Exchange.

use std::{
    future,
    task::{Context, Poll},
};

use futures::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};

use super::Answered;
use crate::limits::EXCHANGE_CALLS_IN_FLIGHT_MAX;

/// Calls that have not begun. A call becomes a future when it is asked for, and not before: a
/// future takes much more than its message, and nothing is charged for the difference.
type Unbegun = Box<dyn Iterator<Item = BoxFuture<'static, Answered>> + Send>;

/// The calls of one stream, in the order of their arrival.
#[derive(Default)]
pub(super) struct Calls {
    under_way: FuturesUnordered<BoxFuture<'static, Answered>>,
    /// The rest of the last batch.
    waiting: Option<Unbegun>,
}

impl Calls {
    /// Takes in a batch, for which there must be room.
    pub(super) fn take_in(
        &mut self,
        batch: impl Iterator<Item = BoxFuture<'static, Answered>> + Send + 'static,
    ) {
        debug_assert!(self.has_room(), "a batch is read once the last has begun");
        self.waiting = Some(Box::new(batch));
    }

    /// Whether another batch may be read.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.is_none() && self.under_way.len() < EXCHANGE_CALLS_IN_FLIGHT_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty() && self.waiting.is_none()
    }

    /// The next that ends; `None` if there are none.
    pub(super) async fn next(&mut self) -> Option<Answered> {
        future::poll_fn(|context| self.poll_next(context)).await
    }

    /// The next that ends, if one is ready. A call begins once all before it wait for something:
    /// those are charged for, or have been refused.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Answered>> {
        loop {
            let next = self.under_way.poll_next_unpin(context);
            if matches!(next, Poll::Ready(Some(_))) || !self.begins_another() {
                return next;
            }
        }
    }

    /// Makes the next call a future, if there is one and the bound allows it.
    fn begins_another(&mut self) -> bool {
        if self.under_way.len() >= EXCHANGE_CALLS_IN_FLIGHT_MAX {
            return false;
        }
        let next = self.waiting.as_mut().and_then(Iterator::next);
        let Some(call) = next else {
            self.waiting = None;
            return false;
        };
        self.under_way.push(call);
        true
    }
}
