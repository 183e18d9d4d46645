//! Structured logs on standard error.

use std::io::{self, IsTerminal};

use tracing_subscriber::{EnvFilter, fmt};

/// How logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// One line of text an event.
    Text,
    /// One JSON object an event.
    Json,
}

/// The flags of everything that runs as a node.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Logs")]
pub(crate) struct LogArgs {
    /// How logs are written to standard error
    #[arg(
        long,
        value_enum,
        default_value = "text",
        env = "HELVE_LOG_FORMAT",
        value_name = "FORMAT"
    )]
    pub log_format: LogFormat,

    /// Which events are logged, as tracing directives such as `info` or `helve_node=debug,info`
    #[arg(
        long,
        default_value = "info,openraft=error,rmcp=warn",
        env = "HELVE_LOG",
        value_name = "DIRECTIVES"
    )]
    pub log: String,
}

/// Starts to log.
///
/// # Errors
/// What is wrong with the directives, or that logging had begun already.
pub(crate) fn start(args: &LogArgs) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&args.log)
        .map_err(|error| anyhow::anyhow!("--log: `{}` is no filter: {error}", args.log))?;
    let builder = fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr);
    let started = match args.log_format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("logging cannot start: {error}"))
}
