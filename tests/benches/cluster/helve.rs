//! Three Helve nodes through the client crate.

mod secured;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use helve_client::{
    Client, ClusterBuilder, HandleOptions, HandleStore, Handles, KeyOptions, Keys, PutOutcome,
    Resolved, StateTool, Ttl,
};
use helve_tests::{
    cluster::{Cluster, Setup},
    process::binary,
};
use serde_json::Value;
use tempfile::TempDir;
use tonic::async_trait;

use self::secured::Secured;
use crate::product::{Found, Running, Session};

const STORE: &str = "bench";

/// Nodes, and a client for each of them alone: so each call goes through the node that is meant,
/// whichever node leads.
pub(crate) struct Helve {
    cluster: Cluster,
    clients: Vec<Client>,
    /// What the nodes read from files, if they do.
    _secrets: Option<TempDir>,
}

impl Helve {
    /// Nodes that trust every caller.
    pub(crate) async fn start() -> Result<Self> {
        let cluster = setup().start().await?;
        let clients = clients(&cluster, Ok)?;
        Ok(Self {
            cluster,
            clients,
            _secrets: None,
        })
    }

    /// Nodes that trust no caller.
    pub(crate) async fn start_secured() -> Result<Self> {
        let secured = Secured::start(setup()).await?;
        let clients = clients(&secured.cluster, |builder| secured.client(builder))?;
        Ok(Self {
            cluster: secured.cluster,
            clients,
            _secrets: Some(secured.secrets),
        })
    }

    /// From now on each call travels by itself.
    pub(crate) fn unary(mut self) -> Result<Self> {
        self.clients = clients(&self.cluster, |builder| Ok(builder.unary()))?;
        Ok(self)
    }
}

fn setup() -> Setup {
    let binary = binary(env!("CARGO_BIN_EXE_helve-under-test"));
    Setup::new(binary, 3).beside_others()
}

fn clients(
    cluster: &Cluster,
    with: impl Fn(ClusterBuilder) -> Result<ClusterBuilder>,
) -> Result<Vec<Client>> {
    let endpoints = cluster.endpoints().into_iter();
    let client = |endpoint| Ok(with(ClusterBuilder::new([endpoint]))?.build()?);
    endpoints.map(client).collect()
}

#[async_trait(?Send)]
impl Running for Helve {
    async fn session(&self, caller: usize) -> Result<Box<dyn Session>> {
        let nodes = self.clients.iter().map(|client| Node {
            handles: client.handles(HandleOptions::shared(STORE)),
            keys: client.keys(KeyOptions::shared()),
        });
        Ok(Box::new(HelveSession {
            nodes: nodes.collect(),
            next: caller,
        }))
    }

    async fn stop(self: Box<Self>) -> Result<()> {
        self.cluster.stop().await
    }

    fn pids(&self) -> Vec<u32> {
        let seats = self.cluster.seats().into_iter();
        seats
            .filter_map(|seat| self.cluster.node(seat).pid())
            .collect()
    }

    async fn syncs(&self) -> Result<Option<u64>> {
        let mut syncs = 0;
        for seat in self.cluster.seats() {
            let status = self.cluster.status(seat).await?;
            syncs += status.node.context("a status names its node")?.log_syncs;
        }
        Ok(Some(syncs))
    }
}

struct Node {
    handles: Handles<String>,
    keys: Keys,
}

struct HelveSession {
    nodes: Vec<Node>,
    next: usize,
}

impl HelveSession {
    fn next(&mut self) -> &Node {
        self.next += 1;
        &self.nodes[self.next % self.nodes.len()]
    }
}

#[async_trait(?Send)]
impl Session for HelveSession {
    async fn mint(&mut self, value: &str) -> Result<String> {
        let value = value.to_owned();
        Ok(self.next().handles.mint(&value, Ttl::Never).await?)
    }

    async fn create(&mut self, value: &str) -> Result<String> {
        // A mint is one: the node draws the id.
        self.mint(value).await
    }

    async fn mint_with_ttl(&mut self, value: &str, ttl: Duration) -> Result<String> {
        let value = value.to_owned();
        Ok(self.next().handles.mint(&value, Ttl::After(ttl)).await?)
    }

    async fn get(&mut self, id: &str) -> Result<Found> {
        match self.next().handles.resolve(id).await? {
            Resolved::Live(record) => Ok(Found {
                revision: record.info.revision,
                value: record.value,
            }),
            lost => anyhow::bail!("{id} is lost: {lost:?}"),
        }
    }

    async fn put(&mut self, id: &str, value: &str) -> Result<()> {
        let value = value.to_owned();
        let was_there = self.next().handles.put(id, &value, Ttl::Keep).await?;
        ensure!(was_there, "{id} is lost");
        Ok(())
    }

    async fn put_if(&mut self, id: &str, found: &Found, value: &str) -> Result<bool> {
        let value = value.to_owned();
        let handles = &self.next().handles;
        let put = handles
            .put_if(id, &value, Ttl::Keep, found.revision)
            .await?;
        match put {
            PutOutcome::Replaced(_) => Ok(true),
            PutOutcome::Conflict { .. } => Ok(false),
            other => anyhow::bail!("{id}: {other:?}"),
        }
    }

    async fn take(&mut self, id: &str) -> Result<()> {
        let taken = self.next().handles.take(id).await?;
        ensure!(matches!(taken, Resolved::Live(_)), "{id}: {taken:?}");
        Ok(())
    }

    async fn store_batch(&mut self, items: &[(String, String)]) -> Result<()> {
        let item = |(key, value): &(String, String)| (key.clone(), Value::String(value.clone()));
        let items: Vec<_> = items.iter().map(item).collect();
        Ok(self.next().keys.batch_store(&items).await?)
    }

    async fn retrieve_batch(&mut self, keys: &[String]) -> Result<()> {
        let values = self.next().keys.batch_retrieve(keys).await?;
        ensure!(values.iter().all(Option::is_some), "a key is lost");
        Ok(())
    }

    async fn list(&mut self, prefix: &str) -> Result<usize> {
        Ok(self.next().keys.list(prefix).await?.len())
    }
}
