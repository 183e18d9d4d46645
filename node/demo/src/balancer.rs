//! `helve balancer`: round robin over replicas of an MCP server.

use helve_command::{
    address,
    ending::{Ending, Outcome},
    logging::{self, LogArgs},
    mcp_server::{
        edge::EdgeArgs,
        serving::{ListenArgs, serve_mcp},
    },
    output::OutputArgs,
    signals::Signals,
};
use helve_mcp::{balancer, metrics::Metrics};

/// Run a round-robin balancer in front of replicas of an MCP server
///
/// Sends each request to the next replica, on a connection of its own. A replica that cannot be
/// reached is skipped. If a replica fails during a request, the answer is 502, and 504 if it does
/// not answer within two minutes: it may have acted, and only the caller can repeat the call safely.
/// For trials only: it supports neither TLS nor health checks.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve balancer --to 127.0.0.1:8081,127.0.0.1:8082
  helve balancer --listen 127.0.0.1:9000 --to cart-1:8080,cart-2:8080

Exit status: 0 stopped by a signal, 2 refused to start, 4 fatal while running.")]
pub struct Args {
    #[command(flatten)]
    listen: ListenArgs,

    /// Replicas, as HOST:PORT,HOST:PORT,...; names are resolved for each request
    #[arg(
        long,
        required = true,
        value_delimiter = ',',
        value_parser = address::parse,
        env = "HELVE_TO",
        value_name = "HOST:PORT,..."
    )]
    to: Vec<String>,

    #[command(flatten)]
    edge: EdgeArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    log: LogArgs,
}

/// Balances until SIGTERM, SIGINT or a fatal error.
///
/// # Errors
/// See [`Ending`].
pub(crate) async fn run(args: &Args) -> Outcome {
    let logging = logging::start(&args.log).map_err(Ending::Refused)?;
    let signals = Signals::listen(&logging).map_err(|error| Ending::Fatal(error.into()))?;
    let listener = args.listen.bind().await.map_err(Ending::Refused)?;
    let bounds = args.edge.bounds().map_err(Ending::Refused)?;
    let drain = args.edge.drain();
    let metrics = Metrics::new();
    let scraped = args.edge.metrics().bind(&metrics).await;
    let scraped = scraped.map_err(Ending::Refused)?;
    let serve = |listener, shutdown| {
        let replicas = args.to.clone();
        async move {
            balancer::serve_counted(listener, replicas, bounds, drain, shutdown, &metrics).await
        }
    };
    serve_mcp(listener, signals, &args.output, scraped, serve)
        .await
        .map_err(Ending::Fatal)
}
