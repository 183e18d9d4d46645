//! Which of a peer's answers to entries consensus hears of: those that prove no more than the peer said.
//!
//! Entries are sent without waiting for answers. This openraft takes an answer for one to every
//! request that ends at its log id or before, and dates it by the last of them; a request without
//! entries, which says how far the log was committed, ends where the one before it does. So an
//! answer that waited while this node was stopped would count for a request that the peer has not
//! even got. A leader that was deposed meanwhile would look confirmed by a quorum, and serve stale
//! reads (Raft dissertation, section 6.4). Hence an answer is passed on only while no later request
//! ends there unanswered. What is not passed on is not missed: the answer to that request says the
//! same.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker, ready},
};

use futures::{Stream, StreamExt as _};
use helve_machine::planted::{self, Plant};
use openraft::raft::{AppendEntriesRequest, StreamAppendResult};

use super::Error;
use crate::raft::types::{LogId, TypeConfig};

/// The requests of one stream, and what its answers are passed on through.
pub(super) fn paired<S>(requests: S) -> (Requests<S>, Ledger) {
    let ledger = Ledger::default();
    let requests = Requests {
        requests,
        ledger: ledger.clone(),
    };
    (requests, ledger)
}

/// What a stream was asked, and not answered yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Ledger(Arc<Mutex<Open>>);

#[derive(Debug, Default)]
struct Open {
    /// The last log ids of these requests.
    ends: VecDeque<Option<LogId>>,
    /// Consensus has an answer, and may not have dated it yet: a request that it made now could be mistaken for an answered one.
    is_dating: bool,
    /// The task that wants a request meanwhile.
    waker: Option<Waker>,
}

impl Ledger {
    /// These answers, as far as consensus may hear of them.
    pub(super) fn settle<S>(self, answers: S) -> Answers<S> {
        Answers {
            answers,
            ledger: self,
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dated(&self) {
        let mut open = self.open();
        open.is_dating = false;
        if let Some(waker) = open.waker.take() {
            waker.wake();
        }
    }

    /// Whether this answer may be passed on.
    fn settles(&self, matching: Option<LogId>) -> bool {
        let mut open = self.open();
        open.ends.pop_front();
        let covers_more = open.ends.front().is_some_and(|end| *end <= matching);
        if covers_more && !planted::is(Plant::AnswerAhead) {
            return false;
        }
        open.is_dating = true;
        true
    }
}

/// The requests of one stream, noted as they are sent.
pub(super) struct Requests<S> {
    requests: S,
    ledger: Ledger,
}

impl<S> Stream for Requests<S>
where
    S: Stream<Item = AppendEntriesRequest<TypeConfig>> + Unpin,
{
    type Item = AppendEntriesRequest<TypeConfig>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        // Held while consensus makes the request, which it dates meanwhile.
        let mut open = this.ledger.open();
        if open.is_dating {
            open.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        let request = ready!(this.requests.poll_next_unpin(context));
        if let Some(request) = &request {
            let last = request.entries.last().map(|entry| entry.log_id);
            open.ends.push_back(last.or(request.prev_log_id));
        }
        Poll::Ready(request)
    }
}

/// The answers of one stream, without those that would count for more than they answer.
pub(super) struct Answers<S> {
    answers: S,
    ledger: Ledger,
}

impl<S> Stream for Answers<S>
where
    S: Stream<Item = Result<StreamAppendResult<TypeConfig>, Error>> + Unpin,
{
    type Item = Result<StreamAppendResult<TypeConfig>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // Who asks for the next answer is done with the last one.
        self.ledger.dated();
        loop {
            let answer = ready!(self.answers.poll_next_unpin(context));
            match answer {
                Some(Ok(Ok(matching))) if !self.ledger.settles(matching) => {}
                answer => return Poll::Ready(answer),
            }
        }
    }
}

impl<S> Drop for Answers<S> {
    fn drop(&mut self) {
        self.ledger.dated();
    }
}

#[cfg(test)]
mod tests;
