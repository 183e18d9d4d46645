//! The flags of `helve mcp`.

use std::{path::PathBuf, time::Duration};

use helve_command::{
    cluster::ClusterArgs,
    duration,
    logging::LogArgs,
    mcp_server::{callers::AccessArgs, edge::EdgeArgs, serving::LegacyArgs, token::TokenArgs},
    output::OutputArgs,
};
use helve_mcp::{
    bearer::Guard,
    serve::Versions,
    state::gate::{Asked, Backing, Key, Replicas, Transport},
};

/// Serve the state tool to MCP clients: JSON values under keys, in the cluster
///
/// Speaks MCP (protocol 2026-07-28) over streamable HTTP under /mcp, without sessions, or over
/// standard input and output with --stdio. It keeps nothing in memory: run any number of replicas
/// behind any balancer, and restart them while clients are connected.
///
/// Read-only without --enable-writes; without --enable-delete no tool deletes. A call that replaces
/// or deletes asks the user through the client first, and is refused to clients that cannot ask.
/// --assume-yes is dangerous: it replaces and deletes without asking the user.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve mcp --endpoints 127.0.0.1:7400,127.0.0.1:7410,127.0.0.1:7420
  helve mcp --stdio --enable-writes --enable-delete
  helve mcp --enable-writes --key-file state.key --replicas 3 --listen 127.0.0.1:8081
  helve mcp --enable-writes --key-file operator-key --ring state --replicas 3 --listen 127.0.0.1:8081
  helve key new state.key makes a key: the same file for all replicas.

Exit status: 0 stopped by a signal, 2 refused to start (the message names the flags), 3 the ring cannot be read, 4 fatal while running.")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,

    /// Keep everything in this process, for trials: it is lost when the process ends
    #[arg(long, env = "HELVE_MEMORY")]
    pub(super) memory: bool,

    /// Serve one client over standard input and output, instead of HTTP
    #[arg(long, env = "HELVE_STDIO")]
    pub(super) stdio: bool,

    /// Address for MCP clients; port 0 takes a free port, and the address is printed
    #[arg(
        long,
        default_value = "127.0.0.1:8080",
        env = "HELVE_LISTEN",
        value_name = "HOST:PORT"
    )]
    pub(super) listen: String,

    /// Number of processes that serve together, this one included; flags that cannot work across
    /// processes are refused
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..), env = "HELVE_REPLICAS", value_name = "N")]
    pub(super) replicas: u16,

    #[command(flatten)]
    pub(super) legacy: LegacyArgs,
    #[command(flatten)]
    pub(super) gates: GateArgs,
    #[command(flatten)]
    pub(super) callers: CallerArgs,
    #[command(flatten)]
    pub(super) token: TokenArgs,
    #[command(flatten)]
    pub(super) lifetimes: LifetimeArgs,
    #[command(flatten)]
    pub(super) edge: EdgeArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    #[command(flatten)]
    pub(super) log: LogArgs,
}

/// What may be changed, and what asks the user.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Gates")]
pub(super) struct GateArgs {
    /// Offer the tools that store
    #[arg(long, env = "HELVE_ENABLE_WRITES")]
    enable_writes: bool,

    /// Offer the tool that deletes, too
    #[arg(long, env = "HELVE_ENABLE_DELETE")]
    enable_delete: bool,

    /// DANGER: replace and delete without asking the user
    #[arg(long, env = "HELVE_ASSUME_YES")]
    pub(super) assume_yes: bool,

    /// File with the key that seals confirmations, the same for all replicas: one line of base64 or
    /// hexadecimal for at least 32 random bytes, or 32 such bytes as they are; other users must not
    /// be able to read it
    #[arg(
        long,
        conflicts_with = "ephemeral_key",
        env = "HELVE_KEY_FILE",
        value_name = "FILE"
    )]
    pub(super) key_file: Option<PathBuf>,

    /// Ring in the cluster whose keys seal confirmations, and which `helve key` rotates while
    /// servers run; --key-file is then the operator's key, which opens the ring
    #[arg(
        long,
        requires = "key_file",
        conflicts_with = "memory",
        env = "HELVE_KEY_RING",
        value_name = "NAME"
    )]
    pub(super) ring: Option<String>,

    /// Seal confirmations under a key of this process: questions from before a restart are refused
    /// after it
    #[arg(long, env = "HELVE_EPHEMERAL_KEY")]
    pub(super) ephemeral_key: bool,

    /// Time that the user has to confirm, 1s to 24h
    #[arg(long, default_value = "5m", value_parser = duration::parse, env = "HELVE_CONFIRM_TTL", value_name = "DURATION")]
    pub(super) confirm_ttl: Duration,
}

/// Who may call.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Callers")]
pub(super) struct CallerArgs {
    #[command(flatten)]
    pub(super) access: AccessArgs,

    /// Owner whose keys are served if callers do not authenticate; without it, keys without an
    /// owner
    #[arg(
        long,
        conflicts_with_all = ["token_key_file", "token_secret_file", "token_jwks_url"],
        env = "HELVE_OWNER",
        value_name = "OWNER"
    )]
    pub(super) owner: Option<String>,
}

/// Lifetimes of keys.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Lifetimes")]
pub(super) struct LifetimeArgs {
    /// Lifetime of a key if the call does not name one; without it, for ever
    #[arg(long, value_parser = duration::parse, env = "HELVE_DEFAULT_TTL", value_name = "DURATION")]
    pub(super) default_ttl: Option<Duration>,

    /// Time without use after which a key expires; without it, never
    #[arg(long, value_parser = duration::parse, env = "HELVE_IDLE_TTL", value_name = "DURATION")]
    pub(super) idle_ttl: Option<Duration>,
}

impl Args {
    /// The protocols to speak. Over standard input and output there is one client and no session to keep, so that all are spoken.
    pub(super) fn versions(&self) -> Versions {
        if self.stdio {
            Versions::All
        } else {
            self.legacy.versions()
        }
    }

    /// What the operator asked for, for the gate to settle.
    pub(super) fn asked(&self, transport: Transport, guard: Option<&Guard>) -> Asked {
        Asked {
            transport,
            backing: if self.memory {
                Backing::Memory
            } else {
                Backing::Cluster
            },
            replicas: if self.replicas == 1 {
                Replicas::One
            } else {
                Replicas::Several
            },
            key: match (&self.gates.key_file, self.gates.ephemeral_key) {
                (Some(_), _) => Key::Shared,
                (None, true) => Key::Ephemeral,
                (None, false) => Key::Unset,
            },
            writes: self.gates.enable_writes,
            delete: self.gates.enable_delete,
            assume_yes: self.gates.assume_yes,
            hosts: !self.callers.access.allowed_host.is_empty(),
            origins: !self.callers.access.allowed_origin.is_empty(),
            authentication: guard.is_some(),
        }
    }
}
