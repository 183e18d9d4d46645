//! One Exchange stream: calls go out in the batches that form while the one before is on its way, answers come back in any order.
//!
//! ```text
//! call() ── queue ──► Outgoing, which HTTP/2 polls for the next batch ──► node
//!   ▲                                                                      │
//!   └───────────── waiting ◄── the reading task ◄── batches of answers ◄───┘
//! ```
//!
//! What left the queue was sent: without an answer its outcome is unknown. What did not leave it certainly was not.

#[cfg(any(test, fuzzing))]
mod fuzzing;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures::Stream;
use helve_proto::v1::{
    ExchangeAnswer, ExchangeCall, ExchangeRequest, call_service_client::CallServiceClient,
    exchange_answer::Answer, exchange_call::Call,
};
use prost::Message;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    task::AbortHandle,
    time::{Instant, timeout_at},
};
use tonic::Status;

#[cfg(any(test, fuzzing))]
pub use self::fuzzing::exchange_reply;
use crate::{
    cluster::{
        limits::{
            EXCHANGE_BATCH_BYTES_MAX, EXCHANGE_BATCH_CALLS_MAX, EXCHANGE_CALLS_IN_FLIGHT_MAX,
            MESSAGE_BYTES_MAX,
        },
        node_connection::NodeConnection,
        verdict::{Health, Verdict},
    },
    error::{Error, ErrorKind},
};

const ENDED: &str = "the connection has just ended";
const LATE: &str = "it took no more calls in time";

/// A stream of calls to one node. It opens with its making, and is over for good when it breaks.
#[derive(Debug)]
pub(crate) struct ExchangeStream {
    /// Where it leads, as errors name it.
    address: Arc<str>,
    /// Calls that may still begin. A call that was given up keeps its room until the node answers it, as it does there.
    room: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next_id: u64,
    /// Not sent yet, in the order of their ids.
    queue: VecDeque<Queued>,
    /// Queued or sent, and not answered yet.
    waiting: HashMap<u64, Waiting>,
    /// Of the task that sends the next batch, if it waits for one.
    sender: Option<Waker>,
    /// The node has taken the stream.
    is_open: bool,
    is_over: bool,
    /// Batches that were sent.
    batches: usize,
}

#[derive(Debug)]
struct Queued {
    id: u64,
    until: Instant,
    call: Call,
}

#[derive(Debug)]
struct Waiting {
    reply: oneshot::Sender<Result<Answer, Verdict>>,
    _room: OwnedSemaphorePermit,
}

impl ExchangeStream {
    /// Opens a stream, on the tokio runtime around it. It is over when its reading is aborted.
    pub(crate) fn open(channel: NodeConnection) -> (Arc<Self>, AbortHandle) {
        let stream = Arc::new(Self {
            address: Arc::clone(channel.address()),
            room: Arc::new(Semaphore::new(EXCHANGE_CALLS_IN_FLIGHT_MAX)),
            state: Mutex::default(),
        });
        let reading = Reading(Arc::clone(&stream));
        let reading = tokio::spawn(async move {
            let end = reading.0.read(channel).await;
            reading.0.finish(&end);
        });
        (stream, reading.abort_handle())
    }

    /// Queued, or sent and not answered.
    pub(crate) fn in_flight(&self) -> usize {
        EXCHANGE_CALLS_IN_FLIGHT_MAX - self.room.available_permits()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state().is_over
    }

    /// Makes one try of a call. Dropping it gives the call up.
    pub(crate) async fn call(&self, call: Call, timeout: Duration) -> Result<Answer, Verdict> {
        let until = Instant::now() + timeout;
        let room = match timeout_at(until, Arc::clone(&self.room).acquire_owned()).await {
            Ok(Ok(room)) => room,
            Ok(Err(_closed)) => return Err(self.unsent(ENDED)),
            Err(_elapsed) => return Err(too_much()),
        };
        let (reply, answer) = oneshot::channel();
        let Some(id) = self.enqueue(call, until, Waiting { reply, _room: room }) else {
            return Err(self.unsent(ENDED));
        };
        match timeout_at(until, answer).await {
            Ok(Ok(answered)) => answered,
            Ok(Err(_gone)) => Err(Verdict::silence(&self.address)),
            Err(_elapsed) if self.withdraw(id) => Err(self.unsent(LATE)),
            Err(_elapsed) => Err(Verdict::silence(&self.address)),
        }
    }

    fn unsent(&self, message: &str) -> Verdict {
        unsent(&self.address, message)
    }

    fn enqueue(&self, call: Call, until: Instant, waiting: Waiting) -> Option<u64> {
        let mut state = self.state();
        if state.is_over {
            return None;
        }
        state.next_id += 1;
        let id = state.next_id;
        state.queue.push_back(Queued { id, until, call });
        state.waiting.insert(id, waiting);
        let sender = state.sender.take();
        drop(state);
        if let Some(sender) = sender {
            sender.wake();
        }
        Some(id)
    }

    /// Takes a call back; false if it was sent.
    fn withdraw(&self, id: u64) -> bool {
        let mut state = self.state();
        let Ok(place) = state.queue.binary_search_by_key(&id, |queued| queued.id) else {
            return false;
        };
        state.queue.remove(place);
        state.waiting.remove(&id);
        true
    }

    async fn read(self: &Arc<Self>, channel: NodeConnection) -> End {
        let mut client = CallServiceClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let opened = client.exchange(Outgoing(Arc::clone(self))).await;
        let mut answers = match opened {
            Ok(answers) => answers.into_inner(),
            Err(status) => return End::Unopened(status),
        };
        self.state().is_open = true;
        loop {
            match answers.message().await {
                Ok(Some(batch)) => self.settle(batch.answers),
                Ok(None) => return End::Broken(Status::unavailable("the node ended the stream")),
                Err(status) => return End::Broken(status),
            }
        }
    }

    fn settle(&self, answers: Vec<ExchangeAnswer>) {
        let mut state = self.state();
        for ExchangeAnswer {
            correlation_id,
            answer,
        } in answers
        {
            let Some(waiting) = state.waiting.remove(&correlation_id) else {
                tracing::warn!(correlation_id, "an answer to no call");
                continue;
            };
            let answered = match answer {
                Some(Answer::Error(error)) => Err(Verdict::of_reply(&self.address, error)),
                Some(answer) => Ok(answer),
                None => Err(Verdict::unreadable()),
            };
            // A caller that has gone away wants no answer.
            let _ = waiting.reply.send(answered);
        }
    }

    /// Tells every caller what the end of the stream means for its call. The first end counts.
    fn finish(&self, end: &End) {
        let mut state = self.state();
        state.is_over = true;
        let (address, batches) = (&*self.address, state.batches);
        state.refuse_queued(&|| end.of_unsent(address, batches));
        for (_, waiting) in state.waiting.drain() {
            // A caller that has gone away wants no answer.
            let _ = waiting.reply.send(Err(end.of_sent(address, batches)));
        }
        if let Some(sender) = state.sender.take() {
            sender.wake();
        }
        // Callers that still wait for room find out at once.
        self.room.close();
    }

    /// Nothing panics while it holds the lock half-way, so a poisoned one is still right.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn refuse_queued(&mut self, verdict: &dyn Fn() -> Verdict) {
        for Queued { id, .. } in std::mem::take(&mut self.queue) {
            if let Some(waiting) = self.waiting.remove(&id) {
                // A caller that has gone away wants no answer.
                let _ = waiting.reply.send(Err(verdict()));
            }
        }
    }

    /// What is queued, as far as it fits one message. Commands whose callers have gone are not
    /// sent.
    fn batch(&mut self, address: &str, now: Instant) -> Vec<ExchangeCall> {
        let mut calls = Vec::new();
        let mut bytes = 0;
        while let Some(queued) = self.queue.front() {
            let fits = bytes < EXCHANGE_BATCH_BYTES_MAX && calls.len() < EXCHANGE_BATCH_CALLS_MAX;
            if !fits {
                break;
            }
            let is_awaited = queued.until > now
                && self
                    .waiting
                    .get(&queued.id)
                    .is_some_and(|waiting| !waiting.reply.is_closed());
            let queued = self.queue.pop_front().expect("it was looked at just now");
            if !is_awaited {
                if let Some(waiting) = self.waiting.remove(&queued.id) {
                    // A caller that has gone away wants no answer.
                    let _ = waiting.reply.send(Err(unsent(address, LATE)));
                }
                continue;
            }
            let call = exchange_call(queued, now);
            bytes += call.encoded_len();
            calls.push(call);
        }
        calls
    }
}

fn exchange_call(queued: Queued, now: Instant) -> ExchangeCall {
    let left_ms = queued.until.saturating_duration_since(now).as_millis();
    ExchangeCall {
        correlation_id: queued.id,
        // 0 would mean the node's default.
        timeout_ms: u32::try_from(left_ms).unwrap_or(u32::MAX).max(1),
        call: Some(queued.call),
    }
}

fn unsent(address: &str, message: &str) -> Verdict {
    Verdict::NotDone {
        error: Error::new(ErrorKind::Unavailable, format!("{address}: {message}")).at(address),
        pause: None,
        node: Health::Suspect,
    }
}

fn too_much() -> Verdict {
    Verdict::NotDone {
        error: Error::new(
            ErrorKind::Overloaded,
            "too many calls of this client are under way",
        ),
        pause: None,
        node: Health::Sound,
    }
}

/// The sending half. HTTP/2 asks it for the next batch whenever it has room for one.
struct Outgoing(Arc<ExchangeStream>);

impl Stream for Outgoing {
    type Item = ExchangeRequest;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<ExchangeRequest>> {
        let mut state = self.0.state();
        if state.is_over {
            return Poll::Ready(None);
        }
        let calls = state.batch(&self.0.address, Instant::now());
        if calls.is_empty() {
            state.sender = Some(context.waker().clone());
            return Poll::Pending;
        }
        state.batches += 1;
        Poll::Ready(Some(ExchangeRequest { calls }))
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        // No further call can be sent. What was sent may still be answered, so the reading half decides about that; and why a stream
        // never opened, it is about to hear.
        let mut state = self.0.state();
        state.is_over = true;
        if state.is_open {
            state.refuse_queued(&|| unsent(&self.0.address, ENDED));
        }
    }
}

/// How a stream ended.
#[derive(Debug)]
enum End {
    /// The node, or the way to it, refused the stream as a whole: what this says is said of each call.
    Unopened(Status),
    /// It broke, or the node ended it.
    Broken(Status),
}

impl End {
    /// Of a call that was sent and not answered, after this many batches.
    fn of_sent(&self, address: &str, batches: usize) -> Verdict {
        match self {
            Self::Unopened(status) => Verdict::of(address, status).of_refused_stream(batches),
            Self::Broken(status) => Verdict::of(address, status).of_stream(),
        }
    }

    /// Of a call that was not sent.
    fn of_unsent(&self, address: &str, batches: usize) -> Verdict {
        self.of_sent(address, batches).of_unsent()
    }
}

/// Ends the stream with the task that reads it, however that ends.
struct Reading(Arc<ExchangeStream>);

impl Drop for Reading {
    fn drop(&mut self) {
        let status = Status::unavailable("the client, or the runtime of its connection, has gone");
        self.0.finish(&End::Broken(status));
    }
}
