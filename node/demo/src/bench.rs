//! `helve bench`: load on a cluster that runs, and how it bears it.

mod load;
mod report;

use std::{io::IsTerminal as _, sync::Arc, time::Duration};

use anyhow::anyhow;
use helve_client::Client;
use helve_command::{
    cluster::{self, ClusterArgs, refused_endpoint},
    duration,
    ending::{Ending, Outcome},
    output::{self, OutputArgs},
    signals::Signals,
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::{
    load::{Load, Tally},
    report::Report,
};

/// Callers that one command may run: a machine that made more would measure itself.
const CALLERS_MAX: u64 = 4_096;

/// What callers do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Workload {
    /// Mint a handle
    Mint,
    /// Get one of 1,024 handles
    Get,
    /// Mint a handle, get and put it five times, take it; each call counts
    Cart,
    /// Eight gets to one put and one mint
    Mixed,
}

/// Put load on a running cluster, and measure it
///
/// Callers work side by side through the endpoints in turn. Each call begins after the reply to the
/// one before. With --rate, calls begin at fixed times whether earlier ones have ended or not, and
/// are timed from then. All records are in a store of their own and expire after --ttl. The cluster
/// serves its other callers meanwhile, but slower: do not use this on a cluster that matters
/// without a reason.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve bench --endpoints 127.0.0.1:7400,127.0.0.1:7410,127.0.0.1:7420
  helve bench --workload mixed --callers 256 --for 1m --output json
  helve bench --workload get --rate 2000

Exit status: 0 all calls were answered, 1 some failed, 2 bad usage, 3 none was answered.")]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,

    /// What callers do
    #[arg(
        long,
        value_enum,
        default_value = "mixed",
        env = "HELVE_WORKLOAD",
        value_name = "WORKLOAD"
    )]
    workload: Workload,

    /// Number of callers that work at the same time
    #[arg(long, default_value_t = 64, env = "HELVE_CALLERS", value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=CALLERS_MAX))]
    callers: u64,

    /// Time to measure; a signal ends it earlier
    #[arg(long = "for", default_value = "10s", value_parser = duration::parse, env = "HELVE_FOR", value_name = "DURATION")]
    time: Duration,

    /// Calls a second, begun at fixed times to the millisecond; without it, as many as the callers
    /// can make
    #[arg(long, env = "HELVE_RATE", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: Option<u32>,

    /// Bytes of each value
    #[arg(long, default_value_t = 256, env = "HELVE_VALUE_BYTES", value_name = "BYTES",
        value_parser = clap::value_parser!(u64).range(2..=1 << 20))]
    value_bytes: u64,

    /// Store to write to
    #[arg(
        long,
        default_value = "bench",
        env = "HELVE_STORE",
        value_name = "NAME"
    )]
    store: String,

    /// Lifetime of the records
    #[arg(long, default_value = "10m", value_parser = duration::parse, env = "HELVE_TTL", value_name = "DURATION")]
    ttl: Duration,

    /// Send each call by itself, as clients in other languages do, instead of in batches over streams
    #[arg(long, env = "HELVE_UNARY")]
    unary: bool,

    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the load; the outcome is whether all was answered.
///
/// # Errors
/// See [`Ending`].
pub(crate) async fn run(args: &Args) -> Outcome {
    if args.time.is_zero() {
        let why = "--for: nothing can be measured in no time: give more, such as 10s";
        return Err(Ending::Refused(anyhow!(why)));
    }
    let mut signals = Signals::to_stop().map_err(|error| Ending::Fatal(error.into()))?;
    cluster::check_one_cluster(&args.cluster).await?;
    let load = Load::new(args, clients(args)?);
    let prepared = tokio::select! {
        prepared = load.prepare() => prepared.map_err(cluster::failed)?,
        signal = signals.recv() => {
            return Err(Ending::Fatal(anyhow!("{signal} came before anything was measured")));
        }
    };
    let tally = Arc::<Tally>::default();
    let begun = Instant::now();
    tokio::select! {
        () = load.run(&prepared, &tally, begun + args.time) => {}
        _ = signals.recv() => {}
        () = watch(args, &tally, begun) => {}
    }
    let report = Report::of(args, &tally.all(), begun.elapsed());
    args.output.print(&report, Report::page)?;
    report.verdict()
}

/// A client for each endpoint alone, so that each bears its share.
fn clients(args: &Args) -> Result<Vec<Client>, Ending> {
    let client = |endpoint: &String| {
        let builder = args.cluster.builder(std::slice::from_ref(endpoint));
        let builder = builder.map_err(Ending::Refused)?;
        let builder = if args.unary { builder.unary() } else { builder };
        builder.build().map_err(|error| refused_endpoint(&error))
    };
    args.cluster.endpoints.iter().map(client).collect()
}

/// Shows progress every second: a bar on a terminal, a line elsewhere. Never ends.
async fn watch(args: &Args, tally: &Tally, begun: Instant) {
    let looked_at = std::io::stderr().is_terminal();
    let bar = ProgressBar::with_draw_target(
        Some(args.time.as_secs().max(1)),
        if looked_at {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        },
    );
    let style = ProgressStyle::with_template("{bar:30} {elapsed_precise} {msg}");
    bar.set_style(style.expect("the template is well formed"));
    let mut seconds = interval(Duration::from_secs(1));
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    seconds.tick().await;
    let mut last = begun;
    loop {
        seconds.tick().await;
        let now = Instant::now();
        let line = report::line(&tally.take_recent(), now - last);
        last = now;
        bar.set_position(begun.elapsed().as_secs());
        bar.set_message(line.clone());
        if !looked_at {
            output::say(format_args!("{line}"));
        }
    }
}
