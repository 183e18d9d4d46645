//! `helve flows`: cart flows against a server that others run and break, and a verdict that rests on a ledger the clients
//! wrote and on what each node then holds.

mod clients;
mod reading;
mod report;

use std::time::{Duration, Instant};

use anyhow::anyhow;
use helve_command::{
    cluster::{self, ClusterArgs},
    duration,
    ending::{Ending, Outcome},
    logging::{self, LogArgs},
    output::OutputArgs,
    signals::{Signals, StopSignal},
};
use helve_mcp::flow::Held;

use self::{
    clients::{Clients, Load},
    report::Report,
};

/// How often it says how far it is.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// Run cart flows until stopped, and report whether anything was lost or applied twice
///
/// Runs flows at a cart server, or a balancer in front of several, as MCP clients do: fill a cart,
/// check it out. Kill, pause or cut off nodes and servers meanwhile. On SIGTERM, SIGINT or after
/// --for it lets its flows end, reads carts and orders back from every endpoint, and compares them
/// with a ledger of every reply. Carts that existed before are left out. No other client may fill
/// carts of the store meanwhile.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve flows --url http://127.0.0.1:8080/mcp --endpoints 127.0.0.1:7400,127.0.0.1:7410,127.0.0.1:7420
  helve flows --for 1m --clients 8 --output json

Exit status: 0 nothing was lost or applied twice, 1 something was, 2 bad usage, 3 a node could not be read from, or no order
was acknowledged, so that nothing is shown, 4 there is no verdict. Flows that gave up because nothing answered are counted, and
are not losses.")]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,

    /// URL of the MCP server
    #[arg(
        long,
        default_value = "http://127.0.0.1:8080/mcp",
        value_parser = server_url,
        env = "HELVE_URL",
        value_name = "URL"
    )]
    url: String,

    /// Store in which the cart server keeps its carts
    #[arg(long, default_value = "cart", env = "HELVE_STORE", value_name = "NAME")]
    store: String,

    /// Time to run; without it, until a signal
    #[arg(long = "for", value_parser = duration::parse, env = "HELVE_FOR", value_name = "DURATION")]
    time: Option<Duration>,

    /// Largest number of flows: the ledger of all of them is kept in memory
    #[arg(long, default_value_t = 100_000, env = "HELVE_FLOWS", value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=100_000))]
    flows: u64,

    /// Number of flows that run at the same time
    #[arg(long, default_value_t = 4, env = "HELVE_CLIENTS", value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=256))]
    clients: u64,

    /// Pause of each client between two flows
    #[arg(long, default_value = "0ms", value_parser = duration::parse, env = "HELVE_PAUSE", value_name = "DURATION")]
    pause: Duration,

    /// Time that a client repeats a call before it gives its flow up
    #[arg(long, default_value = "30s", value_parser = duration::parse, env = "HELVE_PATIENCE", value_name = "DURATION")]
    patience: Duration,

    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    log: LogArgs,
}

/// The address of an MCP server: with another one, each client would try until its patience ends.
fn server_url(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("http://");
    let rest = rest.or_else(|| text.strip_prefix("https://"));
    match rest {
        Some(rest) if !rest.is_empty() && !rest.starts_with(['/', ':']) => Ok(text.to_owned()),
        _ => Err("give the URL of an MCP server, such as http://127.0.0.1:8080/mcp".to_owned()),
    }
}

/// Runs the flows; the outcome is the verdict.
///
/// # Errors
/// See [`Ending`].
pub(crate) async fn run(args: &Args) -> Outcome {
    logging::start(&args.log).map_err(Ending::Refused)?;
    let mut signals = Signals::to_stop().map_err(|error| Ending::Fatal(error.into()))?;
    let client = cluster::writing_client(&args.cluster).await?;
    let before = tokio::select! {
        held = Held::read(&client, &args.store) => held.map_err(cluster::failed)?.ids(),
        signal = signals.recv() => return Err(no_verdict(signal)),
    };
    let started = Instant::now();
    let clients = Clients::start(&Load {
        url: &args.url,
        flows: args.flows,
        clients: args.clients,
        pause: args.pause,
        patience: args.patience,
    })?;
    watch(args, &clients, &mut signals).await;
    let judged = async {
        let told = clients.finish().await.map_err(Ending::Fatal)?;
        let judged =
            reading::judge_all(&args.cluster, &args.store, &told.accounts, &before).await?;
        Ok::<_, Ending>(Report::of(&told, judged, started.elapsed()))
    };
    let report = tokio::select! {
        report = judged => report?,
        // Who asks twice wants it now.
        signal = signals.recv() => return Err(no_verdict(signal)),
    };
    args.output.print(&report, Report::page)?;
    report.verdict()
}

/// Returns once it is time to stop: after a signal, after `--for`, or when all flows were run.
async fn watch(args: &Args, clients: &Clients, signals: &mut Signals) {
    let over = async {
        match args.time {
            Some(time) => tokio::time::sleep(time).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(over);
    let mut progress = tokio::time::interval(PROGRESS_EVERY);
    progress.tick().await;
    loop {
        tokio::select! {
            () = &mut over => tracing::info!("the time is over"),
            () = clients.all_run() => tracing::info!("all flows were run"),
            signal = signals.recv() => tracing::info!(%signal, "stopping"),
            _ = progress.tick() => {
                let (flows, retries) = clients.counts();
                tracing::info!(flows, retries, "flows so far, and calls made again");
                continue;
            }
        }
        return;
    }
}

fn no_verdict(signal: StopSignal) -> Ending {
    Ending::Fatal(anyhow!("{signal} came first, so there is no verdict"))
}

#[cfg(test)]
mod tests {
    use super::server_url;

    #[test]
    fn url_of_a_server_has_a_scheme_of_http_and_a_host() {
        for good in [
            "http://127.0.0.1:8080/mcp",
            "https://cart.example",
            "http://[::1]:1/mcp",
        ] {
            assert_eq!(server_url(good).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "127.0.0.1:8080",
            "ftp://x/mcp",
            "http://",
            "http:///mcp",
            "http://:80",
        ] {
            let why = server_url(bad).unwrap_err();
            assert!(why.contains("give the URL"), "{why}");
        }
    }
}
