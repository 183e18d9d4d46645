//! What an MCP server counts, in `OpenMetrics` text for Prometheus.
//!
//! A server counts into the [`Metrics`] of its [`Access`](crate::serve::Access). Nothing shows them
//! unless it is told to: [`serve`] answers `/metrics` on a listener of its own, which is not the
//! one that callers reach. The page holds numbers, names of methods and names of bounds; no name of
//! a caller, a tool, a key or a task.

mod page;
mod requests;

use std::{
    fmt, io,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use axum::{Router, routing::get};
use helve_http::{Bounds, Drain, Plain, Port, Shutdown, Traffic};
use http::header::CONTENT_TYPE;
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};
use tokio::net::TcpListener;

pub use self::requests::count;
pub(crate) use self::requests::{RequestFacts, outcome_of};

/// The path of the page.
pub const METRICS_PATH: &str = "/metrics";

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Buckets of the times of requests: 0.5 ms, doubling, up to 16 s.
const BUCKETS: (f64, f64, u16) = (0.000_5, 2.0, 16);
/// Connections of scrapers.
const CONNECTIONS_MAX: usize = 16;
/// A scraper has no body to send.
const BODY_BYTES_MAX: usize = 1 << 10;
/// How long a scraper may take for anything.
const SCRAPE_TIME_MAX: Duration = Duration::from_secs(10);

type Held = Gauge<u64, AtomicU64>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    method: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Method {
    method: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Over {
    bound: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Run {
    event: &'static str,
}

/// A bound of an MCP server beside those of its listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Copies of one principal's sessions, each with a call under way.
    PrincipalSessions,
    /// The same of all.
    Sessions,
    /// Subscriptions of one principal.
    PrincipalSubscriptions,
    /// Subscriptions of all.
    Subscriptions,
    /// Tasks that this replica runs.
    RunningTasks,
    /// Tasks of one owner.
    OwnerTasks,
}

impl Limit {
    fn as_str(self) -> &'static str {
        match self {
            Self::PrincipalSessions => "principal_sessions",
            Self::Sessions => "sessions",
            Self::PrincipalSubscriptions => "principal_subscriptions",
            Self::Subscriptions => "subscriptions",
            Self::RunningTasks => "running_tasks",
            Self::OwnerTasks => "owner_tasks",
        }
    }
}

/// What became of a task at this replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskEvent {
    /// It was created here.
    Created,
    /// Its run was taken over from another replica.
    TakenOver,
    /// Its run here ended, or failed.
    Ended,
    /// Its run here was lost to another replica, or given up for a stop.
    GivenUp,
}

impl TaskEvent {
    fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::TakenOver => "taken_over",
            Self::Ended => "ended",
            Self::GivenUp => "given_up",
        }
    }
}

/// What one server counts. Clones count together.
#[derive(Clone)]
pub struct Metrics(Arc<Counters>);

struct Counters {
    registry: Registry,
    requests: Family<Request, Counter>,
    seconds: Family<Method, Histogram>,
    in_flight: Held,
    refused: Family<Over, Counter>,
    sessions: Held,
    subscriptions: Held,
    tasks: Held,
    runs: Family<Run, Counter>,
    traffic: Traffic,
}

impl Default for Metrics {
    fn default() -> Self {
        let seconds = Family::<Method, Histogram>::new_with_constructor(|| {
            let (start, factor, length) = BUCKETS;
            Histogram::new(exponential_buckets(start, factor, length))
        });
        let mut counters = Counters {
            registry: Registry::with_prefix("helve_mcp"),
            requests: Family::default(),
            seconds,
            in_flight: Held::default(),
            refused: Family::default(),
            sessions: Held::default(),
            subscriptions: Held::default(),
            tasks: Held::default(),
            runs: Family::default(),
            traffic: Traffic::default(),
        };
        counters.register();
        Self(Arc::new(counters))
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// Nothing counted yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What the listener counts whose requests these metrics are about. For a [`Port`] of one
    /// listener.
    #[must_use]
    pub fn traffic(&self) -> &Traffic {
        &self.0.traffic
    }

    /// Everything counted so far, in `OpenMetrics` text without its end, so that the caller can add
    /// what it counts itself.
    ///
    /// # Errors
    /// If the text cannot be written, which a string never refuses.
    pub fn encode(&self, page: &mut String) -> fmt::Result {
        text::encode_registry(page, &self.0.registry)?;
        text::encode_registry(page, &page::registry(&self.0.traffic))
    }

    /// Everything counted so far, as a whole page.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub fn page(&self) -> Result<String, fmt::Error> {
        let mut page = String::new();
        self.encode(&mut page)?;
        text::encode_eof(&mut page)?;
        Ok(page)
    }

    pub(crate) fn refused(&self, limit: Limit) {
        let bound = limit.as_str();
        self.0.refused.get_or_create(&Over { bound }).inc();
    }

    pub(crate) fn sessions(&self, count: usize) {
        self.0.sessions.set(count as u64);
    }

    /// Counts a subscription until what this returns is dropped.
    pub(crate) fn subscription(&self) -> One {
        One::of(&self.0.subscriptions)
    }

    /// Counts a task that runs here until what this returns is dropped.
    pub(crate) fn task(&self) -> One {
        One::of(&self.0.tasks)
    }

    pub(crate) fn task_event(&self, event: TaskEvent) {
        let event = event.as_str();
        self.0.runs.get_or_create(&Run { event }).inc();
    }
}

/// Counts one until it is dropped.
#[derive(Debug)]
pub(crate) struct One(Held);

impl One {
    fn of(held: &Held) -> Self {
        held.inc();
        Self(held.clone())
    }
}

impl Drop for One {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Serves the page that `page` writes at each scrape, at [`METRICS_PATH`], until `shutdown` begins.
/// It asks for no token: bind the listener where only the scraper reaches it.
///
/// # Errors
/// If the listener fails.
pub async fn serve(
    listener: TcpListener,
    page: impl Fn() -> Result<String, fmt::Error> + Clone + Send + Sync + 'static,
    shutdown: Shutdown,
) -> io::Result<()> {
    let answer = move || {
        let page = page();
        async move {
            match page {
                Ok(page) => Ok(([(CONTENT_TYPE, OPEN_METRICS)], page)),
                Err(error) => {
                    tracing::error!(%error, "the page of metrics cannot be written");
                    Err(http::StatusCode::INTERNAL_SERVER_ERROR)
                }
            }
        }
    };
    let router = Router::new().route(METRICS_PATH, get(answer));
    let bounds = Bounds {
        idle_time: SCRAPE_TIME_MAX,
        body_bytes: BODY_BYTES_MAX,
        ..Bounds::default()
    };
    let port = Port {
        bounds: bounds.connections(CONNECTIONS_MAX),
        drain: Drain {
            linger: Duration::ZERO,
            ..Drain::default()
        },
        ..Port::new("metrics")
    };
    helve_http::serve(listener, Plain, router, port, shutdown).await
}
