//! `helve cart`: a replica of the example MCP server.

use std::{sync::Arc, time::Duration};

use anyhow::anyhow;
use helve_client::Owner;
use helve_mcp::{
    Callers,
    cart::{Authenticated, CartServer, READING_TOOLS, Settings},
    legacy,
    serve::{Access, serve_within},
};

use super::{
    callers::AccessArgs,
    cluster::{self, ClusterArgs},
    duration,
    edge::EdgeArgs,
    ending::{Ending, Outcome},
    logging::{self, LogArgs},
    output::OutputArgs,
    serving::{LegacyArgs, ListenArgs, serve_mcp},
    signals::Signals,
    token::{self, TokenArgs},
};

/// Run a replica of the example MCP server: shopping carts under handles
///
/// Serves MCP (protocol 2026-07-28, streamable HTTP, no sessions) under /mcp, with tools to create, fill, view, check out, abandon
/// and list carts. It keeps nothing in memory: run as many replicas as you like behind any balancer, for older clients as well with
/// --legacy-sessions. /livez answers as long as the process serves, /readyz until it is asked to stop.
///
/// With --token-key-file each caller has carts of their own: a token's subject owns what is made with it, and to anybody else it is as
/// unknown as what never was. Without, all callers are one.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve cart --endpoints 127.0.0.1:7400,127.0.0.1:7410,127.0.0.1:7420 --listen 127.0.0.1:8080
  helve cart --endpoints 127.0.0.1:7400 --idle-ttl 30m --store basket
  helve cart --token-key-file jwks.json --token-audience https://shop.example/mcp --token-issuer https://id.example

Exit status: 0 stopped as asked, 2 refused to start, 4 fatal while running.")]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,

    #[command(flatten)]
    listen: ListenArgs,

    /// The store of the carts' handles. Replicas share it
    #[arg(long, default_value = "cart", env = "HELVE_STORE", value_name = "NAME")]
    store: String,

    /// How long a cart lives without being touched
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
            "--idle-ttl: a cart must live for a while"
        )));
    }
    args.legacy.check().map_err(Ending::Refused)?;
    let access = args.access.access().map_err(Ending::Refused)?;
    let guard = args.token.guard(READING_TOOLS).await;
    let guard = guard.map_err(Ending::Refused)?.map(Arc::new);
    token::read_again_on_hangup(guard.as_ref(), &mut signals);
    let listener = args.listen.bind().await.map_err(Ending::Refused)?;
    let client = cluster::client(&args.cluster)?;
    let mut settings = Settings {
        store: args.store.clone(),
        idle_ttl: args.idle_ttl,
        versions: args.legacy.versions(),
        ..Settings::default()
    };
    let callers = if guard.is_some() {
        settings.owners = Arc::new(Authenticated);
        Callers::Authenticated
    } else {
        Callers::One(Owner::shared())
    };
    let access = Access { guard, ..access };
    let bounds = args.edge.bounds().map_err(Ending::Refused)?;
    let serve = |listener, shutdown| {
        let server = CartServer::new(client.clone(), settings);
        let sessions = args.legacy.sessions(&client, callers);
        let router = legacy::router(server, &access, sessions, &shutdown);
        serve_within(listener, router, bounds, args.edge.drain(), shutdown)
    };
    serve_mcp(listener, signals, &args.output, serve)
        .await
        .map_err(Ending::Fatal)
}
