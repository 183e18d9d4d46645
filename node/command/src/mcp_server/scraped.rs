//! `--metrics-listen`: a listener of its own for the scraper of what serves HTTP.

use std::fmt;

use anyhow::anyhow;
use helve_mcp::{
    metrics::{METRICS_PATH, Metrics, serve},
    serve::{EndOnDrop, Shutdown},
};
use helve_node::process_metrics;
use prometheus_client::encoding::text;
use tokio::net::TcpListener;

use super::serving::not_bound;

/// The flag of everything that serves HTTP beside the nodes.
#[derive(Debug, Clone, clap::Args)]
pub struct MetricsArgs {
    /// Answer /metrics on a listener of its own, without a token: bind it where only the scraper
    /// reaches it. Port 0 takes a free one
    #[arg(long, env = "HELVE_METRICS_LISTEN", value_name = "HOST:PORT")]
    metrics_listen: Option<String>,
}

/// A listener for a scraper, and what it answers.
pub struct Scraped {
    listener: TcpListener,
    metrics: Metrics,
}

impl MetricsArgs {
    /// Listens, if the flag is there.
    ///
    /// # Errors
    /// If the address is none, or is taken.
    pub async fn bind(&self, metrics: &Metrics) -> anyhow::Result<Option<Scraped>> {
        let Some(address) = &self.metrics_listen else {
            return Ok(None);
        };
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|error| not_bound("--metrics-listen", address, &error))?;
        Ok(Some(Scraped {
            listener,
            metrics: metrics.clone(),
        }))
    }

    /// Whether the flag makes sense for a server without a listener.
    ///
    /// # Errors
    /// If it is there.
    pub fn refuse_with_stdio(&self) -> anyhow::Result<()> {
        match &self.metrics_listen {
            Some(_) => Err(anyhow!(
                "--metrics-listen with --stdio: one client's server counts nothing that a scraper reads; leave it out"
            )),
            None => Ok(()),
        }
    }
}

impl Scraped {
    /// The page's URL.
    ///
    /// # Errors
    /// If the operating system does not say where it listens.
    pub fn url(&self) -> anyhow::Result<String> {
        Ok(format!(
            "http://{}{METRICS_PATH}",
            self.listener.local_addr()?
        ))
    }

    /// Answers scrapes until what this returns is dropped.
    pub fn serve(self) -> EndOnDrop {
        let shutdown = Shutdown::new();
        let Self { listener, metrics } = self;
        let serving = serve(listener, move || page(&metrics), shutdown.clone());
        tokio::spawn(async move {
            if let Err(error) = serving.await {
                tracing::error!(%error, "--metrics-listen: no scrape is answered any more");
            }
        });
        shutdown.end_on_drop()
    }
}

/// What the server counts, and what the operating system says of its process.
fn page(metrics: &Metrics) -> Result<String, fmt::Error> {
    let mut page = String::new();
    metrics.encode(&mut page)?;
    text::encode_registry(&mut page, &process_metrics())?;
    text::encode_eof(&mut page)?;
    Ok(page)
}
