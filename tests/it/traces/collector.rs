//! A collector of OpenTelemetry, which keeps the spans that nodes send.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Result;
use helve_tests::wait::{Look, until};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
    trace::v1::span::SpanKind,
};
use tokio::{net::TcpListener, task::AbortHandle};
use tonic::{
    Request, Response, Status,
    transport::{Server, server::TcpIncoming},
};

/// A span, as the collector got it. Ids are in hexadecimal digits.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) name: String,
    pub(super) trace_id: String,
    pub(super) id: String,
    pub(super) parent: String,
    pub(super) kind: SpanKind,
    /// Of the node that sent it.
    pub(super) seat: String,
    pub(super) tenant: String,
    /// The reason of the error that it ended with.
    pub(super) reason: String,
}

/// A collector, which keeps what it gets.
#[derive(Debug, Clone, Default)]
struct Kept(Arc<Mutex<Vec<Seen>>>);

pub(super) struct Collector {
    kept: Kept,
    pub(super) address: SocketAddr,
    serving: AbortHandle,
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn text(attributes: &[KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == key);
    let value = found.and_then(|attribute| attribute.value.clone()?.value);
    match value {
        Some(Value::StringValue(text)) => text,
        _ => String::new(),
    }
}

fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}

#[tonic::async_trait]
impl TraceService for Kept {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for of_node in request.into_inner().resource_spans {
            let resource = of_node.resource.unwrap_or_default();
            let seat = text(&resource.attributes, "helve.seat");
            let spans = of_node.scope_spans.into_iter().flat_map(|it| it.spans);
            kept.extend(spans.map(|span| Seen {
                trace_id: hex(&span.trace_id),
                id: hex(&span.span_id),
                parent: hex(&span.parent_span_id),
                kind: span.kind(),
                seat: seat.clone(),
                tenant: text(&span.attributes, "helve.tenant"),
                name: span.name,
                reason: span.status.map(|it| it.message).unwrap_or_default(),
            }));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// On loopback, in plain text.
    pub(super) async fn start() -> Result<Self> {
        Self::serve(Server::builder()).await
    }

    /// On loopback, as this server says.
    pub(super) async fn serve(mut server: Server) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let kept = Kept::default();
        let service = server.add_service(TraceServiceServer::new(kept.clone()));
        let serving = service.serve_with_incoming(TcpIncoming::from(listener));
        Ok(Self {
            kept,
            address,
            serving: tokio::spawn(serving).abort_handle(),
        })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn spans(&self) -> Vec<Seen> {
        let kept = self.kept.0.lock();
        kept.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until this finds something among the spans.
    pub(super) async fn finds<T>(
        &self,
        what: &str,
        find: impl Fn(&[Seen]) -> Option<T>,
    ) -> Result<T> {
        until(what, async || {
            let spans = self.spans();
            find(&spans).map_or_else(|| Look::NotYet(format!("{spans:#?}")), Look::Done)
        })
        .await
    }
}

/// The one that has this name and is a part of that one.
pub(super) fn part<'a>(spans: &'a [Seen], name: &str, parent: &str) -> Option<&'a Seen> {
    let mut parts = spans.iter();
    parts.find(|span| span.name == name && span.parent == parent)
}
