//! What callers asked and were told, and when: the record that the judges judge.
//!
//! [`History::record`] puts a recorder between the client crate and its stores, so that every call is recorded as the caller made it,
//! retries not shown. An event whose outcome is not known, because the client said so or the call never returned, may have taken
//! effect at any time from its invocation on, or never: nothing here drops or decides it.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use helve_client::{
    Backend, Client, Error, ErrorKind, WatchParts,
    v1::{
        ListKeysReply, ListKeysRequest, ListReply, ListRequest, WatchRequest,
        exchange_answer::Answer, exchange_call::Call,
    },
};
use tonic::async_trait;

use crate::untyped::Untyped;

/// What a caller asked.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "nearly all are calls")]
pub enum Request {
    /// A call that one reply answers.
    Call(Call),
    /// A list of handles.
    ListHandles(ListRequest),
    /// A list of keys.
    ListKeys(ListKeysRequest),
}

/// What a caller was told.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "nearly all are answers")]
pub enum Reply {
    /// The reply to a call.
    Answer(Answer),
    /// All parts of a list of handles.
    Handles(Vec<ListReply>),
    /// All parts of a list of keys.
    Keys(Vec<ListKeysReply>),
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "nearly all are answered")]
pub enum Outcome {
    /// It was answered.
    Answered(Reply),
    /// It failed, as the client crate says it. What the kind means for the effect is [`Event::effect`].
    Failed {
        /// What to do about it, and so what is known.
        kind: ErrorKind,
        /// The message, for people.
        message: String,
    },
    /// It has not returned, or its caller gave it up.
    Open,
}

/// What is known of the effect of a call, without a look at any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The reply says it.
    Told,
    /// The client said that there was none. Judges do not take its word for it: if what it wrote is seen, that is a finding.
    Denied,
    /// It may have taken effect at any time from its invocation on, or never.
    Unknown,
}

/// One call, from its invocation to its return.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Its place in the order of invocation, from 0.
    pub number: usize,
    /// Which client made it. Clients are numbered by the runner; one client may have several calls under way.
    pub client: u64,
    /// The nodes that the client goes to, for people.
    pub endpoints: Arc<str>,
    /// Nanoseconds from the history's origin, on one monotonic clock.
    pub invoked_ns: u64,
    /// When it returned, on the same clock; `None` while it has not.
    pub returned_ns: Option<u64>,
    /// What was asked.
    pub request: Request,
    /// What came of it.
    pub outcome: Outcome,
}

impl Event {
    /// What is known of its effect. A call that got an answer that fits no kind is in doubt, too.
    #[must_use]
    pub fn effect(&self) -> Effect {
        match &self.outcome {
            Outcome::Answered(_) => Effect::Told,
            Outcome::Open
            | Outcome::Failed {
                kind: ErrorKind::Ambiguous | ErrorKind::Internal,
                ..
            } => Effect::Unknown,
            Outcome::Failed { .. } => Effect::Denied,
        }
    }

    /// Whether the request changes something.
    #[must_use]
    pub fn is_mutation(&self) -> bool {
        matches!(
            &self.request,
            Request::Call(
                Call::Mint(_)
                    | Call::Put(_)
                    | Call::Take(_)
                    | Call::Renew(_)
                    | Call::Delete(_)
                    | Call::Claim(_)
                    | Call::Store(_)
                    | Call::DeleteKey(_)
                    | Call::BatchStore(_)
                    | Call::Transact(_)
            )
        )
    }
}

/// All calls of one run, by all its clients.
#[derive(Debug)]
pub struct History {
    origin: Instant,
    events: Mutex<Vec<Event>>,
}

impl Default for History {
    fn default() -> Self {
        Self::new()
    }
}

impl History {
    /// Nothing recorded yet; time runs from now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            origin: Instant::now(),
            events: Mutex::default(),
        }
    }

    /// A history that was made elsewhere. Events get new numbers, in the order of their invocation.
    #[must_use]
    pub fn of(mut events: Vec<Event>) -> Self {
        events.sort_by_key(|event| event.invoked_ns);
        for (number, event) in events.iter_mut().enumerate() {
            event.number = number;
        }
        Self {
            origin: Instant::now(),
            events: Mutex::new(events),
        }
    }

    /// The same client, but every call through it, its clones and its stores is recorded here as `number`'s.
    #[must_use]
    pub fn record(self: &Arc<Self>, client: Client, number: u64, endpoints: &str) -> Client {
        Client::new(Arc::new(Recorder {
            history: Arc::clone(self),
            client,
            number,
            endpoints: endpoints.into(),
        }))
    }

    /// All events so far, in the order of their invocation.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.lock().clone()
    }

    /// How many calls were made.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether none was.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// How many calls were answered, a refusal not counted.
    #[must_use]
    pub fn answered(&self) -> usize {
        let is_answered = |event: &&Event| matches!(event.outcome, Outcome::Answered(_));
        self.lock().iter().filter(is_answered).count()
    }

    /// Nanoseconds since the origin.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).expect("no run lasts for centuries")
    }

    fn invoke(&self, client: u64, endpoints: &Arc<str>, request: Request) -> usize {
        let mut events = self.lock();
        let number = events.len();
        // Within the lock, so that the order of numbers is that of the instants.
        let invoked_ns = self.now_ns();
        events.push(Event {
            number,
            client,
            endpoints: Arc::clone(endpoints),
            invoked_ns,
            returned_ns: None,
            request,
            outcome: Outcome::Open,
        });
        number
    }

    fn complete(&self, number: usize, outcome: Outcome) {
        // Before the lock: the wait for it is not part of the call.
        let returned_ns = self.now_ns();
        let mut events = self.lock();
        let event = &mut events[number];
        event.returned_ns = Some(returned_ns);
        event.outcome = outcome;
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Event>> {
        self.events
            .lock()
            .expect("no thread panics while it writes into the history")
    }
}

struct Recorder {
    history: Arc<History>,
    client: Client,
    number: u64,
    endpoints: Arc<str>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("number", &self.number)
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

impl Recorder {
    /// A future that is dropped half-way leaves its event open.
    async fn recorded<A: Clone + Send>(
        &self,
        request: Request,
        calling: impl Future<Output = Result<A, Error>> + Send,
        reply: fn(A) -> Reply,
    ) -> Result<A, Error> {
        let number = self.history.invoke(self.number, &self.endpoints, request);
        let answer = calling.await;
        let outcome = match &answer {
            Ok(answer) => Outcome::Answered(reply(answer.clone())),
            Err(error) => Outcome::Failed {
                kind: error.kind(),
                message: error.message().to_owned(),
            },
        };
        self.history.complete(number, outcome);
        answer
    }
}

#[async_trait]
impl Backend for Recorder {
    async fn call(&self, call: Call, deadline: Duration) -> Result<Answer, Error> {
        let client = self.client.with_deadline(deadline);
        let request = Request::Call(call.clone());
        self.recorded(request, client.call(Untyped(call)), Reply::Answer)
            .await
    }

    async fn list_handles(
        &self,
        request: ListRequest,
        deadline: Duration,
    ) -> Result<Vec<ListReply>, Error> {
        let client = self.client.with_deadline(deadline);
        let asked = Request::ListHandles(request.clone());
        self.recorded(asked, client.list_handles(request), Reply::Handles)
            .await
    }

    async fn list_keys(
        &self,
        request: ListKeysRequest,
        deadline: Duration,
    ) -> Result<Vec<ListKeysReply>, Error> {
        let client = self.client.with_deadline(deadline);
        let asked = Request::ListKeys(request.clone());
        self.recorded(asked, client.list_keys(request), Reply::Keys)
            .await
    }

    async fn watch(&self, request: WatchRequest, deadline: Duration) -> Result<WatchParts, Error> {
        self.client.backend().watch(request, deadline).await
    }

    fn deadline(&self) -> Duration {
        self.client.deadline()
    }

    fn close(&self) {
        self.client.close();
    }
}

#[cfg(test)]
mod tests;
