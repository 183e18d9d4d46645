//! Looks at the files again and again, so that certificates change without a restart.

use std::{sync::Arc, time::Duration};

use tokio::time::{MissedTickBehavior, interval};

use super::port::{PortTls, Reload};
use crate::stamp;

/// Between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The certificates of a node. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Certificates(Vec<Arc<PortTls>>);

impl Certificates {
    /// Those of these ports.
    pub fn new(ports: impl IntoIterator<Item = Arc<PortTls>>) -> Self {
        Self(ports.into_iter().collect())
    }

    /// The ports that have one.
    #[must_use]
    pub fn ports(&self) -> &[Arc<PortTls>] {
        &self.0
    }

    /// When the first of them expires, in milliseconds since the Unix epoch; 0 without any.
    #[must_use]
    pub fn first_expiry_ms(&self) -> u64 {
        let ends = self.0.iter().map(|port| port.certificate().not_after_ms);
        ends.min().unwrap_or(0)
    }

    /// What an operator should know of those that end soon.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let now_ms = stamp::wall_ms();
        let warning = |port: &Arc<PortTls>| {
            let said = port.certificate().warning(now_ms)?;
            let flag = port.flag();
            Some(format!(
                "the certificate of {flag} {said}: put a new one in its place, no restart is needed"
            ))
        };
        self.0.iter().filter_map(warning).collect()
    }

    /// Keeps looking. An open connection keeps the certificate that it was made with.
    pub async fn watch(self) {
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            look.tick().await;
            for port in &self.0 {
                let looking = Arc::clone(port);
                // Files are read off the runtime: they may lie on a network.
                let looked = tokio::task::spawn_blocking(move || looking.reload()).await;
                match looked {
                    Ok(Ok(Reload::Unchanged)) => {}
                    Ok(Ok(Reload::Changed)) => {
                        tracing::info!(
                            flag = port.flag(),
                            expires_ms = port.certificate().not_after_ms,
                            "new certificates are in use"
                        );
                    }
                    Ok(Err(error)) => {
                        tracing::warn!(%error, "the new certificates are no good; those before stay in use");
                    }
                    Err(error) => {
                        tracing::error!(%error, "the certificates could not be looked at");
                    }
                }
            }
        }
    }
}
