//! The flags of `helve mcp`.

use std::{path::PathBuf, time::Duration};

use helve_mcp::{
    bearer::Guard,
    serve::Versions,
    state::gate::{Asked, Backing, Key, Replicas, Transport},
};

use crate::cli::{
    callers::AccessArgs, cluster::ClusterArgs, duration, edge::EdgeArgs, logging::LogArgs,
    output::OutputArgs, serving::LegacyArgs, token::TokenArgs,
};

/// Serve the state tool to MCP clients: JSON values under keys, in the cluster
///
/// Speaks MCP (protocol 2026-07-28) over streamable HTTP under /mcp, without sessions, or over standard input and output with --stdio. It
/// keeps nothing in memory: run as many replicas as you like behind any balancer, and restart them while clients are connected.
///
/// Read-only unless --enable-writes; without --enable-delete there is no tool that deletes. Whatever replaces or deletes asks the user
/// through the client first, and is refused to clients that cannot ask; --assume-yes is the danger zone in which nobody is asked.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve mcp --endpoints 127.0.0.1:7400,127.0.0.1:7410,127.0.0.1:7420
  helve mcp --stdio --enable-writes --enable-delete
  helve mcp --enable-writes --key-file state.key --replicas 3 --listen 127.0.0.1:8081
  helve mcp --enable-writes --key-file operator-key --ring state --replicas 3 --listen 127.0.0.1:8081
  helve key new state.key makes a key: the same file for all replicas.

Exit status: 0 stopped as asked, 2 refused to start (the message names the flags), 3 the ring cannot be read, 4 fatal while running.")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,

    /// Keep everything in this process, for trying things out: it is gone when the process ends
    #[arg(long, env = "HELVE_MEMORY")]
    pub(super) memory: bool,

    /// Serve one client over standard input and output, instead of HTTP
    #[arg(long, env = "HELVE_STDIO")]
    pub(super) stdio: bool,

    /// Where MCP clients are served; port 0 takes a free one, and the address is printed
    #[arg(
        long,
        default_value = "127.0.0.1:8080",
        env = "HELVE_LISTEN",
        value_name = "HOST:PORT"
    )]
    pub(super) listen: String,

    /// How many processes serve together, this one included: what one of them could not do for another is then refused
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

/// What may be changed, and who is asked.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Gates")]
pub(super) struct GateArgs {
    /// Show the tools that store
    #[arg(long, env = "HELVE_ENABLE_WRITES")]
    enable_writes: bool,

    /// Show the tool that deletes, too
    #[arg(long, env = "HELVE_ENABLE_DELETE")]
    enable_delete: bool,

    /// DANGER ZONE: replace and delete without asking anybody
    #[arg(long, env = "HELVE_ASSUME_YES")]
    pub(super) assume_yes: bool,

    /// What confirmations are sealed under, the same for all replicas: a file with one line of base64 or hexadecimal for at least
    /// 32 random bytes, or 32 such bytes as they are, which other users may not read
    #[arg(
        long,
        conflicts_with = "ephemeral_key",
        env = "HELVE_KEY_FILE",
        value_name = "FILE"
    )]
    pub(super) key_file: Option<PathBuf>,

    /// Seal confirmations under the keys of this ring in the cluster, which `helve key` rotates while servers run; --key-file is then the
    /// operator's key, under which the ring lies sealed
    #[arg(
        long,
        requires = "key_file",
        conflicts_with = "memory",
        env = "HELVE_KEY_RING",
        value_name = "NAME"
    )]
    pub(super) ring: Option<String>,

    /// Seal confirmations under a key of this process: what it asked before a restart is then refused after it
    #[arg(long, env = "HELVE_EPHEMERAL_KEY")]
    pub(super) ephemeral_key: bool,

    /// How long the user may take to confirm, 1s to 24h
    #[arg(long, default_value = "5m", value_parser = duration::parse, env = "HELVE_CONFIRM_TTL", value_name = "DURATION")]
    pub(super) confirm_ttl: Duration,
}

/// Who may call.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Callers")]
pub(super) struct CallerArgs {
    #[command(flatten)]
    pub(super) access: AccessArgs,

    /// Whose keys are served if callers do not authenticate; without it, those that have no owner
    #[arg(
        long,
        conflicts_with_all = ["token_key_file", "token_secret_file", "token_jwks_url"],
        env = "HELVE_OWNER",
        value_name = "OWNER"
    )]
    pub(super) owner: Option<String>,
}

/// How long keys live.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Lifetimes")]
pub(super) struct LifetimeArgs {
    /// How long a key lives if a call does not say; without it, for ever
    #[arg(long, value_parser = duration::parse, env = "HELVE_DEFAULT_TTL", value_name = "DURATION")]
    pub(super) default_ttl: Option<Duration>,

    /// A key that nobody touches for this long expires; without it, never
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
