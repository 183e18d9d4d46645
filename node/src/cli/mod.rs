//! The `helve` command line. Every flag has an environment variable `HELVE_...`; a flag wins over its variable.

mod access;
mod audit;
mod balancer;
mod bench;
mod cart;
mod cert;
mod cluster;
mod completions;
mod data_key;
mod demo;
mod dev;
mod digest;
mod duration;
mod edge;
mod ending;
mod findings;
mod flows;
mod handle;
mod healthcheck;
mod init;
mod key;
mod leader;
mod lifetime;
mod logging;
mod mcp;
mod member;
mod output;
#[cfg(feature = "planted")]
mod planted;
mod record;
mod recover;
mod request_state;
mod serve;
mod serving;
mod signals;
mod size;
mod snapshot;
mod state;
mod status;
#[cfg(test)]
mod tests;
mod token;
mod value;
mod whole_file;

use std::process::ExitCode;

use clap::Parser as _;
use ending::Outcome;

/// State handles for stateless MCP servers: a replicated store of handles and keys
///
/// Several nodes replicate every write through Raft, so that any replica of an MCP server mints a handle through one node and reads it
/// through any other, and nothing acknowledged is lost when a node dies.
#[derive(Debug, Clone, clap::Parser)]
#[command(
    name = "helve",
    version,
    propagate_version = true,
    max_term_width = 120,
    after_long_help = "Getting started:
  helve demo                                                  see that nothing is lost when nodes die
  helve dev                                                   run one node on loopback
  helve handle mint --store cart --ttl 1h --value '{\"items\":[]}'
  helve handle get cart-... --store cart
  helve status

Every flag has an environment variable, shown in its help; a flag wins over it.

Exit status:
  0  done
  1  the record is absent, expired or taken, or the answer is no
  2  bad usage, or a start that was refused
  3  the cluster cannot answer
  4  fatal while running"
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,

    #[cfg(feature = "planted")]
    #[command(flatten)]
    planted: planted::Args,
}

/// Makes a node support one level more, in builds for tests; in any other it is refused, since it would promise what is not there.
const FEATURE_LEVEL: &str = "HELVE_FEATURE_LEVEL";

#[derive(Debug, Clone, clap::Subcommand)]
enum Command {
    Demo(demo::Args),
    Dev(dev::Args),
    Serve(serve::Args),
    Status(status::Args),
    #[command(subcommand)]
    Handle(handle::Command),
    #[command(subcommand)]
    State(state::Command),
    #[command(subcommand)]
    Member(member::Command),
    Recover(recover::Args),
    #[command(subcommand)]
    Leader(leader::Command),
    #[command(subcommand)]
    Audit(audit::Command),
    #[command(subcommand)]
    Key(key::Command),
    #[command(subcommand)]
    DataKey(data_key::Command),
    #[command(subcommand)]
    RequestState(request_state::Command),
    #[command(subcommand)]
    Token(access::token::Command),
    #[command(subcommand)]
    Tenant(access::tenant::Command),
    Snapshot(snapshot::Args),
    Digest(digest::Args),
    Healthcheck(healthcheck::Args),
    Init(init::Args),
    #[command(subcommand)]
    Cert(cert::Command),
    Mcp(mcp::Args),
    Cart(cart::Args),
    Balancer(balancer::Args),
    Flows(flows::Args),
    Bench(bench::Args),
    Completions(completions::Args),
}

/// Parses the command line and runs it, on a runtime of one thread: a node brings its own.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    #[cfg(not(feature = "planted"))]
    if std::env::var_os(FEATURE_LEVEL).is_some() {
        eprintln!("helve: {FEATURE_LEVEL} is for builds that try upgrades: unset it");
        return ExitCode::from(2);
    }
    if let Err(error) = demo::keep() {
        eprintln!("helve: {error:#}");
        return ExitCode::from(4);
    }
    match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => {
            let status = runtime.block_on(cli.run());
            // A thread that still waits for a line of standard input must not keep the process.
            runtime.shutdown_background();
            status
        }
        Err(error) => {
            eprintln!("helve: the operating system gives no runtime: {error}");
            ExitCode::from(4)
        }
    }
}

impl Cli {
    /// Runs the command. What went wrong is said on standard error, and by the exit status.
    pub async fn run(self) -> ExitCode {
        #[cfg(feature = "planted")]
        self.planted.plant();
        match self.command.run().await {
            Ok(()) => ExitCode::SUCCESS,
            Err(ending) => {
                eprintln!("helve: {:#}", ending.error());
                ending.exit_code()
            }
        }
    }
}

impl Command {
    async fn run(self) -> Outcome {
        match self {
            Self::Demo(args) => demo::run(&args).await,
            Self::Dev(args) => dev::run(&args).await,
            Self::Serve(args) => serve::run(&args).await,
            Self::Status(args) => status::run(&args).await,
            Self::Handle(command) => handle::run(&command).await,
            Self::State(command) => state::run(&command).await,
            Self::Member(command) => member::run(&command).await,
            Self::Recover(args) => recover::run(&args).await,
            Self::Leader(command) => leader::run(&command).await,
            Self::Audit(command) => audit::run(&command),
            Self::Key(command) => key::run(&command).await,
            Self::DataKey(command) => data_key::run(&command).await,
            Self::RequestState(command) => request_state::run(&command).await,
            Self::Token(command) => access::token::run(&command).await,
            Self::Tenant(command) => access::tenant::run(&command).await,
            Self::Snapshot(args) => snapshot::run(&args).await,
            Self::Digest(args) => digest::run(&args).await,
            Self::Healthcheck(args) => healthcheck::run(&args).await,
            Self::Init(args) => init::run(&args),
            Self::Cert(command) => cert::run(&command),
            Self::Mcp(args) => mcp::run(&args).await,
            Self::Cart(args) => cart::run(&args).await,
            Self::Balancer(args) => balancer::run(&args).await,
            Self::Flows(args) => flows::run(&args).await,
            Self::Bench(args) => bench::run(&args).await,
            Self::Completions(args) => completions::run(&args),
        }
    }
}
