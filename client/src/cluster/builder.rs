//! How to reach a cluster.

use std::{sync::Arc, time::Duration};

use tokio::sync::{Mutex, watch};

use super::{Cluster, Transport, limits, pace::Pace};
#[cfg(feature = "tls")]
use crate::cluster::tls::Tls;
use crate::{
    client::Client,
    cluster::{
        bearer::Bearer,
        channel::{Hints, Pool},
        dial::Dial,
    },
    error::Error,
    limits::DEADLINE,
};

/// How to reach a cluster.
#[derive(Debug, Clone)]
#[must_use = "call build()"]
pub struct ClusterBuilder {
    endpoints: Vec<String>,
    deadline: Duration,
    pace: Pace,
    dial: Dial,
    hints: Hints,
    transport: Transport,
}

impl ClusterBuilder {
    /// These nodes, each as `HOST:PORT`. One suffices; with several the client goes on when one is gone.
    pub fn new<I>(endpoints: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        Self {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            deadline: DEADLINE,
            pace: Pace {
                attempt_timeout: limits::ATTEMPT_TIMEOUT,
                backoff_first: limits::BACKOFF_FIRST,
                backoff_max: limits::BACKOFF_MAX,
                tries_max: u32::MAX,
            },
            dial: Dial::plain(limits::CONNECT_TIMEOUT),
            hints: Hints::Known,
            transport: Transport::Streams,
        }
    }

    /// The token that every call bears: `Bearer::given(token)`, or `Bearer::from_file(path)`, which is read again when the file
    /// changes. Without one, calls bear none. Without TLS it goes to loopback alone, unless [`insecure_token`](Self::insecure_token) is
    /// said.
    pub fn token(mut self, bearer: Bearer) -> Self {
        self.dial.bearer = bearer;
        self
    }

    /// Sends the token in plain text beyond this machine, too, where every machine between can read it: you vouch for that network.
    pub fn insecure_token(mut self) -> Self {
        self.dial.is_vouched_for = true;
        self
    }

    /// How long each call may take, retries included; 5 s by default, a day at most.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How long the first try of a call waits for its node before it turns to another; 1 s by default. Each further try waits
    /// twice as long.
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.pace.attempt_timeout = timeout;
        self
    }

    /// How long a call pauses before its second try, at most, and between two of its later tries; 5 ms and 200 ms by default. Each pause is
    /// twice the one before, and drawn from its upper half, so that callers spread out. A node or a proxy that asks for a longer pause
    /// is given it, within the deadline.
    pub fn backoff(mut self, first: Duration, max: Duration) -> Self {
        self.pace.backoff_first = first;
        self.pace.backoff_max = max;
        self
    }

    /// How many tries a call has; by default as many as its deadline leaves time for. With one, no call is repeated: a write whose answer
    /// is lost is ambiguous at once.
    pub fn tries_max(mut self, tries: u32) -> Self {
        self.pace.tries_max = tries.max(1);
        self
    }

    /// How long a connection may take to be made; 500 ms by default.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.dial.connect_timeout = timeout;
        self
    }

    /// Connects over TLS, to nodes that this trusts. Then an endpoint may be written `https://HOST:PORT`, too.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.dial.tls = Some(tls);
        self
    }

    /// Goes to the leader that nodes name even where it is none of the endpoints given. By default it goes to the leader only if
    /// that is one of them.
    pub fn follow_leader(mut self) -> Self {
        self.hints = Hints::Learn;
        self
    }

    /// Sends each call by itself, as clients in other languages do. By default calls that come at
    /// the same time travel in one batch, over a few streams that stay open: that costs the client
    /// and the node much less, and what a call does and answers is the same. Use it where a proxy
    /// between passes no streams on, or must choose a node for each call.
    pub fn unary(mut self) -> Self {
        self.transport = Transport::Unary;
        self
    }

    /// A client. Connects to nothing before its first call, which must be made within a tokio runtime.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) if there is no endpoint, one is not `HOST:PORT`, or what was given for TLS cannot be used;
    /// and for a token without TLS, if an endpoint is not loopback, unless [`insecure_token`](Self::insecure_token) was said.
    pub fn build(self) -> Result<Client, Error> {
        Ok(Client::new(Arc::new(Cluster {
            pool: Arc::new(Pool::new(&self.endpoints, self.hints, self.dial)?),
            deadline: self.deadline,
            pace: self.pace,
            transport: self.transport,
            session: Mutex::new(None),
            closed: watch::Sender::new(false),
        })))
    }
}
