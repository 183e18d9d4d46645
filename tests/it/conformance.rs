//! The one conformance suite, on every host: in memory, on one node, on three.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use anyhow::Result;
use futures::FutureExt as _;
use helve_client::{Client, ClusterBuilder, Error, HandleOptions, HandleStore, MemoryBuilder, Ttl};
use helve_conformance::{CASES, Host};
use helve_tests::cluster::Cluster;

use super::nodes;

/// A cluster, with a client that begins with each node.
struct Nodes {
    endpoints: Vec<String>,
    clients: Vec<Client>,
}

impl Nodes {
    fn of(cluster: &Cluster) -> Result<Self, Error> {
        let endpoints = cluster.endpoints();
        let clients = (0..endpoints.len()).map(|first| {
            let mut endpoints = endpoints.clone();
            endpoints.rotate_left(first);
            ClusterBuilder::new(endpoints).build()
        });
        let clients = clients.collect::<Result<_, _>>()?;
        Ok(Self { endpoints, clients })
    }
}

impl Host for Nodes {
    fn client(&self, node: usize) -> Client {
        self.clients[node % self.clients.len()].clone()
    }

    fn own_client(&self) -> Client {
        let builder = ClusterBuilder::new(self.endpoints.clone());
        builder.build().expect("the endpoints were good before")
    }
}

struct Memory(Client);

impl Host for Memory {
    fn client(&self, _node: usize) -> Client {
        self.0.clone()
    }

    fn own_client(&self) -> Client {
        MemoryBuilder::new().build().expect("it needs nothing")
    }

    fn is_in_process(&self) -> bool {
        true
    }
}

/// Runs every case, and names all that fail.
async fn assert_conforms(host: Arc<dyn Host>) {
    let mut failed = Vec::new();
    for case in CASES {
        println!("{}", case.name);
        let run = AssertUnwindSafe(case.run(Arc::clone(&host))).catch_unwind();
        match run.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => failed.push(format!("{}: {error:?}", case.name)),
            Err(_) => failed.push(format!("{}: panicked, see above", case.name)),
        }
    }
    let count = CASES.len();
    assert!(
        failed.is_empty(),
        "{} of {count} cases:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

/// The in-memory host shows the same in a test of its own: no caller can take its entropy away.
#[tokio::test]
async fn minting_fails_and_leaves_nothing_when_entropy_fails() -> Result<()> {
    for count in [1, 3] {
        let cluster = nodes(count)
            .with("HELVE_PLANTED", "no-entropy")
            .start()
            .await?;
        let client = Nodes::of(&cluster)?
            .client(0)
            .with_deadline(Duration::from_secs(2));
        let carts = client.handles::<u32>(HandleOptions::shared("carts"));
        let minted = carts.mint(&1, Ttl::Default).await;
        assert!(minted.is_err(), "{minted:?} was minted without entropy");
        assert_eq!(carts.len().await?, 0);
        // An id of the caller's own choosing needs none.
        carts.put("mine", &1, Ttl::Default).await?;
        assert_eq!(carts.get("mine").await?, Some(1));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_passes() -> Result<()> {
    assert_conforms(Arc::new(Memory(MemoryBuilder::new().build()?))).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_passes() -> Result<()> {
    let cluster = nodes(1).start().await?;
    assert_conforms(Arc::new(Nodes::of(&cluster)?)).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_pass() -> Result<()> {
    let cluster = nodes(3).start().await?;
    assert_conforms(Arc::new(Nodes::of(&cluster)?)).await;
    Ok(())
}
