//! MCP servers over streamable HTTP: protocol 2026-07-28, no sessions, so any replica answers any request.

use std::{io, sync::Arc};

use axum::{
    Router,
    middleware::{from_fn, from_fn_with_state},
    routing::get,
};
pub use helve_http::{Bounds, Drain, EndOnDrop, Progress, Shutdown};
use helve_http::{Plain, Port, Style};
use http::{Method, StatusCode, request::Parts};
use rmcp::{
    ServerHandler,
    model::ProtocolVersion,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
    },
};
use tokio::net::TcpListener;

use crate::{
    bearer::Guard,
    browser,
    metrics::{Metrics, count},
    wire::{MESSAGE_BYTES_MAX, charged::Charged, http::shape},
};

use crate::allowed::with_port;

/// The path of the MCP endpoint.
pub const MCP_PATH: &str = "/mcp";
/// The same endpoint as some clients write it. What is further below is no endpoint.
pub(crate) const MCP_PATH_SLASH: &str = "/mcp/";
/// Bytes of a request's body: the 4 MiB that a transaction may hold, however they are escaped, and what frames them. More is
/// answered with 413, unread.
pub const BODY_BYTES_MAX: usize = MESSAGE_BYTES_MAX;

/// The header in which a client names the method (SEP-2243).
const METHOD: &str = "mcp-method";
/// The method whose answer streams for as long as the client listens.
const LISTEN: &str = "subscriptions/listen";

/// Who may call, as far as HTTP headers say.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// `Host` values that are accepted beside `localhost`, `127.0.0.1` and `::1`: a host name, or `host:port`.
    pub hosts: Vec<String>,
    /// `Origin` values that are accepted, as [`allowed::origin`](crate::allowed::origin) makes them: without a port only that of the
    /// scheme is meant (RFC 6454, section 4). A request without `Origin` (not from a browser) passes.
    pub origins: Vec<String>,
    /// What lets in callers with a bearer token alone; without it, callers need none. It comes after what browsers are told
    /// of origins, so that a page can read that its token was refused.
    pub guard: Option<Arc<Guard>>,
    /// What the server counts. Nothing shows it but [`metrics::serve`](crate::metrics::serve).
    pub metrics: Metrics,
}

/// Which protocol versions a server speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Versions {
    /// 2026-07-28, without sessions: serve it through [`router`].
    #[default]
    Modern,
    /// Those before it, too: serve it through [`legacy::router`](crate::legacy::router).
    All,
}

impl Versions {
    pub(crate) fn supported(self) -> &'static [ProtocolVersion] {
        match self {
            Self::Modern => &[ProtocolVersion::V_2026_07_28],
            Self::All => ProtocolVersion::KNOWN_VERSIONS,
        }
    }
}

/// The routes of one replica: `/mcp`; `/livez`, which answers as long as the process serves; and `/readyz`, which answers
/// 503 once `shutdown` has begun. Any other path is 404. Give [`serve`] the same `shutdown`.
///
/// Whether the cluster answers is no part of readiness: an outage is every replica's, and tools say so.
pub fn router<S>(server: S, access: &Access, shutdown: &Shutdown) -> Router
where
    S: ServerHandler + Clone + Send + Sync + 'static,
{
    let config = config(access, shutdown).with_legacy_session_mode(false);
    let service = StreamableHttpService::new(
        move || Ok(Charged(server.clone())),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    finish(
        Router::new()
            .route_service(MCP_PATH, service.clone())
            .route_service(MCP_PATH_SLASH, service)
            .route_layer(from_fn(shape)),
        access,
        shutdown,
    )
}

/// What all servers have in common.
pub(crate) fn config(access: &Access, shutdown: &Shutdown) -> StreamableHttpServerConfig {
    let mut config = StreamableHttpServerConfig::default()
        .with_json_response(true)
        .with_stateless_protocol_metadata_required(true)
        .with_max_request_body_bytes(BODY_BYTES_MAX)
        .with_allowed_origins(access.origins.iter().map(|origin| with_port(origin)))
        .enforce_origin_validation()
        // It breaks off calls, so it must wait until those under way are answered.
        .with_cancellation_token(shutdown.ended());
    config.allowed_hosts.extend(access.hosts.iter().cloned());
    config
}

/// The MCP routes, guarded and open to browsers as `access` says, and the probes.
pub(crate) fn finish(router: Router, access: &Access, shutdown: &Shutdown) -> Router {
    let router = match &access.guard {
        Some(guard) => Arc::clone(guard).cover(router),
        None => router,
    };
    let shutdown = shutdown.clone();
    let ready = move || async move {
        if shutdown.is_begun() {
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "not ready: it is stopping\n",
            )
        } else {
            (StatusCode::OK, "ready\n")
        }
    };
    let router = router
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(ready));
    browser::open_to(&access.origins, router)
        .layer(from_fn_with_state(access.metrics.clone(), count))
}

/// Serves within the default [`Bounds`] until `shutdown` begins, then finishes the requests under way.
///
/// # Errors
/// If the listener fails.
pub async fn serve(listener: TcpListener, router: Router, shutdown: Shutdown) -> io::Result<()> {
    let bounds = Bounds::default().within_open_files();
    serve_within(listener, router, bounds, Drain::default(), shutdown).await
}

/// As [`serve`], within these bounds, and stopping as `drain` says. A body may have [`BODY_BYTES_MAX`] at most.
///
/// # Errors
/// If the listener fails.
pub async fn serve_within(
    listener: TcpListener,
    router: Router,
    bounds: Bounds,
    drain: Drain,
    shutdown: Shutdown,
) -> io::Result<()> {
    serve_counted(listener, router, bounds, drain, shutdown, &Metrics::new()).await
}

/// As [`serve_within`], counting what the listener does. Give it the metrics of the router's [`Access`].
///
/// # Errors
/// If the listener fails.
pub async fn serve_counted(
    listener: TcpListener,
    router: Router,
    bounds: Bounds,
    drain: Drain,
    shutdown: Shutdown,
    metrics: &Metrics,
) -> io::Result<()> {
    let body_bytes = bounds.body_bytes.min(BODY_BYTES_MAX);
    let port = Port {
        bounds: Bounds {
            body_bytes,
            ..bounds
        },
        drain,
        style: Style::JsonRpc,
        is_endless,
        traffic: metrics.traffic().clone(),
        ..Port::new("MCP")
    };
    helve_http::serve(listener, Plain, router, port, shutdown).await
}

/// Whether the answer streams for as long as the client listens. A server that stops waits for all others.
pub(crate) fn is_endless(request: &Parts) -> bool {
    let is_listening = |method: &http::HeaderValue| method.as_bytes() == LISTEN.as_bytes();
    let is_stream = request.method == Method::GET && request.uri.path().starts_with(MCP_PATH);
    is_stream || request.headers.get(METHOD).is_some_and(is_listening)
}

#[cfg(test)]
mod tests;
