//! MCP servers over streamable HTTP: protocol 2026-07-28, no sessions, so any replica answers any request.

use std::{io, sync::Arc};

use axum::{Router, routing::get};
use rmcp::{
    ServerHandler,
    model::ProtocolVersion,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
    },
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// The path of the MCP endpoint.
pub const MCP_PATH: &str = "/mcp";
/// Bytes of a request's body: the 4 MiB that a transaction may hold, and what frames them. More is answered with 413, unread.
pub const BODY_BYTES_MAX: usize = 6 << 20;

/// Who may call, as far as HTTP headers say.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// `Host` values that are accepted beside `localhost`, `127.0.0.1` and `::1`: a host name, or `host:port`.
    pub hosts: Vec<String>,
    /// `Origin` values that are accepted, with their scheme. A request without `Origin` (not from a browser) passes.
    pub origins: Vec<String>,
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

/// The routes of one replica: `/mcp`, and `/livez`, which answers as long as the process serves.
pub fn router<S>(server: S, access: &Access, shutdown: &CancellationToken) -> Router
where
    S: ServerHandler + Clone + Send + Sync + 'static,
{
    let config = config(access, shutdown).with_legacy_session_mode(false);
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    with_probe(Router::new().nest_service(MCP_PATH, service))
}

/// What all servers have in common.
pub(crate) fn config(access: &Access, shutdown: &CancellationToken) -> StreamableHttpServerConfig {
    let mut config = StreamableHttpServerConfig::default()
        .with_json_response(true)
        .with_stateless_protocol_metadata_required(true)
        .with_max_request_body_bytes(BODY_BYTES_MAX)
        .with_allowed_origins(access.origins.iter().cloned())
        .enforce_origin_validation()
        .with_cancellation_token(shutdown.child_token());
    config.allowed_hosts.extend(access.hosts.iter().cloned());
    config
}

pub(crate) fn with_probe(router: Router) -> Router {
    router.route("/livez", get(|| async { "ok\n" }))
}

/// Serves until `shutdown` is cancelled, then finishes the requests under way.
///
/// # Errors
/// If the listener fails.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: CancellationToken,
) -> io::Result<()> {
    axum::serve(listener, router)
        .with_graceful_shutdown(shutdown.cancelled_owned())
        .await
}
