//! The flags of everything that serves HTTP: how many connections it bears, and how it stops.

use std::time::Duration;

use anyhow::bail;
use helve_mcp::serve::{Bounds, Drain};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::scraped::MetricsArgs;
use crate::duration;

/// Limits of connections, and how the server stops.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Connections")]
pub struct EdgeArgs {
    /// Connections that may be open at once, half of them from one address, as far as the limit of
    /// open files allows. Over it, a connection without a request is closed for the next one; if
    /// there is none, the answer is 503, or 429 to an address over its half
    #[arg(long, default_value_t = 4_096, value_parser = clap::value_parser!(u32).range(1..), env = "HELVE_MAX_CONNECTIONS", value_name = "N")]
    max_connections: u32,

    /// Time that a caller has to send the head of a request; after it the answer is 408
    #[arg(long, default_value = "10s", value_parser = duration::parse, hide_short_help = true, env = "HELVE_HEAD_TIMEOUT", value_name = "DURATION")]
    head_timeout: Duration,

    /// Time that a caller has to send the body; after it the answer is 408, as it is for less than
    /// 10 KiB in 10 seconds
    #[arg(long, default_value = "1m", value_parser = duration::parse, hide_short_help = true, env = "HELVE_BODY_TIMEOUT", value_name = "DURATION")]
    body_timeout: Duration,

    /// Time that callers are still served after SIGTERM, while /readyz answers 503: long enough for
    /// a balancer to notice
    #[arg(long, default_value = "0s", value_parser = duration::parse, env = "HELVE_DRAIN_DELAY", value_name = "DURATION")]
    drain_delay: Duration,

    /// Time that requests under way have after that; then they are cut off
    #[arg(long, default_value = "10s", value_parser = duration::parse, env = "HELVE_DRAIN_TIMEOUT", value_name = "DURATION")]
    drain_timeout: Duration,

    #[command(flatten)]
    metrics: MetricsArgs,
}

impl EdgeArgs {
    /// What callers are bounded by.
    ///
    /// # Errors
    /// If no request could be sent.
    pub fn bounds(&self) -> anyhow::Result<Bounds> {
        for (flag, time) in [
            ("--head-timeout", self.head_timeout),
            ("--body-timeout", self.body_timeout),
        ] {
            if time.is_zero() {
                bail!("{flag}: must be more than zero");
            }
        }
        raise_open_files();
        let bounds = Bounds {
            head_time: self.head_timeout,
            body_time: self.body_timeout,
            ..Bounds::default()
        };
        let wanted = self.max_connections as usize;
        let bounds = bounds.connections(wanted).within_open_files();
        if bounds.connections < wanted {
            let connections = bounds.connections;
            tracing::info!(
                connections,
                "the limit of open files limits connections: raise it (`ulimit -n`) for more"
            );
        }
        Ok(bounds)
    }

    /// Where a scraper is answered, if anywhere.
    #[must_use]
    pub fn metrics(&self) -> &MetricsArgs {
        &self.metrics
    }

    /// How the server stops.
    pub fn drain(&self) -> Drain {
        Drain {
            delay: self.drain_delay,
            timeout: self.drain_timeout,
            ..Drain::default()
        }
    }
}

/// Raises the limit of open files to what the process may raise it to.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::debug!(%error, "cannot raise the limit of open files");
    }
}
