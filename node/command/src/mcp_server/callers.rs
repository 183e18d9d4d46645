//! The flags that say which hosts and origins may be named by who calls an MCP server.

use anyhow::anyhow;
use helve_mcp::{allowed, serve::Access};

use crate::listed;

/// What says for `--allowed-origin` that no page in a browser may call.
const NO_ORIGIN: &str = "none";

/// Which `Host` and `Origin` headers are accepted.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Callers")]
pub struct AccessArgs {
    /// Host header to accept beside those of this machine, such as mcp.example or mcp.example:8443;
    /// may be repeated
    #[arg(
        long,
        value_delimiter = ',',
        value_parser = listed::url,
        env = "HELVE_ALLOWED_HOST",
        value_name = "HOST"
    )]
    pub allowed_host: Vec<String>,

    /// Origin header to accept, as browsers send it: `https://app.example`, with a port only if it
    /// is not the scheme's own, or `:*` for any; may be repeated. `none`: pages in browsers may not
    /// call, as without the flag
    #[arg(
        long,
        value_delimiter = ',',
        value_parser = listed::url,
        env = "HELVE_ALLOWED_ORIGIN",
        value_name = "ORIGIN"
    )]
    pub allowed_origin: Vec<String>,
}

impl AccessArgs {
    /// What the server is to accept. Logs what few clients will match.
    ///
    /// # Errors
    /// If a value could never match a header, is a wildcard, or if `none` is one of several.
    pub fn access(&self) -> anyhow::Result<Access> {
        let hosts = self
            .allowed_host
            .iter()
            .map(|value| allowed::host(value).map_err(|error| anyhow!("--allowed-host {error}")));
        let hosts: Vec<String> = hosts.collect::<anyhow::Result<_>>()?;
        for why in allowed::warnings(&hosts) {
            tracing::warn!("--allowed-host {why}");
        }
        let origins = match &self.allowed_origin[..] {
            [none] if none == NO_ORIGIN => &[],
            origins if origins.iter().any(|origin| origin == NO_ORIGIN) => {
                anyhow::bail!(
                    "--allowed-origin is `none` and also an origin: give one or the other"
                )
            }
            origins => origins,
        };
        let origins = origins.iter().map(|value| {
            allowed::origin(value).map_err(|error| anyhow!("--allowed-origin {error}"))
        });
        Ok(Access {
            hosts,
            origins: origins.collect::<anyhow::Result<_>>()?,
            ..Access::default()
        })
    }
}
