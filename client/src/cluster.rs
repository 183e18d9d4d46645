//! The cluster as a host.

mod address;
mod bearer;
mod builder;
mod channel;
pub(crate) mod details;
mod dial;
mod exchange;
mod failure;
mod greeted;
mod limits;
pub(crate) mod line_error;
mod list;
mod named;
mod node_connection;
mod pace;
mod proxy_words;
mod session;
mod survey;
#[cfg(feature = "tls")]
mod tls;
mod tries;
mod unary;
pub(crate) mod verdict;
mod watching;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::future::BoxFuture;
use helve_proto::{
    Reason, TraceParent,
    v1::{
        ListKeysReply, ListKeysRequest, ListReply, ListRequest, OpenSessionRequest, WatchRequest,
        exchange_answer::Answer, exchange_call::Call,
    },
};
use prost::Message as _;
use tokio::{
    sync::{Mutex, watch},
    time::{Instant, timeout_at},
};
use tracing::Instrument as _;

#[cfg(any(test, fuzzing))]
pub use self::exchange::exchange_reply;
#[cfg(feature = "tls")]
pub use self::tls::Tls;
pub use self::{
    address::Address,
    bearer::{Bearer, exposed},
    builder::ClusterBuilder,
    failure::{Between, Failure},
    named::{Content as NamedContent, read as read_named},
    node_connection::NodeConnection,
};
use crate::{
    backend::{Backend, name},
    cluster::{
        channel::{Node, Pool},
        pace::{Effect, Pace},
        session::{Number, Session},
        tries::{Tries, end},
        verdict::{Health, Verdict},
        watching::Watching,
    },
    error::{Error, ErrorKind},
    limits::DEADLINE_MAX,
    promises::Promises,
    trace,
    watch::WatchParts,
};

/// How calls travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    /// Those that come at the same time in one batch, over streams that stay open.
    Streams,
    /// Each by itself.
    Unary,
}

struct Cluster {
    pool: Arc<Pool>,
    deadline: Duration,
    pace: Pace,
    transport: Transport,
    /// Opened by the first mutation; locked while it is being opened, so that callers wait for one session.
    session: Mutex<Option<Arc<Session>>>,
    closed: watch::Sender<bool>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cluster({})", self.pool)
    }
}

#[async_trait]
impl Backend for Cluster {
    async fn call(&self, mut call: Call, deadline: Duration) -> Result<Answer, Error> {
        check_size(call.encoded_len())?;
        let until = Instant::now() + deadline.min(DEADLINE_MAX);
        match call.identity_mut() {
            None => self.answer(&call, None, Effect::Harmless, until).await,
            Some(None) => self.mutate(&call, until).await,
            Some(Some(_)) => self.answer(&call, None, Effect::Lasting, until).await,
        }
    }

    async fn list_handles(
        &self,
        request: ListRequest,
        deadline: Duration,
    ) -> Result<Vec<ListReply>, Error> {
        check_size(request.encoded_len())?;
        let until = Instant::now() + deadline.min(DEADLINE_MAX);
        let wanted = list::Wanted {
            after: request.after.clone(),
            limit: request.handles_max,
        };
        let tries = || self.tries(Effect::Harmless, until);
        let open = |channel| -> list::Opened<_> {
            let request = unary::timed(request.clone(), wanted.timeout(until));
            Box::pin(async move { unary::handles(channel).list(request).await })
        };
        let collected = list::collect(&self.pool, until, &wanted, tries, open);
        let span = tracing::debug_span!("call", rpc = "List");
        self.unless_closed(collected).instrument(span).await
    }

    async fn list_keys(
        &self,
        request: ListKeysRequest,
        deadline: Duration,
    ) -> Result<Vec<ListKeysReply>, Error> {
        check_size(request.encoded_len())?;
        let until = Instant::now() + deadline.min(DEADLINE_MAX);
        let wanted = list::Wanted {
            after: request.after.clone(),
            limit: request.keys_max,
        };
        let tries = || self.tries(Effect::Harmless, until);
        let open = |channel| -> list::Opened<_> {
            let request = unary::timed(request.clone(), wanted.timeout(until));
            Box::pin(async move { unary::keys(channel).list(request).await })
        };
        let collected = list::collect(&self.pool, until, &wanted, tries, open);
        let span = tracing::debug_span!("call", rpc = "ListKeys");
        self.unless_closed(collected).instrument(span).await
    }

    async fn watch(&self, request: WatchRequest, deadline: Duration) -> Result<WatchParts, Error> {
        check_size(request.encoded_len())?;
        let deadline = deadline.min(DEADLINE_MAX);
        let pool = Arc::clone(&self.pool);
        let closed = self.closed.subscribe();
        let mut watching = Watching::new(pool, self.pace, deadline, closed, request);
        watching.open().await?;
        Ok(watching.into_parts())
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }

    fn promises(&self) -> Promises {
        Promises::CLUSTER
    }

    async fn survey(&self, patience: Duration) -> Vec<Option<helve_proto::v1::StatusReply>> {
        survey::survey(&self.pool, patience).await
    }

    fn close(&self) {
        self.closed.send_replace(true);
    }
}

impl Cluster {
    /// What has no effect may be dropped half-way.
    async fn unless_closed<A>(
        &self,
        reading: impl Future<Output = Result<A, Error>>,
    ) -> Result<A, Error> {
        let mut closed = self.closed.subscribe();
        tokio::select! {
            biased;
            () = end(&mut closed) => Err(Error::closed()),
            read = reading => read,
        }
    }

    fn tries(&self, effect: Effect, until: Instant) -> Tries<'_> {
        Tries::new(
            &self.pool,
            effect,
            until,
            self.pace,
            self.closed.subscribe(),
        )
    }

    /// Gives a mutation its number. One that meets an expired session before any try may have had an effect gets another number
    /// in a new session; one that was in doubt never does.
    async fn mutate(&self, call: &Call, until: Instant) -> Result<Answer, Error> {
        loop {
            let session = self.session(until).await?;
            let Ok(number) = timeout_at(until, session.begin()).await else {
                let message = "too many calls of this client are under way";
                return Err(Error::new(ErrorKind::Overloaded, message));
            };
            let answer = self
                .answer(call, Some(number), Effect::Lasting, until)
                .await;
            match answer {
                Err(error) if error.reason() == Some(Reason::SessionExpired) => {
                    self.forget(&session, until).await;
                }
                answer => return answer,
            }
        }
    }

    async fn answer(
        &self,
        call: &Call,
        number: Option<Number>,
        effect: Effect,
        until: Instant,
    ) -> Result<Answer, Error> {
        let transport = match self.transport {
            // It would hold up the others.
            Transport::Streams if call.encoded_len() > limits::EXCHANGE_CALL_BYTES_MAX => {
                Transport::Unary
            }
            // A batch bears no span.
            Transport::Streams if trace::parent().is_some_and(TraceParent::is_sampled) => {
                Transport::Unary
            }
            transport => transport,
        };
        let attempt = |node: Arc<Node>, timeout| -> BoxFuture<'static, _> {
            let mut call = call.clone();
            if let (Some(identity), Some(number)) = (call.identity_mut(), &number) {
                *identity = Some(number.identity());
            }
            Box::pin(transport.attempt(node, call, timeout))
        };
        let span = tracing::debug_span!("call", rpc = name(call));
        let tries = self.tries(effect, until).run(attempt);
        let (node, mut answer) = tries.instrument(span).await?;
        let header = answer.header_mut().and_then(|header| header.as_ref());
        let leader = header.map_or("", |header| &header.leader_hint);
        self.pool.answered(&node, leader);
        Ok(answer)
    }

    async fn session(&self, until: Instant) -> Result<Arc<Session>, Error> {
        let Ok(mut session) = timeout_at(until, self.session.lock()).await else {
            let message = "no replay session could be opened within the deadline";
            return Err(Error::new(ErrorKind::Unavailable, message));
        };
        if let Some(session) = &*session {
            return Ok(Arc::clone(session));
        }
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|error| {
            let message = "no randomness for the id of a replay session";
            Error::new(ErrorKind::Entropy, message).with_source(error)
        })?;
        let call = Call::OpenSession(OpenSessionRequest {
            session_id: id.to_vec().into(),
        });
        let answer = self.answer(&call, None, Effect::Harmless, until).await?;
        let Answer::OpenSession(reply) = answer else {
            return Err(Error::internal("an answer to another request"));
        };
        let opened = Arc::new(Session::new(id, reply.window_calls_max));
        *session = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// The task that holds the lock until the deadline is opening another session already.
    async fn forget(&self, expired: &Arc<Session>, until: Instant) {
        let Ok(mut session) = timeout_at(until, self.session.lock()).await else {
            return;
        };
        if session
            .as_ref()
            .is_some_and(|current| Arc::ptr_eq(current, expired))
        {
            *session = None;
        }
    }
}

impl Transport {
    async fn attempt(
        self,
        node: Arc<Node>,
        call: Call,
        timeout: Duration,
    ) -> Result<Answer, Verdict> {
        match self {
            Self::Streams if !node.is_alone() => {
                let answered = node.stream().call(call, timeout).await;
                if let Err(
                    Verdict::NotDone { node: health, .. } | Verdict::Unknown { node: health, .. },
                ) = &answered
                    && *health == Health::Narrow
                {
                    node.set_alone();
                }
                answered
            }
            Self::Streams | Self::Unary => unary::send(node.channel(), call, timeout).await,
        }
    }
}

/// Whether a request of this many bytes can be within the limits at all.
fn check_size(bytes: usize) -> Result<(), Error> {
    if bytes > limits::REQUEST_BYTES_MAX {
        let message = format!(
            "the request has {bytes} bytes, and {} are allowed: write less at once",
            limits::REQUEST_BYTES_MAX
        );
        return Err(Error::refused(Reason::TooLarge, message, 0, 0));
    }
    Ok(())
}
