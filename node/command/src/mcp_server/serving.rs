//! What the commands that serve HTTP have in common: where they listen, and how they stop.

use std::{
    io::{self, ErrorKind},
    net::SocketAddr,
    time::Duration,
};

use anyhow::anyhow;
use helve_client::Client;
use helve_mcp::{
    Callers,
    legacy::LegacySessions,
    serve::{MCP_PATH, Shutdown, Versions},
};
use helve_proto::is_loopback;
use serde::Serialize;
use tokio::net::{TcpListener, lookup_host};

use super::scraped::Scraped;
use crate::{duration, output::OutputArgs, signals::Signals};

/// Flags of the commands that serve MCP clients.
#[derive(Debug, Clone, clap::Args)]
pub struct ListenArgs {
    /// Address for MCP clients; port 0 takes a free port, and the address is printed
    #[arg(
        long,
        default_value = "127.0.0.1:8080",
        env = "HELVE_LISTEN",
        value_name = "HOST:PORT"
    )]
    listen: String,

    /// Allow a listener beyond this machine: any caller that reaches it sees all carts
    #[arg(long, env = "HELVE_INSECURE")]
    insecure: bool,
}

impl ListenArgs {
    /// Listens.
    ///
    /// # Errors
    /// If the address is none, is beyond this machine without `--insecure`, or is taken.
    pub async fn bind(&self) -> anyhow::Result<TcpListener> {
        let addresses = listen_addresses(&self.listen).await?;
        if !self.insecure && addresses.iter().any(|address| !is_loopback(address.ip())) {
            return Err(
                anyhow!("beyond this machine: bind 127.0.0.1, or add --insecure")
                    .context(format!("--listen {}", self.listen)),
            );
        }
        bind(&self.listen, &addresses).await
    }
}

/// The addresses that `--listen` names.
///
/// # Errors
/// If it names none: do not start.
pub async fn listen_addresses(listen: &str) -> anyhow::Result<Vec<SocketAddr>> {
    let found = lookup_host(listen).await;
    let found = found.map_err(|error| {
        anyhow!(
            "--listen {listen}: {error}; give HOST:PORT with a host of this machine, such as 127.0.0.1:8080"
        )
    });
    Ok(found?.collect())
}

/// Listens where `--listen` says.
///
/// # Errors
/// If that is not possible: do not start.
pub async fn bind(listen: &str, addresses: &[SocketAddr]) -> anyhow::Result<TcpListener> {
    let bound = TcpListener::bind(addresses).await;
    bound.map_err(|error| not_bound("--listen", listen, &error))
}

/// Why nothing listens where a flag says, and what to do about it.
pub(super) fn not_bound(flag: &str, listen: &str, error: &io::Error) -> anyhow::Error {
    let next = match error.kind() {
        ErrorKind::PermissionDenied => {
            "choose a port from 1024 on, or give this user the right to listen on lower ones"
        }
        ErrorKind::AddrInUse => "stop what listens there, or choose another port",
        _ => "give HOST:PORT with a host of this machine, such as 127.0.0.1:8080",
    };
    anyhow!("{flag} {listen}: {error}; {next}")
}

/// Flags of the commands that can serve older MCP clients.
#[derive(Debug, Clone, clap::Args)]
pub struct LegacyArgs {
    /// Serve clients of protocols before 2026-07-28 too; their sessions are kept in the cluster
    #[arg(long, env = "HELVE_LEGACY_SESSIONS")]
    legacy_sessions: bool,

    /// Time that an unused session of such a client is kept
    #[arg(long, default_value = "24h", value_parser = duration::parse, env = "HELVE_SESSION_TTL", value_name = "DURATION")]
    session_ttl: Duration,
}

impl LegacyArgs {
    /// Whether the flags make sense.
    ///
    /// # Errors
    /// If a session would live for no time.
    pub fn check(&self) -> anyhow::Result<()> {
        if self.session_ttl.is_zero() {
            anyhow::bail!("--session-ttl: must be more than zero");
        }
        Ok(())
    }

    /// What the server is to speak.
    pub fn versions(&self) -> Versions {
        if self.legacy_sessions {
            Versions::All
        } else {
            Versions::Modern
        }
    }

    /// Where the sessions of older clients are, if those are served.
    pub fn sessions(&self, client: &Client, callers: Callers) -> Option<LegacySessions> {
        self.legacy_sessions
            .then(|| LegacySessions::new(client, self.session_ttl, callers))
    }
}

/// Where the server is.
#[derive(Serialize)]
struct Serving {
    /// The URL for MCP clients.
    mcp: String,
    /// The URL of the metrics, if a scraper is answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<String>,
}

impl Serving {
    fn text(&self) -> String {
        let mcp = format!("MCP on {}", self.mcp);
        match &self.metrics {
            Some(metrics) => format!("{mcp}\nmetrics on {metrics}"),
            None => mcp,
        }
    }
}

/// Says where MCP is served, and serves until SIGTERM, SIGINT or an error. A signal begins the shutdown that `serve` is given;
/// a second one stops at once. SIGHUP reads again what `signals` was told of. A scraper is answered until the server has stopped.
///
/// # Errors
/// If serving fails, or standard output cannot be written.
pub async fn serve_mcp<S>(
    listener: TcpListener,
    mut signals: Signals,
    output: &OutputArgs,
    scraped: Option<Scraped>,
    serve: impl FnOnce(TcpListener, Shutdown) -> S,
) -> anyhow::Result<()>
where
    S: Future<Output = io::Result<()>>,
{
    let serving = Serving {
        mcp: format!("http://{}{MCP_PATH}", listener.local_addr()?),
        metrics: scraped.as_ref().map(Scraped::url).transpose()?,
    };
    output.announce(&serving, Serving::text)?;
    let _scrapes = scraped.map(Scraped::serve);
    let shutdown = Shutdown::new();
    let serving = serve(listener, shutdown.clone());
    tokio::pin!(serving);
    let signal = tokio::select! {
        ended = &mut serving => return Ok(ended?),
        signal = signals.recv() => signal,
    };
    tracing::info!(%signal, "stopping");
    shutdown.begin();
    tokio::select! {
        ended = &mut serving => Ok(ended?),
        again = signals.recv() => {
            tracing::warn!(signal = %again, "stopping at once: requests under way are cut off");
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_that_cannot_be_had_names_the_remedy_for_its_cause() {
        for (kind, remedy) in [
            (ErrorKind::PermissionDenied, "from 1024 on"),
            (ErrorKind::AddrInUse, "stop what listens there"),
            (ErrorKind::AddrNotAvailable, "a host of this machine"),
        ] {
            let said = not_bound("--listen", "127.0.0.1:80", &kind.into()).to_string();
            assert!(said.starts_with("--listen 127.0.0.1:80: "), "{said}");
            assert!(said.contains(remedy), "{said}");
        }
    }
}
