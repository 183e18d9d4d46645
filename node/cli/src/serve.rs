//! `helve serve`: one node of a cluster.

mod running;
pub(crate) mod tls;
mod traces;

use std::path::PathBuf;

use helve_command::{
    ending::{Ending, Outcome},
    logging::{self, LogArgs},
    signals::Signals,
};
use helve_node::{
    bounds::{Bounds, Setting},
    config::{AuthSetting, Bootstrap, Config, ConsensusSettings, Exposure, Settings, Tuning},
    storage::options::StateOptions,
};

pub(super) use self::running::run_node;
use self::{tls::TlsArgs, traces::TraceArgs};
use super::{audit::AuditArgs, data_key::DataKeyArgs, size};

/// Run one node of a cluster
///
/// Start every seat that --peers lists with the same list, in any order. The cluster forms once all
/// of them have met. From then on a restarted node finds its place again by its data directory. A
/// wiped node takes its seat over as a new node.
///
/// SIGTERM or SIGINT hand leadership over, finish calls under way and stop. kill -9 is a normal way
/// to stop too, and loses nothing.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  Three nodes on one machine, each in a terminal of its own:
    PEERS=1=127.0.0.1:7401,2=127.0.0.1:7411,3=127.0.0.1:7421
    helve serve --id 1 --data-dir n1 --listen 127.0.0.1:7400 --peer-listen 127.0.0.1:7401 --http-listen 127.0.0.1:7402 --peers $PEERS
    helve serve --id 2 --data-dir n2 --listen 127.0.0.1:7410 --peer-listen 127.0.0.1:7411 --http-listen 127.0.0.1:7412 --peers $PEERS
    helve serve --id 3 --data-dir n3 --listen 127.0.0.1:7420 --peer-listen 127.0.0.1:7421 --http-listen 127.0.0.1:7422 --peers $PEERS
  One of three machines, over TLS:
    helve cert ca --dir certs; helve cert node --dir certs --host 10.0.0.1 --name node-1    (and so on; ca.key stays where it is)
    helve serve --id 1 --data-dir n1 --listen 10.0.0.1:7400 --tls-cert certs/node-1.crt --tls-key certs/node-1.key \\
      --peer-listen 10.0.0.1:7401 --peer-tls-cert certs/node-1.crt --peer-tls-key certs/node-1.key --peer-tls-ca certs/ca.crt \\
      --peers 1=10.0.0.1:7401,2=10.0.0.2:7401,3=10.0.0.3:7401
  Then:
    helve status --endpoints 127.0.0.1:7400,127.0.0.1:7410,127.0.0.1:7420

Exit status: 0 stopped by a signal, 2 refused to start (the message names the flag and the remedy), 4 fatal while running.")]
pub(crate) struct Args {
    /// Seat of this node: its number in --peers
    #[arg(long, env = "HELVE_ID", value_name = "SEAT")]
    id: u64,

    /// Directory for all data of the node; created if it is missing, in an existing directory
    #[arg(long, env = "HELVE_DATA_DIR", value_name = "DIR")]
    data_dir: PathBuf,

    /// Address of the client port
    #[arg(
        long,
        default_value = "127.0.0.1:7400",
        env = "HELVE_LISTEN",
        value_name = "HOST:PORT"
    )]
    listen: String,

    /// Address of the peer port
    #[arg(
        long,
        default_value = "127.0.0.1:7401",
        env = "HELVE_PEER_LISTEN",
        value_name = "HOST:PORT"
    )]
    peer_listen: String,

    /// Address of the HTTP port: /livez, /readyz and /metrics, and with --console, /console/
    #[arg(
        long,
        default_value = "127.0.0.1:7402",
        env = "HELVE_HTTP_LISTEN",
        value_name = "HOST:PORT"
    )]
    http_listen: String,

    /// Serve the console on the HTTP port, under /console/: pages for operators, and their calls as
    /// JSON. Beyond this machine it needs TLS and tokens
    #[arg(long, env = "HELVE_CONSOLE")]
    console: bool,

    /// Peer address of every seat, this node's own included, as SEAT=HOST:PORT,...; the same on
    /// every node
    #[arg(
        long,
        value_delimiter = ',',
        required = true,
        env = "HELVE_PEERS",
        value_name = "SEAT=HOST:PORT,..."
    )]
    peers: Vec<String>,

    /// Address at which clients reach this node, if that is not --listen
    #[arg(long, env = "HELVE_ADVERTISE", value_name = "HOST:PORT")]
    advertise: Option<String>,

    /// Space that must stay free on the data directory's disk, such as 256MiB; below it only calls
    /// that free space are admitted
    #[arg(long, default_value = "256MiB", value_parser = size::parse, env = "HELVE_DISK_RESERVE", value_name = "SIZE")]
    disk_reserve: u64,

    /// What callers must present: nothing, so that every caller may do everything, or a token. The
    /// same on every node
    #[arg(long, default_value = "none", env = "HELVE_AUTH", value_name = "MODE")]
    auth: AuthMode,

    /// File with the first operator's token, with which other tokens are made; the same on every
    /// node
    #[arg(long, env = "HELVE_OPERATOR_TOKEN_FILE", value_name = "FILE")]
    operator_token_file: Option<PathBuf>,

    /// Allow listeners beyond this machine without TLS, and calls without tokens: any caller that
    /// reaches them owns the data
    #[arg(long, env = "HELVE_INSECURE")]
    insecure: bool,

    /// Allow a peer port on loopback without TLS beside --auth tokens: every process of this machine may then act as a node
    #[arg(long, env = "HELVE_INSECURE_PEERS")]
    insecure_peers: bool,

    #[command(flatten)]
    tls: TlsArgs,

    /// Form a new, empty cluster although listed peers do not answer. Refused where a listed peer
    /// has data: see `helve recover`. If peers do not answer, the value must say that the data of
    /// all of them is lost
    #[arg(
        long,
        env = "HELVE_FORCE_BOOTSTRAP",
        num_args = 0..=1,
        default_value = "false",
        default_missing_value = "true",
        hide_default_value = true,
        value_name = "everything-is-lost"
    )]
    force_bootstrap: ForceBootstrap,

    /// Never vote: hold everything, serve reads nearby and backups, and count towards no majority.
    /// `helve member add` lets the node in. As a voter, it is refused with this flag
    #[arg(long, env = "HELVE_LEARNER")]
    learner: bool,

    #[command(flatten)]
    data_keys: DataKeyArgs,

    /// Number of entries after which a snapshot is taken
    #[arg(long, default_value_t = 100_000, hide_short_help = true, env = "HELVE_SNAPSHOT_ENTRIES", value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    snapshot_entries: u64,

    /// Size of the entries after which a snapshot is taken, such as 256MiB. The log before the
    /// previous snapshot is then removed, however few entries it has
    #[arg(long, default_value = "256MiB", value_parser = size::parse, hide_short_help = true, env = "HELVE_SNAPSHOT_BYTES", value_name = "SIZE")]
    snapshot_bytes: u64,

    /// Number of entries that stay in the log behind a snapshot, for nodes that lag; fewer if they
    /// are larger than --snapshot-bytes, and up to 1 GiB more while a node that answers needs them
    #[arg(
        long,
        default_value_t = 50_000,
        hide_short_help = true,
        env = "HELVE_LOG_KEEP_ENTRIES",
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(..=1_000_000_000)
    )]
    log_keep_entries: u64,

    /// Memory for rows and indexes that were read from disk, such as 1GiB. Everything else takes up
    /// to 400 MiB, with ten million handles
    #[arg(long, default_value = "64MiB", value_parser = size::parse_cache, hide_short_help = true, env = "HELVE_BLOCK_CACHE", value_name = "SIZE")]
    block_cache: u64,

    /// Number of threads for consensus and peer traffic; one is the fastest on two cores
    #[arg(
        long,
        default_value_t = 1,
        hide_short_help = true,
        env = "HELVE_RAFT_THREADS",
        value_name = "N",
        value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1024)
    )]
    raft_threads: usize,

    /// Number of threads for client service; one is the fastest on two cores
    #[arg(
        long,
        default_value_t = 1,
        hide_short_help = true,
        env = "HELVE_SERVICE_THREADS",
        value_name = "N",
        value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1024)
    )]
    service_threads: usize,

    /// Limits of what callers may take up, as NAME=NUMBER,... such as principal-streams=64;
    /// `docs/limits.md` lists the names
    #[arg(
        long = "bound",
        value_delimiter = ',',
        hide_short_help = true,
        env = "HELVE_BOUNDS",
        value_name = "NAME=NUMBER,..."
    )]
    bounds: Vec<Setting>,

    /// Memory for the last changes of records, which callers that watch read, such as 32MiB
    #[arg(
        long,
        default_value = "32MiB",
        value_parser = size::parse,
        hide_short_help = true,
        env = "HELVE_WATCH_WINDOW",
        value_name = "SIZE"
    )]
    watch_window: u64,

    #[command(flatten)]
    audit: AuditArgs,

    #[command(flatten)]
    traces: TraceArgs,

    #[command(flatten)]
    log: LogArgs,
}

/// What callers must present.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum AuthMode {
    None,
    Tokens,
}

/// What the operator vouches for.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ForceBootstrap {
    /// As without the flag
    #[value(name = "false", hide = true)]
    No,
    /// The flag without a value
    #[value(name = "true", hide = true)]
    Asked,
    /// No data of a cluster is left on any listed node
    EverythingIsLost,
}

impl Args {
    fn bounds(&self) -> Bounds {
        let mut bounds = Bounds::default();
        self.bounds.iter().for_each(|setting| bounds.set(*setting));
        bounds
    }

    fn settings(&self) -> Settings {
        Settings {
            seat: self.id,
            data_dir: self.data_dir.clone(),
            listen: self.listen.clone(),
            peer_listen: self.peer_listen.clone(),
            http_listen: self.http_listen.clone(),
            console: self.console,
            peers: self.peers.clone(),
            advertise: self.advertise.clone(),
            disk_reserve_bytes: self.disk_reserve,
            auth: match self.auth {
                AuthMode::None => AuthSetting::None,
                AuthMode::Tokens => AuthSetting::Tokens,
            },
            operator_token_file: self.operator_token_file.clone(),
            exposure: match (self.insecure, self.insecure_peers) {
                (true, _) => Exposure::Insecure,
                (false, true) => Exposure::LocalPeers,
                (false, false) => Exposure::Loopback,
            },
            tls: self.tls.settings(),
            bootstrap: match self.force_bootstrap {
                ForceBootstrap::No => Bootstrap::WhenAllPristine,
                ForceBootstrap::Asked => Bootstrap::Forced,
                ForceBootstrap::EverythingIsLost => Bootstrap::EverythingIsLost,
            },
            learner: self.learner,
            audit: self.audit.settings(),
            data_keys: self.data_keys.files(),
            traces: self.traces.settings(),
            tuning: Tuning {
                consensus: ConsensusSettings {
                    snapshot_entries: self.snapshot_entries,
                    log_keep_entries: self.log_keep_entries,
                    ..ConsensusSettings::default()
                },
                snapshot_bytes: self.snapshot_bytes,
                rows: StateOptions {
                    block_cache_bytes: self.block_cache as usize,
                    ..StateOptions::default()
                },
                raft_threads: self.raft_threads,
                service_threads: self.service_threads,
                bounds: self.bounds(),
                watch_window_bytes: usize::try_from(self.watch_window).unwrap_or(usize::MAX),
            },
        }
    }
}

/// Runs the command until a signal or a fatal error.
///
/// # Errors
/// See [`Ending`].
pub(crate) async fn run(args: &Args) -> Outcome {
    let logging = logging::start(&args.log).map_err(Ending::Refused)?;
    let signals = Signals::listen(&logging).map_err(|error| Ending::Fatal(error.into()))?;
    let config =
        Config::check(&args.settings()).map_err(|refusal| Ending::Refused(refusal.into()))?;
    run_node(config, signals, |_| Ok(())).await
}
