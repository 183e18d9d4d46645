//! `helve cart`: a replica of the example MCP server.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use helve_mcp::{
    cart::{CartServer, Settings},
    serve::{Access, MCP_PATH, router, serve},
};
use serde::Serialize;
use tokio::{
    net::{TcpListener, lookup_host},
    signal::unix::{SignalKind, signal},
};
use tokio_util::sync::CancellationToken;

use super::{
    cluster::{self, ClusterArgs},
    duration,
    ending::{Ending, Outcome},
    logging::{self, LogArgs},
    output::OutputArgs,
};

/// How long requests under way may take once the server is asked to stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Run a replica of the example MCP server: shopping carts under handles
///
/// Serves MCP (protocol 2026-07-28, streamable HTTP, no sessions) under /mcp, with tools to create, fill, view, check out, abandon
/// and list carts. It keeps nothing in memory: run as many replicas as you like behind any balancer. /livez answers as long as
/// the process serves.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve cart --endpoints 127.0.0.1:7400,127.0.0.1:7410,127.0.0.1:7420 --listen 127.0.0.1:8080
  helve cart --endpoints 127.0.0.1:7400 --idle-ttl 30m --store basket

Exit status: 0 stopped as asked, 2 refused to start, 4 fatal while running.")]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,

    /// Where MCP clients are served; port 0 takes a free one, and the address is printed
    #[arg(
        long,
        default_value = "127.0.0.1:8080",
        env = "HELVE_LISTEN",
        value_name = "HOST:PORT"
    )]
    listen: String,

    /// The store of the carts' handles. Replicas share it
    #[arg(long, default_value = "cart", env = "HELVE_STORE", value_name = "NAME")]
    store: String,

    /// How long a cart lives without being touched
    #[arg(long, default_value = "24h", value_parser = duration::parse, env = "HELVE_IDLE_TTL", value_name = "DURATION")]
    idle_ttl: Duration,

    /// A Host header to accept beside those of this machine; may be repeated
    #[arg(
        long,
        value_delimiter = ',',
        env = "HELVE_ALLOWED_HOST",
        value_name = "HOST"
    )]
    allowed_host: Vec<String>,

    /// An Origin header to accept, with its scheme; may be repeated. Without one, browsers are refused
    #[arg(
        long,
        value_delimiter = ',',
        env = "HELVE_ALLOWED_ORIGIN",
        value_name = "ORIGIN"
    )]
    allowed_origin: Vec<String>,

    /// Allow a listener beyond this machine: whoever reaches it sees all carts
    #[arg(long, env = "HELVE_INSECURE")]
    insecure: bool,

    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    log: LogArgs,
}

/// Where the server is.
#[derive(Serialize)]
struct Serving {
    /// The URL for MCP clients.
    mcp: String,
}

/// Serves until SIGTERM, SIGINT or a fatal error.
///
/// # Errors
/// See [`Ending`].
pub(crate) async fn run(args: &Args) -> Outcome {
    logging::start(&args.log).map_err(Ending::Refused)?;
    if args.idle_ttl.is_zero() {
        return Err(Ending::Refused(anyhow!(
            "--idle-ttl: a cart must live for a while"
        )));
    }
    let listener = listen(args).await.map_err(Ending::Refused)?;
    let client = cluster::client(&args.cluster)?;
    let settings = Settings {
        store: args.store.clone(),
        idle_ttl: args.idle_ttl,
        ..Settings::default()
    };
    let access = Access {
        hosts: args.allowed_host.clone(),
        origins: args.allowed_origin.clone(),
    };
    let shutdown = CancellationToken::new();
    let router = router(CartServer::new(client, settings), &access, &shutdown);
    serve_until_stopped(listener, router, shutdown, &args.output)
        .await
        .map_err(Ending::Fatal)
}

async fn listen(args: &Args) -> anyhow::Result<TcpListener> {
    let flag = || format!("--listen {}", args.listen);
    let addresses: Vec<_> = lookup_host(&args.listen)
        .await
        .with_context(flag)?
        .collect();
    if !args.insecure && addresses.iter().any(|address| !address.ip().is_loopback()) {
        return Err(
            anyhow!("beyond this machine: bind 127.0.0.1, or add --insecure").context(flag()),
        );
    }
    TcpListener::bind(addresses.as_slice())
        .await
        .with_context(flag)
}

async fn serve_until_stopped(
    listener: TcpListener,
    router: axum::Router,
    shutdown: CancellationToken,
    output: &OutputArgs,
) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let serving = Serving {
        mcp: format!("http://{}{MCP_PATH}", listener.local_addr()?),
    };
    output.announce(&serving, |serving| format!("MCP on {}", serving.mcp))?;
    let serving = serve(listener, router, shutdown.clone());
    tokio::pin!(serving);
    tokio::select! {
        ended = &mut serving => return Ok(ended?),
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminate.recv() => {}
    }
    tracing::info!("stopping");
    shutdown.cancel();
    match tokio::time::timeout(DRAIN_TIMEOUT, serving).await {
        Ok(ended) => Ok(ended?),
        Err(_) => {
            tracing::warn!("requests are still under way; stopping all the same");
            Ok(())
        }
    }
}
