//! The way of ended spans to the collector: OTLP over gRPC.

use std::{
    mem,
    time::{Duration, UNIX_EPOCH},
};

use opentelemetry::{
    InstrumentationScope, KeyValue,
    trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState},
};
use opentelemetry_otlp::{SpanExporter as OtlpExporter, WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::{
    Resource,
    trace::{SpanData, SpanEvents, SpanExporter, SpanLinks},
};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout, timeout_at},
};
use tonic::transport::Channel;

use super::span::{Ended, Kind};
use crate::{
    limits::{TRACE_BATCH_SPANS_MAX, TRACE_EXPORT_LIMIT, TRACE_LINGER},
    metrics::TraceCounters,
};

/// The exporter cannot be made: a variable of OpenTelemetry in the environment has a value that it does not take.
#[derive(Debug, thiserror::Error)]
#[error(
    "--otlp-endpoint: {0}; correct the variables OTEL_EXPORTER_OTLP_... of the environment, or unset them"
)]
pub struct ExportError(opentelemetry_otlp::ExporterBuildError);

/// The node that its spans name.
#[derive(Debug, Clone, Copy)]
pub struct Node<'a> {
    /// Its seat.
    pub seat: u64,
    /// The incarnation in it.
    pub uuid: &'a str,
}

pub(super) fn exporter(channel: Channel, node: Node<'_>) -> Result<OtlpExporter, ExportError> {
    let builder = OtlpExporter::builder().with_tonic().with_channel(channel);
    let exporter = builder.with_timeout(TRACE_EXPORT_LIMIT).build();
    let mut exporter = exporter.map_err(ExportError)?;
    let attributes = [
        KeyValue::new("service.name", "helve"),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.instance.id", node.uuid.to_owned()),
        KeyValue::new("helve.seat", node.seat.to_string()),
    ];
    let resource = Resource::builder_empty().with_attributes(attributes);
    exporter.set_resource(&resource.build());
    Ok(exporter)
}

/// Sends spans until none can come any more. While the collector does not take them, they are dropped and counted.
pub(super) async fn run(
    exporter: impl SpanExporter,
    mut ended: mpsc::Receiver<Ended>,
    counters: TraceCounters,
) {
    let scope = InstrumentationScope::builder("helve").build();
    let mut batch = Vec::new();
    let mut is_failing = false;
    while gather(&mut ended, &mut batch).await {
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let spans = mem::take(&mut batch).into_iter();
        let spans = spans.map(|ended| span_data(ended, &scope)).collect();
        let error = match timeout(TRACE_EXPORT_LIMIT, exporter.export(spans)).await {
            Ok(Ok(())) => {
                counters.exported.inc_by(count);
                if mem::take(&mut is_failing) {
                    tracing::info!("the collector takes spans again");
                }
                continue;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        counters.dropped.inc_by(count);
        if !mem::replace(&mut is_failing, true) {
            tracing::warn!(%error, "the collector takes no spans, and they are dropped until it does: see --otlp-endpoint");
        }
    }
}

/// Waits for spans, and for a moment for others. False: no more come.
async fn gather(ended: &mut mpsc::Receiver<Ended>, batch: &mut Vec<Ended>) -> bool {
    if ended.recv_many(batch, TRACE_BATCH_SPANS_MAX).await == 0 {
        return false;
    }
    let until = Instant::now() + TRACE_LINGER;
    while batch.len() < TRACE_BATCH_SPANS_MAX {
        let room = TRACE_BATCH_SPANS_MAX - batch.len();
        match timeout_at(until, ended.recv_many(batch, room)).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    true
}

fn span_data(ended: Ended, scope: &InstrumentationScope) -> SpanData {
    let about = ended.about;
    let mut attributes = Vec::new();
    if !ended.tenant.is_empty() {
        attributes.push(KeyValue::new("helve.tenant", ended.tenant));
    }
    let status = match ended.failure {
        Some(reason) => {
            attributes.push(KeyValue::new("error.type", reason));
            Status::error(reason)
        }
        None => Status::Unset,
    };
    SpanData {
        span_context: SpanContext::new(
            TraceId::from(about.trace_id),
            SpanId::from(ended.span_id),
            TraceFlags::SAMPLED,
            false,
            TraceState::NONE,
        ),
        parent_span_id: SpanId::from(about.parent_id),
        parent_span_is_remote: about.kind == Kind::Server && about.parent_id != 0,
        span_kind: match about.kind {
            Kind::Server => SpanKind::Server,
            Kind::Client => SpanKind::Client,
            Kind::Internal => SpanKind::Internal,
        },
        name: about.name.into(),
        start_time: UNIX_EPOCH + Duration::from_nanos(ended.began_ns),
        end_time: UNIX_EPOCH + Duration::from_nanos(ended.ended_ns),
        attributes,
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status,
        instrumentation_scope: scope.clone(),
    }
}
