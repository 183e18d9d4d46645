//! `helve cart`: a replica of the example MCP server.

use std::{sync::Arc, time::Duration};

use anyhow::anyhow;
use helve_client::Owner;
use helve_command::{
    cluster::{self, ClusterArgs},
    duration,
    ending::{Ending, Outcome},
    logging::{self, LogArgs},
    mcp_server::{
        callers::AccessArgs,
        edge::EdgeArgs,
        serving::{LegacyArgs, ListenArgs, serve_mcp},
        token::{self, TokenArgs},
    },
    output::OutputArgs,
    signals::Signals,
};
use helve_mcp::{
    Callers,
    cart::{CartServer, READING_TOOLS, Settings},
    legacy,
    serve::{Access, serve_counted},
};

/// Run a replica of the example MCP server: shopping carts under handles
///
/// Serves MCP (protocol 2026-07-28, streamable HTTP, no sessions) under /mcp, with tools to create,
/// fill, view, check out, abandon and list carts. It keeps nothing in memory: run any number of
/// replicas behind any balancer. --legacy-sessions serves older clients too. /livez answers as long
/// as the process serves, /readyz until it is told to stop.
///
/// With --token-key-file each caller has carts of their own: a token's subject owns the carts made
/// with it, and to other callers they are unknown. Without it, all callers share all carts.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve cart --endpoints 127.0.0.1:7400,127.0.0.1:7410,127.0.0.1:7420 --listen 127.0.0.1:8080
  helve cart --endpoints 127.0.0.1:7400 --idle-ttl 30m --store basket
  helve cart --token-key-file jwks.json --token-audience https://shop.example/mcp --token-issuer https://id.example

Exit status: 0 stopped by a signal, 2 refused to start, 4 fatal while running.")]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,

    #[command(flatten)]
    listen: ListenArgs,

    /// Store of the carts' handles, which replicas share
    #[arg(long, default_value = "cart", env = "HELVE_STORE", value_name = "NAME")]
    store: String,

    /// Time that a cart lives without being used
    #[arg(long, default_value = "24h", value_parser = duration::parse, env = "HELVE_IDLE_TTL", value_name = "DURATION")]
    idle_ttl: Duration,

    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    legacy: LegacyArgs,
    #[command(flatten)]
    token: TokenArgs,
    #[command(flatten)]
    edge: EdgeArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    log: LogArgs,
}

/// Serves until SIGTERM, SIGINT or a fatal error.
///
/// # Errors
/// See [`Ending`].
pub(crate) async fn run(args: &Args) -> Outcome {
    let logging = logging::start(&args.log).map_err(Ending::Refused)?;
    let mut signals = Signals::listen(&logging).map_err(|error| Ending::Fatal(error.into()))?;
    if args.idle_ttl.is_zero() {
        return Err(Ending::Refused(anyhow!(
            "--idle-ttl: must be more than zero"
        )));
    }
    args.legacy.check().map_err(Ending::Refused)?;
    let access = args.access.access().map_err(Ending::Refused)?;
    let reading_keys = args.token.guard(READING_TOOLS);
    let Some(guard) = signals.unless_stopped(reading_keys).await else {
        return Ok(());
    };
    let guard = guard.map_err(Ending::Refused)?.map(Arc::new);
    token::read_again_on_hangup(guard.as_ref(), &mut signals);
    let listener = args.listen.bind().await.map_err(Ending::Refused)?;
    let client = cluster::serving_client(&args.cluster, &mut signals).await?;
    let (settings, callers) = if guard.is_some() {
        (Settings::default(), Callers::Authenticated)
    } else {
        (Settings::shared(), Callers::One(Owner::shared()))
    };
    let settings = Settings {
        store: args.store.clone(),
        idle_ttl: args.idle_ttl,
        versions: args.legacy.versions(),
        ..settings
    };
    let access = Access { guard, ..access };
    let bounds = args.edge.bounds().map_err(Ending::Refused)?;
    let metrics = access.metrics.clone();
    let scraped = args.edge.metrics().bind(&metrics).await;
    let scraped = scraped.map_err(Ending::Refused)?;
    let serve = |listener, shutdown| {
        let server = CartServer::new(client.clone(), settings);
        let sessions = args.legacy.sessions(&client, callers);
        let router = legacy::router(server, &access, sessions, &shutdown);
        let drain = args.edge.drain();
        async move { serve_counted(listener, router, bounds, drain, shutdown, &metrics).await }
    };
    serve_mcp(listener, signals, &args.output, scraped, serve)
        .await
        .map_err(Ending::Fatal)
}
