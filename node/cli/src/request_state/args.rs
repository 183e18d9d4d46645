//! The flags of `helve request-state`.

use std::{path::PathBuf, time::Duration};

use helve_command::{cluster::ClusterArgs, duration, output::Format};

/// Seal and open the requestState of MCP's multi round-trip requests
#[derive(Debug, Clone, clap::Subcommand)]
pub(crate) enum Command {
    Seal(SealArgs),
    Open(OpenArgs),
}

/// Form of a sealed state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    /// Signed, as in mcp.d.
    V1,
    /// Encrypted, as in mcp.d.
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

/// Flags of both commands.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Common {
    /// Form of the sealed state
    #[arg(
        long,
        value_enum,
        default_value = "hardened",
        env = "HELVE_STATE_FORMAT",
        value_name = "FORM"
    )]
    pub(super) format: Form,

    /// File with the key: one line of base64 or hexadecimal for at least 32 random bytes, or 32
    /// such bytes as they are. Other users of the machine must not be able to read it
    #[arg(long, env = "HELVE_KEY_FILE", value_name = "FILE")]
    pub(super) key_file: PathBuf,

    /// Ring in the cluster that has the keys (see `helve key`); --key-file is then the operator's
    /// key, which opens the ring
    #[arg(long, env = "HELVE_KEY_RING", value_name = "NAME")]
    pub(super) ring: Option<String>,

    /// End user to whom the state is given
    #[arg(long, env = "HELVE_SUBJECT", value_name = "SUBJECT")]
    pub(super) subject: Option<String>,

    /// Tool or prompt that the state is for, or the resource's URI
    #[arg(long, env = "HELVE_TOOL", value_name = "TOOL")]
    pub(super) tool: Option<String>,

    /// Server that redeems the state
    #[arg(long, env = "HELVE_AUDIENCE", value_name = "NAME")]
    pub(super) audience: Option<String>,

    /// Method that the state is for, such as tools/call
    #[arg(long, env = "HELVE_METHOD", value_name = "METHOD")]
    pub(super) method: Option<String>,

    /// Arguments that the state is for
    #[arg(long, env = "HELVE_ARGUMENTS", value_name = "JSON")]
    pub(super) arguments: Option<String>,

    /// Form of the output: `json` for programs, `table` for the state alone
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

/// Seal the state on standard input; a line end after it is not part of it
///
/// What is bound here must be bound to the same values when the state is opened, and what is left
/// out must be left out. `v1` and `v1e` bind the subject, and the tool if one is given.
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

/// Open the sealed state, or the output of `seal`, on standard input, and show what is in it
///
/// This command shows why a state is refused. A server shows that only in its log.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve request-state open --key-file key --subject alice < sealed
  helve request-state open --ring shop --key-file operator-key --audience helve --method tools/call --tool delete \\
      --arguments '{\"key\":\"users/7\"}' < sealed

Exit status: 0 the state is valid, 1 it is not, 2 bad usage or a refused key file; others as `helve --help` lists them.")]
pub(crate) struct OpenArgs {
    #[command(flatten)]
    pub(super) common: Common,
}
