//! What the commands that serve HTTP have in common: where they listen, and how they stop.

use std::{io, time::Duration};

use anyhow::{Context as _, anyhow};
use helve_client::Client;
use helve_mcp::{
    Callers,
    legacy::LegacySessions,
    serve::{MCP_PATH, Shutdown, Versions},
};
use serde::Serialize;
use tokio::net::{TcpListener, lookup_host};

use super::{duration, output::OutputArgs, signals::Signals};

/// The flags of everything that serves MCP clients.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ListenArgs {
    /// Where MCP clients are served; port 0 takes a free one, and the address is printed
    #[arg(
        long,
        default_value = "127.0.0.1:8080",
        env = "HELVE_LISTEN",
        value_name = "HOST:PORT"
    )]
    listen: String,

    /// Allow a listener beyond this machine: whoever reaches it sees all carts
    #[arg(long, env = "HELVE_INSECURE")]
    insecure: bool,
}

impl ListenArgs {
    /// Listens.
    ///
    /// # Errors
    /// If the address is none, is beyond this machine without `--insecure`, or is taken.
    pub(super) async fn bind(&self) -> anyhow::Result<TcpListener> {
        let flag = || format!("--listen {}", self.listen);
        let addresses: Vec<_> = lookup_host(&self.listen)
            .await
            .with_context(flag)?
            .collect();
        if !self.insecure && addresses.iter().any(|address| !address.ip().is_loopback()) {
            return Err(
                anyhow!("beyond this machine: bind 127.0.0.1, or add --insecure").context(flag()),
            );
        }
        TcpListener::bind(addresses.as_slice())
            .await
            .with_context(flag)
    }
}

/// The flags of everything that can serve older MCP clients, too.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct LegacyArgs {
    /// Serve clients of protocols before 2026-07-28, too; their sessions are kept in the cluster
    #[arg(long, env = "HELVE_LEGACY_SESSIONS")]
    legacy_sessions: bool,

    /// How long a session of such a client is kept that nobody uses
    #[arg(long, default_value = "24h", value_parser = duration::parse, env = "HELVE_SESSION_TTL", value_name = "DURATION")]
    session_ttl: Duration,
}

impl LegacyArgs {
    /// Whether the flags make sense.
    ///
    /// # Errors
    /// If a session would live for no time.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if self.session_ttl.is_zero() {
            anyhow::bail!("--session-ttl: a session must live for a while");
        }
        Ok(())
    }

    /// What the server is to speak.
    pub(super) fn versions(&self) -> Versions {
        if self.legacy_sessions {
            Versions::All
        } else {
            Versions::Modern
        }
    }

    /// Where the sessions of older clients are, if those are served.
    pub(super) fn sessions(&self, client: &Client, callers: Callers) -> Option<LegacySessions> {
        self.legacy_sessions
            .then(|| LegacySessions::new(client, self.session_ttl, callers))
    }
}

/// Where the server is.
#[derive(Serialize)]
struct Serving {
    /// The URL for MCP clients.
    mcp: String,
}

/// Says where MCP is served, and serves until SIGTERM, SIGINT or an error. A signal begins the shutdown that `serve` is given;
/// a second one stops at once. SIGHUP reads again what `signals` was told of.
///
/// # Errors
/// If serving fails, or standard output cannot be written.
pub(super) async fn serve_mcp<S>(
    listener: TcpListener,
    mut signals: Signals,
    output: &OutputArgs,
    serve: impl FnOnce(TcpListener, Shutdown) -> S,
) -> anyhow::Result<()>
where
    S: Future<Output = io::Result<()>>,
{
    let serving = Serving {
        mcp: format!("http://{}{MCP_PATH}", listener.local_addr()?),
    };
    output.announce(&serving, |serving| format!("MCP on {}", serving.mcp))?;
    let shutdown = Shutdown::new();
    let serving = serve(listener, shutdown.clone());
    tokio::pin!(serving);
    let signal = tokio::select! {
        ended = &mut serving => return Ok(ended?),
        signal = signals.recv() => signal,
    };
    tracing::info!(signal, "stopping");
    shutdown.begin();
    tokio::select! {
        ended = &mut serving => Ok(ended?),
        again = signals.recv() => {
            tracing::warn!(signal = again, "stopping at once: requests under way are broken off");
            Ok(())
        }
    }
}
