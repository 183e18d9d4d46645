//! Spans, and the queue in which ended ones wait for the collector.

use std::{mem, sync::Arc, time::Instant};

use helve_proto::{TraceParent, peer::v1::Span as Forwarded};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::mpsc;

use crate::{excerpt::head, limits::TRACE_TEXT_BYTES_MAX, stamp};

/// A span of a trace that is recorded, in which others can begin. Cheap to clone, and small: all commands have room for one.
#[derive(Debug, Clone)]
pub struct Trace(Arc<Place>);

#[derive(Debug)]
struct Place {
    spans: Spans,
    span: TraceParent,
}

/// A span under way. It ends when it is dropped. Small, since all calls have room for some.
#[derive(Debug)]
pub struct Span(Box<Open>);

#[derive(Debug)]
struct Open {
    trace: Trace,
    about: About,
    began: Instant,
    failure: Option<&'static str>,
    tenant: String,
}

/// What a span is of.
#[derive(Debug, Clone, Copy)]
pub(super) struct About {
    pub(super) trace_id: u128,
    /// The span that it is a part of; 0: none.
    pub(super) parent_id: u64,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

/// Whose request it is about, as OpenTelemetry tells kinds of spans apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One that came from elsewhere.
    Server,
    /// One that goes elsewhere.
    Client,
    /// None.
    Internal,
}

/// A span that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) about: About,
    pub(super) span_id: u64,
    /// In nanoseconds since the Unix epoch, by the wall clock.
    pub(super) began_ns: u64,
    pub(super) ended_ns: u64,
    /// The reason of the error that it ended with.
    pub(super) failure: Option<&'static str>,
    /// Empty: it says nothing of a tenant.
    pub(super) tenant: String,
}

/// Where ended spans wait. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Spans {
    queue: mpsc::Sender<Ended>,
    dropped: Counter,
}

impl Spans {
    pub(super) fn new(queue: mpsc::Sender<Ended>, dropped: Counter) -> Self {
        Self { queue, dropped }
    }

    fn end(&self, ended: Ended) {
        if self.queue.try_send(ended).is_err() {
            self.dropped.inc();
        }
    }
}

impl Trace {
    /// A part of this that begins now; `None` without entropy for its id.
    #[must_use]
    pub fn span(&self, name: &'static str) -> Option<Span> {
        Span::begin(&self.0.spans, self.about(name, Kind::Internal))
    }

    /// A request to another node that begins now; `None` as above.
    #[must_use]
    pub fn request(&self, name: &'static str) -> Option<Span> {
        Span::begin(&self.0.spans, self.about(name, Kind::Client))
    }

    /// A part of this that is over.
    pub fn record(&self, name: &'static str, began: Instant, ended: Instant) {
        let about = self.about(name, Kind::Internal);
        if let Some(mut open) = Open::begin(&self.0.spans, about) {
            open.began = began;
            open.end(ended);
        }
    }

    /// As nodes name it to each other.
    #[must_use]
    pub fn to_forward(&self) -> Forwarded {
        let trace_id = self.0.span.trace_id();
        let half = |id: u128| u64::try_from(id & u128::from(u64::MAX)).unwrap_or_default();
        Forwarded {
            trace_id_high: half(trace_id >> 64),
            trace_id_low: half(trace_id),
            span_id: self.0.span.span_id(),
        }
    }

    fn about(&self, name: &'static str, kind: Kind) -> About {
        About {
            trace_id: self.0.span.trace_id(),
            parent_id: self.0.span.span_id(),
            name,
            kind,
        }
    }
}

impl Span {
    pub(super) fn begin(spans: &Spans, about: About) -> Option<Self> {
        Open::begin(spans, about).map(|open| Self(Box::new(open)))
    }

    /// The span, for others to begin in.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.0.trace
    }

    /// Says whose call it is.
    pub fn of_tenant(&mut self, tenant: &str) {
        head(tenant, TRACE_TEXT_BYTES_MAX).clone_into(&mut self.0.tenant);
    }

    /// It ends with an error of this reason.
    pub fn fails(&mut self, reason: &'static str) {
        self.0.failure = Some(reason);
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        self.0.end(Instant::now());
    }
}

impl Open {
    fn begin(spans: &Spans, about: About) -> Option<Self> {
        let span_id = u64::from_be_bytes(stamp::random().ok()?);
        let span = TraceParent::sampled(about.trace_id, span_id)?;
        let spans = spans.clone();
        Some(Self {
            trace: Trace(Arc::new(Place { spans, span })),
            about,
            began: Instant::now(),
            failure: None,
            tenant: String::new(),
        })
    }

    fn end(&mut self, at: Instant) {
        let (now, now_ns) = (Instant::now(), stamp::wall_ns());
        let wall_ns = |moment: Instant| {
            let ago = now.saturating_duration_since(moment).as_nanos();
            now_ns.saturating_sub(u64::try_from(ago).unwrap_or(u64::MAX))
        };
        let Place { spans, span } = &*self.trace.0;
        spans.end(Ended {
            about: self.about,
            span_id: span.span_id(),
            began_ns: wall_ns(self.began),
            ended_ns: wall_ns(at.max(self.began)),
            failure: self.failure,
            tenant: mem::take(&mut self.tenant),
        });
    }
}
