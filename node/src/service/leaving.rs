//! How answers go out: a caller that takes nothing of its answer for too long loses it. Where callers leave more waiting than a node has
//! room for, the owner that has most waiting loses the answer that has waited longest.
//!
//! The transport asks for the next piece of an answer once the caller has room for one byte, so the task of the stream sees who is not
//! taking. What it gives up, HTTP/2 resets; the caller's other streams go on. The transport holds a whole piece for a caller that has
//! room for less, and for one that takes nothing more it would hold it as long as the connection lives, after the stream's task has
//! ended. So a piece bears the charges of its answer and the place of its stream until the transport drops it; and once the transport
//! holds many pieces, a stream waits for its own before it ends, and is given up like any other.

use std::{
    collections::{BTreeMap, HashMap},
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

use super::{account::Account, budget::Charge};
use crate::{
    bounds::Shared,
    limits::{ANSWER_PIECE_BYTES, ANSWER_STALL_MAX, ANSWERS_WAITING_BYTES_MAX, PIECES_UNTIMED_MAX},
    log_throttle::LogThrottle,
};

task_local! {
    /// The answer of the stream whose task this is.
    static ANSWER: Arc<Answer>;
}

/// The answers of one node that wait for their callers. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct UnreadAnswers {
    waiting: Arc<Mutex<Waiting>>,
    log_throttle: Arc<LogThrottle>,
    given_up: Arc<AtomicU64>,
    /// Pieces that the transport holds, of all streams.
    handed: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: usize,
    next: u64,
    /// The one that has waited longest first.
    answers: BTreeMap<u64, WaitingAnswer>,
    /// What the answers of each owner hold.
    owners: HashMap<usize, usize>,
}

#[derive(Debug)]
struct WaitingAnswer {
    bytes: usize,
    owner: usize,
    answer: Arc<Answer>,
}

impl Waiting {
    fn add(&mut self, bytes: usize, answer: Arc<Answer>) -> u64 {
        let number = self.next;
        let owner = answer.owner.load(Ordering::Relaxed);
        self.next += 1;
        self.bytes += bytes;
        *self.owners.entry(owner).or_default() += bytes;
        let answer = WaitingAnswer {
            bytes,
            owner,
            answer,
        };
        self.answers.insert(number, answer);
        number
    }

    fn remove(&mut self, number: u64) -> Option<Arc<Answer>> {
        let removed = self.answers.remove(&number)?;
        self.bytes -= removed.bytes;
        if let Some(held) = self.owners.get_mut(&removed.owner) {
            *held -= removed.bytes;
            if *held == 0 {
                self.owners.remove(&removed.owner);
            }
        }
        Some(removed.answer)
    }

    /// Takes out the answer that has waited longest of the owner that has most waiting.
    fn evict(&mut self) -> Option<Arc<Answer>> {
        let most = self.owners.iter().max_by_key(|(_, bytes)| **bytes);
        let owner = *most?.0;
        let mut answers = self.answers.iter();
        let longest = answers.find(|(_, waiting)| waiting.owner == owner);
        let number = *longest?.0;
        self.remove(number)
    }
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
    /// Whose answer it is, once that is known.
    owner: AtomicUsize,
    /// Pieces of it that the transport holds, and of all streams.
    out: AtomicUsize,
    handed: Arc<AtomicUsize>,
    /// The task waits until the transport holds none.
    waits: AtomicBool,
}

impl Answer {
    /// Whether the stream waits for its own pieces to leave before it goes on.
    fn waits_for_pieces(&self, context: &Context<'_>) -> bool {
        if self.out.load(Ordering::Acquire) == 0
            || self.handed.load(Ordering::Relaxed) <= PIECES_UNTIMED_MAX
        {
            return false;
        }
        self.task.register(context.waker());
        self.waits.store(true, Ordering::SeqCst);
        // The last one may have left just before.
        self.out.load(Ordering::SeqCst) != 0
    }
}

/// A piece of an answer, for as long as the transport holds it.
struct Piece {
    bytes: Bytes,
    answer: Arc<Answer>,
    _held: Option<Arc<Held>>,
}

/// What the message of some pieces is charged, and whose stream it is of.
struct Held {
    _charges: Vec<Charge>,
    _account: Arc<Account>,
}

impl Piece {
    fn of(bytes: Bytes, answer: &Arc<Answer>, held: Option<Arc<Held>>) -> Self {
        answer.out.fetch_add(1, Ordering::SeqCst);
        answer.handed.fetch_add(1, Ordering::Relaxed);
        Self {
            bytes,
            answer: Arc::clone(answer),
            _held: held,
        }
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.answer.handed.fetch_sub(1, Ordering::Relaxed);
        self.answer.out.fetch_sub(1, Ordering::SeqCst);
        if self.answer.waits.swap(false, Ordering::SeqCst) {
            self.answer.task.wake();
        }
    }
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
        let answer = Arc::new(Answer {
            handed: Arc::clone(&self.handed),
            ..Answer::default()
        });
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
            match self.log_throttle.count(Instant::now()) {
                Some(answers) => {
                    tracing::warn!(answers, why, "answers were left unread and given up");
                }
                None => tracing::debug!(why, "an answer was left unread and given up"),
            }
        }
    }

    fn wait(&self, answer: &Arc<Answer>, pieces: usize, bytes: usize) -> Wait {
        let mut waiting = lock(&self.waiting);
        let number = waiting.add(bytes, Arc::clone(answer));
        while waiting.bytes > ANSWERS_WAITING_BYTES_MAX {
            let Some(longest) = waiting.evict() else {
                break;
            };
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
        lock(&self.waiting).remove(self.number);
    }
}

/// The body of an answer, cut into pieces.
pub(super) struct Leaving {
    body: Body,
    rest: Bytes,
    answer: Arc<Answer>,
    /// Who is charged for what has not left.
    account: Option<Arc<Account>>,
    /// What the message in `rest` is charged.
    held: Option<Arc<Held>>,
}

impl Leaving {
    /// This body, which the stream whose task this is sends.
    pub(super) fn of(body: Body, account: Option<Arc<Account>>) -> Self {
        let answer = ANSWER.try_with(Arc::clone).unwrap_or_default();
        if let Some(account) = &account {
            answer.owner.store(account.owner_id(), Ordering::Relaxed);
        }
        Self {
            body,
            rest: Bytes::new(),
            answer,
            account,
            held: None,
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
        if self.answer.waits_for_pieces(context) {
            return Poll::Pending;
        }
        if self.rest.is_empty() {
            self.answer.bytes.store(0, Ordering::Relaxed);
            self.held = None;
            let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(message))) => {
                    self.rest = message;
                    self.held = self.account.as_ref().map(|account| {
                        Arc::new(Held {
                            _charges: account.take_answers(),
                            _account: Arc::clone(account),
                        })
                    });
                }
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let left = self.rest.len();
        self.answer.bytes.store(left, Ordering::Relaxed);
        self.answer.pieces.fetch_add(1, Ordering::Relaxed);
        let piece = self.rest.split_to(left.min(ANSWER_PIECE_BYTES));
        let piece = Piece::of(piece, &self.answer, self.held.clone());
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(piece)))))
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
