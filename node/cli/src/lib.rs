//! The `helve` command line. Every flag has an environment variable `HELVE_...`; a flag wins over its variable.

#![deny(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "these panic where nothing can be written: helve_command::output does not"
)]

mod access;
mod audit;
mod backup;
mod cert;
mod claim;
mod completions;
mod data_key;
mod dev;
mod diagnosis;
mod digest;
mod handle;
mod healthcheck;
mod init;
mod instant;
mod key;
mod leader;
mod lifetime;
mod mcp;
mod member;
mod memory;
#[cfg(feature = "planted")]
mod planted;
mod progress;
#[cfg(test)]
#[path = "../../../client/src/properties.rs"]
mod properties;
mod record;
mod recover;
mod request_state;
mod restore;
mod serve;
mod size;
mod snapshot;
mod state;
mod status;
#[cfg(test)]
mod tests;
mod upgrade;
mod usage;
mod value;
mod watch;
mod whole_file;

use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _};
use helve_command::{
    cluster::ClusterArgs,
    ending::{Outcome, said},
    output::{self, Format},
};

use self::usage::Environment;

/// State handles for stateless MCP servers: a replicated store of handles and keys
///
/// Several nodes replicate every write through Raft. Any replica of an MCP server can mint a handle
/// through one node and read it through any other. No acknowledged write is lost when a node dies.
#[derive(Debug, Clone, clap::Parser)]
#[command(
    name = "helve",
    version,
    propagate_version = true,
    max_term_width = 120,
    after_long_help = after_help()
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,

    #[cfg(feature = "planted")]
    #[command(flatten)]
    planted: planted::Args,
}

/// First example of the help, in a build that has the demo.
const DEMO_EXAMPLE: &str = if cfg!(feature = "demo") {
    "  helve demo                                                  show that nothing is lost when nodes die\n"
} else {
    ""
};

/// Help after the list of commands: examples, exit status, errors for programs.
const AFTER_HELP: &str = "  helve dev                                                   run one node on loopback
  helve handle mint --store cart --ttl 1h --value '{\"items\":[]}'
  helve handle get cart-... --store cart
  helve status

Every flag has an environment variable, shown in its help; the flag overrides it.

Exit status, of every command:
  0  done, or the answer is yes
  1  the answer is no: the record is absent, expired, taken or of another revision, a node is not ready, nodes differ, only
     some endpoints did it
  2  the command must change: bad usage, a refused start or request, a wrong port, a certificate or token that is missing or refused
  3  the cluster does not answer, and nothing was done: nothing listens, or too few nodes run to elect a leader
  4  something broke on this machine while the command ran
  5  the call was sent, and its outcome is not known: read before you make it again
  6  the cluster answers, cannot do this now, and did nothing: too much is under way, a quota or disk is full, another change is under way
  128 and more: a signal of that number less 128 stopped it

With --output json an error is a JSON value on standard output, if nothing else was printed there: `error` says what is wrong and what to
do, `cause` is a word for programs, such as nothing_listens, tls_expected, token_refused or conflict. Standard error has the line for
people.";

fn after_help() -> String {
    format!("Getting started:\n{DEMO_EXAMPLE}{AFTER_HELP}")
}

/// Makes a node support one level more, in builds for tests; in any other it is refused, since it would promise what is not there.
const FEATURE_LEVEL: &str = "HELVE_FEATURE_LEVEL";

#[derive(Debug, Clone, clap::Subcommand)]
enum Command {
    Dev(dev::Args),
    Serve(serve::Args),
    Status(status::Args),
    #[command(subcommand)]
    Handle(handle::Command),
    #[command(subcommand)]
    Claim(claim::Command),
    #[command(subcommand)]
    State(state::Command),
    Watch(watch::Args),
    #[command(subcommand)]
    Member(member::Command),
    Recover(recover::Args),
    Backup(backup::Args),
    Restore(restore::Args),
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
    #[command(subcommand)]
    Upgrade(upgrade::Command),
    Healthcheck(healthcheck::Args),
    Init(init::Args),
    #[command(subcommand)]
    Cert(cert::Command),
    Mcp(mcp::Args),
    #[cfg(feature = "demo")]
    #[command(flatten)]
    Show(helve_demo::Command),
    Completions(completions::Args),
}

impl Command {
    /// Whether it writes callers' values to files of its own.
    fn keeps_values(&self) -> bool {
        match self {
            Self::Serve(_)
            | Self::Dev(_)
            | Self::Recover(_)
            | Self::Backup(_)
            | Self::Restore(_)
            | Self::Mcp(_) => true,
            #[cfg(feature = "demo")]
            Self::Show(command) => command.keeps_values(),
            _ => false,
        }
    }
}

/// Parses the command line and runs it, on a runtime of one thread: a node brings its own.
#[must_use]
pub fn main() -> ExitCode {
    let command = Cli::command();
    let words: Vec<_> = std::env::args_os().collect();
    let words = usage::joined(&command, &words);
    let variables: Vec<_> = std::env::vars_os().collect();
    let environment = Environment::of(&command, &words, &variables);
    let matches = command
        .clone()
        .try_get_matches_from(&words)
        .unwrap_or_else(|error| misused(&environment, &error));
    if let Some(emptied) = environment.emptied() {
        refused(&emptied);
    }
    if let Some(said) = usage::without_effect(&command, &matches) {
        refused(&environment.named(said));
    }
    let cli = Cli::from_arg_matches(&matches)
        .unwrap_or_else(|error| misused(&environment, &error.format(&mut Cli::command())));
    let shared = Shared::of(&matches, environment);
    if cli.command.keeps_values() {
        // RocksDB and the tools that keep state in files create theirs by it: 0600, and directories 0700.
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    }
    #[cfg(not(feature = "planted"))]
    if std::env::var_os(FEATURE_LEVEL).is_some() {
        output::say(format_args!(
            "helve: {FEATURE_LEVEL} is for builds that try upgrades: unset it"
        ));
        return ExitCode::from(2);
    }
    match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => {
            let status = runtime.block_on(cli.run(&shared));
            // A thread that still waits for a line of standard input must not keep the process.
            runtime.shutdown_background();
            status
        }
        Err(error) => {
            output::say(format_args!("helve: cannot start the runtime: {error}"));
            ExitCode::from(4)
        }
    }
}

/// Ends a command that was not understood; one that was asked for help ends well.
fn misused(environment: &Environment, error: &clap::Error) -> ! {
    if let Some(explained) = environment.explained(error) {
        refused(&explained);
    }
    if error.use_stderr() {
        tell_programs(usage::first_paragraph(&error.to_string()));
    }
    error.exit()
}

/// Ends a command whose flags or variables do not fit.
fn refused(why: &str) -> ! {
    tell_programs(why);
    output::say(format_args!(
        "error: {why}\n\nFor more information, try '--help'."
    ));
    std::process::exit(2)
}

/// Says on standard output what is wrong with a command line, if that asks for JSON.
fn tell_programs(error: &str) {
    let words: Vec<_> = std::env::args_os().collect();
    let is_json = words.windows(2).any(|two| two == ["--output", "json"])
        || words.iter().any(|word| word == "--output=json")
        || std::env::var_os("HELVE_OUTPUT").is_some_and(|form| form == "json");
    if is_json {
        let failure = Failure {
            error,
            cause: "usage",
            endpoint: "",
            exit_status: 2,
        };
        failure.print_or_say();
    }
}

/// The flags that many commands have, of the command that is run. They are found by name, so that no command can be forgotten.
struct Shared {
    cluster: Option<ClusterArgs>,
    output: Option<Format>,
    environment: Environment,
}

impl Shared {
    fn of(matches: &ArgMatches, environment: Environment) -> Self {
        let mut command = matches;
        while let Some((_, below)) = command.subcommand() {
            command = below;
        }
        let has = |flag: &str| command.try_contains_id(flag).is_ok();
        Self {
            cluster: has("endpoints")
                .then(|| ClusterArgs::from_arg_matches(command).ok())
                .flatten(),
            output: has("output")
                .then(|| command.get_one::<Format>("output").copied())
                .flatten(),
            environment,
        }
    }
}

/// The error of a command for programs, on standard output, where that is all that it prints.
#[derive(serde::Serialize)]
struct Failure<'a> {
    /// What failed, on what, why, and the next step.
    error: &'a str,
    /// What is at fault, in one word: `nothing_listens`, `token_refused`, `conflict` and so on.
    cause: &'a str,
    /// The endpoint at fault, if it is one.
    #[serde(skip_serializing_if = "str::is_empty")]
    endpoint: &'a str,
    exit_status: u8,
}

impl Cli {
    /// Runs the command. What went wrong is said on standard error, by the exit status, and with `--output json` as a JSON value too.
    async fn run(self, shared: &Shared) -> ExitCode {
        #[cfg(feature = "planted")]
        self.planted.plant();
        let ending = match self.command.run().await {
            Ok(()) => return ExitCode::SUCCESS,
            Err(ending) => ending,
        };
        let ending = match &shared.cluster {
            Some(cluster) => diagnosis::explain(cluster, ending).await,
            None => ending,
        };
        let error = shared.environment.named(said(&**ending.error()));
        if shared.output == Some(Format::Json) && !output::has_printed() {
            let failure = Failure {
                error: &error,
                cause: &ending.cause(),
                endpoint: ending.caused().map_or("", |caused| &caused.endpoint),
                exit_status: ending.status(),
            };
            failure.print_or_say();
        }
        // What a server said may be in it.
        let lines: Vec<_> = error.lines().map(output::harmless).collect();
        output::say(format_args!("helve: {}", lines.join("\n")));
        ending.exit_code()
    }
}

impl Failure<'_> {
    fn print_or_say(&self) {
        let json = serde_json::to_string_pretty(self).map_err(std::io::Error::from);
        if let Err(error) = json.and_then(|json| output::line(&json)) {
            output::say(format_args!("helve: {error}"));
        }
    }
}

impl Command {
    async fn run(self) -> Outcome {
        match self {
            Self::Dev(args) => dev::run(&args).await,
            Self::Serve(args) => serve::run(&args).await,
            Self::Status(args) => status::run(&args).await,
            Self::Handle(command) => handle::run(&command).await,
            Self::Claim(command) => claim::run(&command).await,
            Self::State(command) => state::run(&command).await,
            Self::Watch(args) => watch::run(&args).await,
            Self::Member(command) => member::run(&command).await,
            Self::Recover(args) => recover::run(&args).await,
            Self::Backup(args) => backup::run(&args).await,
            Self::Restore(args) => restore::run(&args).await,
            Self::Leader(command) => leader::run(&command).await,
            Self::Audit(command) => audit::run(&command),
            Self::Key(command) => key::run(&command).await,
            Self::DataKey(command) => data_key::run(&command).await,
            Self::RequestState(command) => request_state::run(&command).await,
            Self::Token(command) => access::token::run(&command).await,
            Self::Tenant(command) => access::tenant::run(&command).await,
            Self::Snapshot(args) => snapshot::run(&args).await,
            Self::Digest(args) => digest::run(&args).await,
            Self::Upgrade(command) => upgrade::run(&command).await,
            Self::Healthcheck(args) => healthcheck::run(&args).await,
            Self::Init(args) => init::run(&args),
            Self::Cert(command) => cert::run(&command),
            Self::Mcp(args) => mcp::run(&args).await,
            #[cfg(feature = "demo")]
            Self::Show(command) => command.run().await,
            Self::Completions(args) => completions::run(&args),
        }
    }
}
