//! Where the time of a call goes, in spans for a collector of OpenTelemetry. Off unless the node has a collector's address.
//!
//! What is not recorded is `None`: it has no span, takes no memory and reads no clock. A span begins only for a caller that has shown what
//! the node asks for, and no call waits for one: what finds no room to wait for the collector is dropped, and counted.
//!
//! ```text
//! service ── call ──► propose ── queue, append, replicate, apply          (on the leader)
//!                 └─► forward ──► execute ── queue, append, ...           (the leader's, of another node)
//!                 └─► read index, rows
//! ```

mod export;
mod passage;
mod span;

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
};

use helve_proto::{TraceParent, peer::v1::Span as Forwarded};
use tokio::sync::mpsc;
use tonic::{metadata::MetadataMap, transport::Endpoint};

pub use self::{
    export::{ExportError, Node},
    passage::{Entered, Passage},
    span::{Span, Trace},
};
use self::{
    export::{exporter, run},
    span::{About, Ended, Kind, Spans},
};
use crate::{limits::TRACE_SPANS_QUEUED_MAX, metrics::TraceCounters, stamp};

/// Where spans go, and which calls have some beside those whose caller records them.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The collector.
    pub collector: Endpoint,
    /// Of the calls whose callers say nothing of traces, one in this many is recorded; 0: none.
    pub one_in: u64,
}

/// Begins spans, if the node exports them. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Traces(Option<Arc<Recorder>>);

#[derive(Debug)]
struct Recorder {
    spans: Spans,
    one_in: u64,
}

tokio::task_local! {
    static CURRENT: Trace;
}

/// Carries out what a call does, so that [`current`] finds its trace there. It is pinned by its caller: moved here, it would be in
/// memory twice.
pub fn within<F: Future>(
    trace: Option<&Trace>,
    mut future: Pin<&mut F>,
) -> impl Future<Output = F::Output> {
    poll_fn(move |context| match trace {
        Some(trace) => CURRENT.sync_scope(trace.clone(), || future.as_mut().poll(context)),
        None => future.as_mut().poll(context),
    })
}

/// The trace of the call that is carried out here, if it is recorded.
#[must_use]
pub fn current() -> Option<Trace> {
    CURRENT.try_with(Trace::clone).ok()
}

/// The part of the current call's work that begins here, until this is dropped.
#[must_use]
pub fn part(name: &'static str) -> Option<Span> {
    current().and_then(|trace| trace.span(name))
}

impl Traces {
    /// Records for this collector, and what sends spans there: none arrives unless that runs. Call it within a runtime.
    ///
    /// # Errors
    /// If a variable of OpenTelemetry in the environment, such as `OTEL_EXPORTER_OTLP_COMPRESSION`, cannot be used. A malformed
    /// `OTEL_EXPORTER_OTLP_HEADERS` is no error: `opentelemetry-otlp` leaves such headers out.
    pub fn start(
        settings: &Settings,
        node: Node<'_>,
        counters: &TraceCounters,
    ) -> Result<(Self, impl Future<Output = ()> + Send + use<>), ExportError> {
        let exporter = exporter(settings.collector.connect_lazy(), node)?;
        let (traces, ended) = Self::recording(settings.one_in, counters);
        Ok((traces, run(exporter, ended, counters.clone())))
    }

    fn recording(one_in: u64, counters: &TraceCounters) -> (Self, mpsc::Receiver<Ended>) {
        let (queue, ended) = mpsc::channel(TRACE_SPANS_QUEUED_MAX);
        let spans = Spans::new(queue, counters.dropped.clone());
        let recorder = Arc::new(Recorder { spans, one_in });
        (Self(Some(recorder)), ended)
    }

    /// The span in which a caller makes a call, if that matters here and the metadata names one. Of several it is not known which counts,
    /// so none does.
    #[must_use]
    pub fn parent(&self, metadata: &MetadataMap) -> Option<TraceParent> {
        self.0.as_ref()?;
        let mut values = metadata.get_all(TraceParent::NAME).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return None;
        };
        TraceParent::parse(value.to_str().ok()?)
    }

    /// A call that a caller makes in this span. Its caller decides whether it is recorded, and the node does if its caller says nothing.
    #[must_use]
    pub fn call(&self, parent: Option<TraceParent>, name: &'static str) -> Option<Span> {
        let recorder = self.0.as_ref()?;
        let (trace_id, parent_id) = match parent {
            Some(parent) if parent.is_sampled() => (parent.trace_id(), parent.span_id()),
            Some(_) => return None,
            None => (recorder.chosen()?, 0),
        };
        recorder.served(trace_id, parent_id, name)
    }

    /// A command that another node forwards in this span, which it has recorded.
    #[must_use]
    pub fn forwarded(&self, parent: &Forwarded) -> Option<Span> {
        let high = u128::from(parent.trace_id_high) << 64;
        let trace_id = high | u128::from(parent.trace_id_low);
        let parent = TraceParent::sampled(trace_id, parent.span_id)?;
        let recorder = self.0.as_ref()?;
        recorder.served(parent.trace_id(), parent.span_id(), "execute")
    }
}

impl Recorder {
    /// The id of a new trace, if this call is one of those to record.
    fn chosen(&self) -> Option<u128> {
        if self.one_in == 0 {
            return None;
        }
        // Without entropy there is no id, and no trace.
        let id = u128::from_be_bytes(stamp::random().ok()?);
        (id % u128::from(self.one_in) == 0).then_some(id)
    }

    fn served(&self, trace_id: u128, parent_id: u64, name: &'static str) -> Option<Span> {
        let about = About {
            trace_id,
            parent_id,
            name,
            kind: Kind::Server,
        };
        Span::begin(&self.spans, about)
    }
}

#[cfg(test)]
mod tests;
