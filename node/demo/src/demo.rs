//! `helve demo`: three nodes and two MCP cart servers behind a balancer, cart flows through them, a killed leader and a killed
//! cart server in the middle, and a verdict that rests on a ledger the clients wrote and on what each node then holds.

mod child;
mod faults;
mod flows;
mod frames;
mod invite;
mod kept;
mod nodes;
mod processes;
mod proxy;
mod replicas;
mod report;
mod secrets;
mod stage;
mod tickets;
mod verdict;

use std::{
    ffi::OsString,
    fs::Permissions,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow};
use helve_command::{
    ending::{Ending, Outcome},
    logging::{self, LogArgs, LogFormat},
    output::{self, OutputArgs},
    signals::Signals,
};
use indicatif::{ProgressBar, ProgressStyle};

use self::{
    flows::{Flows, Gates},
    invite::invite,
    kept::Kept,
    report::{Report, ReportInput},
    secrets::Holder,
    stage::{NODES, REPLICAS, Stage},
    tickets::{Bookkeeping, Probe},
};

/// Show that nothing is lost: three nodes, two MCP cart servers, a killed leader
///
/// Starts three nodes and two MCP cart servers behind a balancer, all on loopback and under a
/// temporary directory. The nodes use TLS, require tokens, seal values at rest and keep audit logs,
/// with secrets that are made for this run. Runs cart flows as an MCP client does, each call to
/// another cart server. While carts are open, kills the leader and a cart server with SIGKILL, and
/// restarts both. Then compares a ledger of every reply with the carts and orders that each node
/// holds.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve demo
  helve demo --flows 2000 --output json
  helve demo --keep

Exit status: 0 nothing was lost or applied twice, 1 something was, or a flow could not finish, 4 the demo could not run.
Unless it is 0, logs, ledger and data are kept, and the demo says where.")]
pub struct Args {
    /// Number of cart flows
    #[arg(long, default_value_t = 200, env = "HELVE_FLOWS", value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=100_000))]
    flows: u64,

    /// Leave everything running afterwards until Ctrl-C, and print commands to try
    #[arg(long, env = "HELVE_KEEP")]
    keep: bool,

    #[command(flatten)]
    output: OutputArgs,

    /// Events to log to standard error, as tracing directives; the nodes' and cart servers' logs
    /// are files
    #[arg(
        long,
        help_heading = "Logs",
        default_value = "warn",
        env = "HELVE_LOG",
        value_name = "DIRECTIVES"
    )]
    log: String,

    /// The command that a process of the demo becomes: see `child`
    #[arg(last = true, hide = true)]
    child: Vec<OsString>,
}

/// Runs the demo; the outcome is its verdict.
///
/// # Errors
/// See [`Ending`].
pub(crate) async fn run(args: &Args) -> Outcome {
    if !args.child.is_empty() {
        let Err(error) = child::run(&args.child);
        return Err(Ending::Fatal(error));
    }
    let log = LogArgs {
        log_format: LogFormat::Text,
        log: args.log.clone(),
    };
    logging::start(&log).map_err(Ending::Refused)?;
    // Before there is anything to clear away.
    let signals = Signals::to_stop();
    let mut signals = signals.map_err(|error| Ending::Fatal(error.into()))?;
    let dir = tempfile::Builder::new()
        .prefix("helve-demo-")
        // It holds secrets, and logs of who called what.
        .permissions(Permissions::from_mode(0o700))
        .tempdir();
    let dir = dir.map_err(|error| Ending::Fatal(error.into()))?;
    let mut stage = None;
    let verdict = tokio::select! {
        _ = signals.recv() => Err(Ending::Fatal(anyhow!("interrupted, so there is no verdict"))),
        shown = show(args, dir.path(), &mut stage) => shown,
    };
    if let (Some(stage), true, Ok(()) | Err(Ending::Absent(_))) = (&stage, args.keep, &verdict) {
        invite(stage, dir.path());
        signals.recv().await;
    }
    if let Some(stage) = stage {
        stage.stop().await.map_err(Ending::Fatal)?;
    }
    if verdict.is_err() {
        output::say(format_args!(
            "logs, ledger and data are kept in {}",
            dir.keep().display()
        ));
    }
    verdict
}

async fn show(args: &Args, dir: &Path, stage: &mut Option<Stage>) -> Outcome {
    let report = demonstrate(args.flows, dir, stage)
        .await
        .map_err(Ending::Fatal)?;
    args.output.print(&report, Report::page)?;
    report.verdict()
}

async fn demonstrate(
    flow_count: u64,
    dir: &Path,
    stage: &mut Option<Stage>,
) -> anyhow::Result<Report> {
    let started = Instant::now();
    let progress = progress(flow_count);
    let say = |what: String| {
        let seconds = started.elapsed().as_secs_f64();
        progress.suspend(|| output::say(format_args!("{seconds:5.1}s  {what}")));
    };
    say(format!(
        "starting {NODES} nodes and {REPLICAS} cart servers; logs in {}",
        dir.display()
    ));
    let Stage {
        secrets,
        nodes,
        replicas,
    } = stage.insert(Stage::set(dir).await?);
    say(
        "TLS to clients and between nodes, tokens, sealing at rest and audit logs are on"
            .to_owned(),
    );
    say(format!(
        "ready; running {flow_count} flows through {}",
        replicas.uri
    ));

    let gates = Gates::default();
    let endpoints = nodes.endpoints();
    let bookkeeping = Bookkeeping::start(nodes, secrets, &gates).await?;
    let ledger_file = dir.join("ledger.jsonl");
    let flows = Flows::start(flow_count, &replicas.uri, &gates, &ledger_file, &progress)?;
    let probe = Probe::open(&secrets.cluster(Holder::Writer, &endpoints))?;
    let faults = faults::strike(nodes, replicas, &gates, flow_count, &probe, say).await?;
    let (ledger, mcp_retries) = flows.finish().await?;
    let books = bookkeeping.finish().await?;
    say("all flows have ended; comparing the ledger with every node".to_owned());

    let accounts = ledger
        .accounts()
        .context("the ledger could not be written")?;
    let reader = secrets.cluster(Holder::Reader, &endpoints);
    let findings = verdict::judge_all(&reader, &accounts, &books).await?;
    let kept = Kept::by(nodes, &secrets.cluster(Holder::Operator, &endpoints)).await?;
    progress.finish_and_clear();
    let told = ReportInput {
        accounts: &accounts,
        books: &books,
        findings: &findings,
        kept: &kept,
    };
    Ok(Report::of(told, faults, mcp_retries, started.elapsed()))
}

/// On a terminal: a bar of the flows. Elsewhere: nothing.
fn progress(flows: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} flows  {elapsed}")
        .expect("the template is well-formed");
    let progress = ProgressBar::new(flows).with_style(style);
    progress.enable_steady_tick(Duration::from_millis(100));
    progress
}
