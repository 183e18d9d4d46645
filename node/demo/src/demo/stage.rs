//! All that runs for the demo.

use std::path::Path;

use super::{
    nodes::Nodes,
    processes::free_addresses,
    replicas::Replicas,
    secrets::{Holder, Secrets},
};

/// How many nodes and cart servers there are.
pub(super) const NODES: usize = 3;
pub(super) const REPLICAS: usize = 2;

/// All that runs for the demo. If it is dropped, its processes are killed.
pub(super) struct Stage {
    pub(super) secrets: Secrets,
    pub(super) nodes: Nodes,
    pub(super) replicas: Replicas,
}

impl Stage {
    /// Makes the secrets, starts everything, and waits until it serves.
    pub(super) async fn set(dir: &Path) -> anyhow::Result<Self> {
        let secrets = Secrets::make(&dir.join("secrets"), NODES).await?;
        let addresses = free_addresses(NODES * 3 + REPLICAS)?;
        let (for_nodes, for_replicas) = addresses.split_at(NODES * 3);
        let mut nodes = Nodes::start(dir, &secrets, for_nodes)?;
        let endpoints = nodes.endpoints();
        let cluster = secrets.call_flags(Holder::Writer, &endpoints);
        let mut replicas = Replicas::start(dir, &cluster, for_replicas).await?;
        nodes.ready().await?;
        secrets.admit(&endpoints).await?;
        replicas.ready().await?;
        Ok(Self {
            secrets,
            nodes,
            replicas,
        })
    }

    /// Kills all processes, and waits until they are dead.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        let replicas = self
            .replicas
            .replicas
            .into_iter()
            .map(|replica| replica.process);
        for mut process in replicas.chain(self.nodes.0.into_iter().map(|node| node.process)) {
            if process.pid().is_some() {
                process.kill().await?;
            }
        }
        Ok(())
    }
}
