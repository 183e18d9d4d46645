//! How answers go out: a caller that takes nothing of its answer for too long loses it, and so does the one that has waited longest
//! where callers leave more waiting than a node has room for.
//!
//! The transport asks for the next piece of an answer once the caller has room for the one before, so the task of the stream sees
//! who is not taking. What it gives up, HTTP/2 resets; the caller's other streams go on.

use std::{
    collections::BTreeMap,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Instant,
};

use bytes::Bytes;
use futures::task::AtomicWaker;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::{
    task_local,
    time::{Sleep, sleep},
};
use tonic::{Status, body::Body};

use super::account::Account;
use crate::{
    bounds::Shared,
    complaint::Complaint,
    limits::{ANSWER_PIECE_BYTES, ANSWER_STALL_MAX, ANSWERS_WAITING_BYTES_MAX},
};

task_local! {
    /// The answer of the stream whose task this is.
    static ANSWER: Arc<Answer>;
}

/// The answers of one node that wait for their callers. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct UnreadAnswers {
    waiting: Arc<Mutex<Waiting>>,
    complaint: Arc<Complaint>,
    given_up: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: usize,
    next: u64,
    /// The one that has waited longest first, and what it holds.
    answers: BTreeMap<u64, (usize, Arc<Answer>)>,
}

/// What the task of a stream knows of its answer.
#[derive(Debug, Default)]
struct Answer {
    /// Pieces that the transport has asked for.
    pieces: AtomicUsize,
    /// What is left of the message that goes out; 0 while the caller waits for the node.
    bytes: AtomicUsize,
    given_up: AtomicBool,
    task: AtomicWaker,
}

impl UnreadAnswers {
    /// How many bytes wait, how many may, and how many answers were given up.
    pub(super) fn fullness(&self) -> Shared {
        Shared {
            used: lock(&self.waiting).bytes,
            limit: ANSWERS_WAITING_BYTES_MAX,
            refused: self.given_up.load(Ordering::Relaxed),
        }
    }

    /// Runs the task of one stream to its end, or until its answer is given up: then the stream is dropped, and thereby reset.
    pub(super) async fn send(self, stream: impl Future) {
        let answer = Arc::<Answer>::default();
        let mut stream = pin!(ANSWER.scope(Arc::clone(&answer), stream));
        let mut wait: Option<Wait> = None;
        let sent = poll_fn(|context| {
            answer.task.register(context.waker());
            if answer.given_up.load(Ordering::Acquire) {
                return Poll::Ready(Err("others needed its room"));
            }
            if stream.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let bytes = answer.bytes.load(Ordering::Relaxed);
            if bytes == 0 {
                wait = None;
                return Poll::Pending;
            }
            let pieces = answer.pieces.load(Ordering::Relaxed);
            // A caller that took a piece begins its wait again.
            if wait.as_ref().is_none_or(|wait| wait.pieces != pieces) {
                wait = None;
            }
            let wait = wait.get_or_insert_with(|| self.wait(&answer, pieces, bytes));
            ready!(wait.late.as_mut().poll(context));
            Poll::Ready(Err("nothing of it was taken for too long"))
        });
        if let Err(why) = sent.await {
            self.given_up.fetch_add(1, Ordering::Relaxed);
            match self.complaint.count(Instant::now()) {
                Some(answers) => {
                    tracing::warn!(answers, why, "answers were left unread and given up");
                }
                None => tracing::debug!(why, "an answer was left unread and given up"),
            }
        }
    }

    fn wait(&self, answer: &Arc<Answer>, pieces: usize, bytes: usize) -> Wait {
        let mut waiting = lock(&self.waiting);
        let number = waiting.next;
        waiting.next += 1;
        waiting.bytes += bytes;
        waiting.answers.insert(number, (bytes, Arc::clone(answer)));
        while waiting.bytes > ANSWERS_WAITING_BYTES_MAX {
            let Some((_, (bytes, longest))) = waiting.answers.pop_first() else {
                break;
            };
            waiting.bytes -= bytes;
            longest.given_up.store(true, Ordering::Release);
            longest.task.wake();
        }
        Wait {
            waiting: Arc::clone(&self.waiting),
            number,
            pieces,
            late: Box::pin(sleep(ANSWER_STALL_MAX)),
        }
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An answer's place among those that wait. Given back when this is dropped.
struct Wait {
    waiting: Arc<Mutex<Waiting>>,
    number: u64,
    /// How many pieces had been asked for when it began.
    pieces: usize,
    late: Pin<Box<Sleep>>,
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut waiting = lock(&self.waiting);
        if let Some((bytes, _)) = waiting.answers.remove(&self.number) {
            waiting.bytes -= bytes;
        }
    }
}

/// The body of an answer, cut into pieces.
pub(super) struct Leaving {
    body: Body,
    rest: Bytes,
    answer: Arc<Answer>,
    /// Who is charged for what has not left; ends with the stream.
    account: Option<Arc<Account>>,
}

impl Leaving {
    /// This body, which the stream whose task this is sends.
    pub(super) fn of(body: Body, account: Option<Arc<Account>>) -> Self {
        Self {
            body,
            rest: Bytes::new(),
            answer: ANSWER.try_with(Arc::clone).unwrap_or_default(),
            account,
        }
    }
}

impl HttpBody for Leaving {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.rest.is_empty() {
            // The caller had room for all that came before.
            self.answer.bytes.store(0, Ordering::Relaxed);
            if let Some(account) = &self.account {
                account.answers_left();
            }
            let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(message))) => self.rest = message,
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let left = self.rest.len();
        self.answer.bytes.store(left, Ordering::Relaxed);
        self.answer.pieces.fetch_add(1, Ordering::Relaxed);
        let piece = self.rest.split_to(left.min(ANSWER_PIECE_BYTES));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
