//! A server with the tools, prompts and resources that MCP's conformance suite asks for (protocol 2026-07-28).
//!
//! It is stateless: `requestState` goes through the boundary with the key ring of a cluster, and what must reach other replicas
//! goes through the cluster's keys. So any number of replicas behind any balancer are one server.
//!
//! ```console
//! $ PORT=8001 HELVE_ENDPOINTS=127.0.0.1:7400,127.0.0.1:7410 HELVE_KEY_FILE=operator.key cargo run --example conformance_server
//! ```
//!
//! `HELVE_KEY_RING` names another ring than `conformance`; the first replica makes the ring's first key. Without `HELVE_ENDPOINTS`
//! everything is kept in memory, for a single replica, and without `HELVE_KEY_FILE` the ring is sealed under a key of this process,
//! for a single start. It serves `/mcp` on loopback until SIGTERM.

mod changes;
mod content;
mod input;
mod prompts;
mod resources;
mod server;
mod tasks;
mod tools;

use std::{env, io, sync::Arc};

use axum::{Router, middleware::from_fn_with_state};
use helve_client::{Client, ClusterBuilder, Error, MemoryBuilder};
use helve_mcp::{
    boundary::Boundary,
    serve::{MCP_PATH, Shutdown, serve},
    tasks::{Tasks, task_filter},
};
use helve_request_state::state_codec::{
    ClusterKeys, HardenedCodec, KeyRing, OperatorKey, StateCodec,
};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

use crate::{changes::Changes, server::ConformanceServer};

/// The port, if the environment names none.
const PORT: u16 = 8001;
/// The key ring, if the environment names none.
const KEY_RING: &str = "conformance";
/// What states are sealed for: all replicas have it, and no other server has.
const AUDIENCE: &str = "helve-conformance";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = match env::var("PORT") {
        Ok(port) => port.parse()?,
        Err(_) => PORT,
    };
    let client = client()?;
    let shutdown = Shutdown::new();
    let changes = Changes::follow(&client, shutdown.ended());
    let tasks = tasks::start(&client, shutdown.ended());
    let server = Boundary::new(
        ConformanceServer::new(changes, tasks.clone()),
        codec(&client).await?,
        AUDIENCE,
    );
    let router = router(server, tasks.clone(), &shutdown);
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("MCP on http://{}{MCP_PATH}", listener.local_addr()?);
    let serving = serve(listener, router, shutdown.clone());
    tokio::pin!(serving);
    let ended = tokio::select! {
        ended = &mut serving => ended,
        stopped = stopped() => {
            shutdown.begin();
            serving.await.and(stopped)
        }
    };
    shutdown.end();
    tasks.stopped().await;
    Ok(ended?)
}

fn client() -> Result<Client, Error> {
    match env::var("HELVE_ENDPOINTS") {
        Ok(endpoints) => ClusterBuilder::new(endpoints.split(',').map(str::trim)).build(),
        Err(_) => MemoryBuilder::new().build(),
    }
}

/// Seals states under the keys of a ring that all replicas share.
async fn codec(client: &Client) -> Result<Arc<dyn StateCodec>, Error> {
    let operator = match env::var_os("HELVE_KEY_FILE") {
        Some(file) => OperatorKey::read(file.as_ref())?,
        None => OperatorKey::ephemeral()?,
    };
    let name = env::var("HELVE_KEY_RING").unwrap_or_else(|_| KEY_RING.to_owned());
    let ring = KeyRing::new(client, &name, &operator)?;
    if ring.list().await?.is_empty() {
        ring.add().await?;
    }
    Ok(Arc::new(HardenedCodec::new(ClusterKeys::open(ring).await?)))
}

fn router(server: Boundary<ConformanceServer>, tasks: Tasks, shutdown: &Shutdown) -> Router {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_stateless_protocol_metadata_required(true)
        .with_allowed_origins(["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"])
        .enforce_origin_validation()
        .with_cancellation_token(shutdown.ended());
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    Router::new()
        .nest_service(MCP_PATH, service)
        .layer(from_fn_with_state(tasks, task_filter))
}

async fn stopped() -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        interrupted = tokio::signal::ctrl_c() => interrupted,
    }
}
