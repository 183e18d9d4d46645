//! The flags of `helve request-state`.

use std::{path::PathBuf, time::Duration};

use crate::cli::{cluster::ClusterArgs, duration, output::Format};

/// Seal and open the requestState of MCP's multi round-trip requests
#[derive(Debug, Clone, clap::Subcommand)]
pub(crate) enum Command {
    Seal(SealArgs),
    Open(OpenArgs),
}

/// The form of a sealed state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    /// Signed, as mcp.d does it.
    V1,
    /// Encrypted, as mcp.d does it.
    V1e,
    /// Helve's own.
    Hardened,
}

impl Form {
    /// The word on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1e => "v1e",
            Self::Hardened => "hardened",
        }
    }
}

/// The flags of both commands.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Common {
    /// The form
    #[arg(
        long,
        value_enum,
        default_value = "hardened",
        env = "HELVE_STATE_FORMAT",
        value_name = "FORM"
    )]
    pub(super) format: Form,

    /// The file that holds the key: one line of base64 or hexadecimal for at least 32 random bytes, or 32 such bytes as they are.
    /// Other users of the machine must not be able to read it
    #[arg(long, env = "HELVE_KEY_FILE", value_name = "FILE")]
    pub(super) key_file: PathBuf,

    /// The keys are those of this ring in the cluster (see `helve key`), and --key-file is the operator's key that opens the ring
    #[arg(long, env = "HELVE_KEY_RING", value_name = "NAME")]
    pub(super) ring: Option<String>,

    /// The end user to whom the state is given
    #[arg(long, env = "HELVE_SUBJECT", value_name = "SUBJECT")]
    pub(super) subject: Option<String>,

    /// The tool or prompt it is given for, or the resource's URI
    #[arg(long, env = "HELVE_TOOL", value_name = "TOOL")]
    pub(super) tool: Option<String>,

    /// The server that redeems it
    #[arg(long, env = "HELVE_AUDIENCE", value_name = "NAME")]
    pub(super) audience: Option<String>,

    /// The method it is given for, such as tools/call
    #[arg(long, env = "HELVE_METHOD", value_name = "METHOD")]
    pub(super) method: Option<String>,

    /// The arguments it is given for
    #[arg(long, env = "HELVE_ARGUMENTS", value_name = "JSON")]
    pub(super) arguments: Option<String>,

    /// How to print: `json` for programs, `table` for what matters alone
    #[arg(
        long,
        value_enum,
        default_value = "json",
        env = "HELVE_OUTPUT",
        value_name = "FORMAT"
    )]
    pub(super) output: Format,

    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
}

/// Seal the state on standard input; a line end behind it is not part of it
///
/// What is bound here must be bound in the same words when the state is opened, and what is left out must be left out. `v1` and `v1e`
/// bind the subject, and the tool if one is given.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  echo '{\"step\":1}' | helve request-state seal --key-file key --subject alice
  echo '{\"step\":1}' | helve request-state seal --format v1e --key-file key --subject alice --tool refund --ttl 10m
  echo '{\"step\":1}' | helve request-state seal --ring shop --key-file operator-key --subject alice

Exit status: 0 sealed, 2 bad usage or a refused key file; others as `helve --help` lists them.")]
pub(crate) struct SealArgs {
    #[command(flatten)]
    pub(super) common: Common,

    /// How long it may be redeemed: 1s to 24h
    #[arg(long, default_value = "5m", value_parser = duration::parse, env = "HELVE_STATE_TTL", value_name = "DURATION")]
    pub(super) ttl: Duration,
}

/// Open the sealed state, or what `seal` printed, on standard input, and show what is in it
///
/// The reason why a state is refused is said here, to the operator. A server says it in its log alone.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve request-state open --key-file key --subject alice < sealed
  helve request-state open --ring shop --key-file operator-key --audience helve --method tools/call --tool delete \\
      --arguments '{\"key\":\"users/7\"}' < sealed

Exit status: 0 it holds, 1 it does not, 2 bad usage or a refused key file; others as `helve --help` lists them.")]
pub(crate) struct OpenArgs {
    #[command(flatten)]
    pub(super) common: Common,
}
