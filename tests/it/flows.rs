//! Cart flows through a balancer: what `helve flows` says of a cluster that keeps its promise, of one that does not, and of none.

use std::{iter, path::Path};

use anyhow::{Context as _, Result};
use helve_client::{ClusterBuilder, KeyOptions, Keys, StateTool as _};
use helve_mcp::cart::ORDERS;
use helve_tests::{
    cluster::Cluster,
    process::{Process, Start},
    wait::{Look, until},
};
use serde_json::Value;
use tempfile::TempDir;

use super::{
    binary,
    command_line::{ABSENT, UNAVAILABLE},
    nodes,
};

/// Orders that a run makes before it is asked to stop.
const ORDERS_MADE: usize = 5;

/// A cart server behind a balancer, and the client that looks on.
struct Shop {
    cluster: Cluster,
    _servers: [Process; 2],
    url: String,
    keys: Keys,
    directory: TempDir,
}

impl Shop {
    async fn open() -> Result<Self> {
        let cluster = nodes(3).start().await?;
        let directory = tempfile::tempdir()?;
        let listen = ["--listen", "127.0.0.1:0", "--output", "json"];
        let endpoints = cluster.endpoints().join(",");
        let cart = [&["cart", "--endpoints", &endpoints], &listen[..]].concat();
        let (cart, cart_url) = serve(&cart, directory.path()).await?;
        let to = cart_url
            .trim_start_matches("http://")
            .trim_end_matches("/mcp");
        let balancer = [&["balancer", "--to", to], &listen[..]].concat();
        let (balancer, url) = serve(&balancer, directory.path()).await?;
        let client = ClusterBuilder::new(cluster.endpoints()).build()?;
        Ok(Self {
            cluster,
            _servers: [cart, balancer],
            url,
            keys: client.keys(KeyOptions::shared()),
            directory,
        })
    }

    fn flows(&self, arguments: &[&str]) -> Result<Process> {
        let endpoints = self.cluster.endpoints().join(",");
        let own = ["flows", "--url", &self.url, "--endpoints", &endpoints];
        let quiet = ["--output", "json", "--log", "off"];
        let flows = [&own[..], &quiet, arguments].concat();
        started(&flows, self.directory.path())
    }

    async fn orders(&self) -> Result<Vec<String>> {
        until("orders", async || match self.keys.list(ORDERS).await {
            Ok(orders) if orders.len() >= ORDERS_MADE => Look::Done(orders),
            Ok(orders) => Look::NotYet(format!("{} orders", orders.len())),
            Err(error) => Look::NotYet(error.to_string()),
        })
        .await
    }
}

fn started(arguments: &[&str], directory: &Path) -> Result<Process> {
    let start = Start {
        binary: binary(),
        arguments: arguments.iter().map(Into::into).collect(),
        environment: Vec::new(),
    };
    let mut process = Process::new(start, directory.join(format!("{}.log", arguments[0])));
    process.start()?;
    Ok(process)
}

/// Starts a server, and waits until it says where it serves.
async fn serve(arguments: &[&str], directory: &Path) -> Result<(Process, String)> {
    let process = started(arguments, directory)?;
    let url = until("a server to say where it is", async || {
        let said = process.log_tail();
        match figures(&said)["mcp"].as_str() {
            Some(url) => Look::Done(url.to_owned()),
            None => Look::NotYet(said),
        }
    });
    let url = url.await?;
    Ok((process, url))
}

/// The first JSON object in what was said; null if there is none.
fn figures(said: &str) -> Value {
    let object = said.find('{').map(|start| &said[start..]);
    let mut values = iter::once(object.unwrap_or_default())
        .flat_map(|object| serde_json::Deserializer::from_str(object).into_iter::<Value>());
    values.next().and_then(Result::ok).unwrap_or_default()
}

#[tokio::test]
async fn flows_on_a_cluster_that_loses_nothing_end_well() -> Result<()> {
    let shop = Shop::open().await?;
    for _ in 0..2 {
        // What an earlier run left behind is no finding of the next.
        let mut flows = shop.flows(&["--flows", "20"])?;
        let status = flows.stopped().await?;
        assert!(status.success(), "{status}: {}", flows.log_tail());
    }
    assert_eq!(shop.orders().await?.len(), 2 * 16);
    Ok(())
}

#[tokio::test]
async fn flows_find_an_order_that_was_deleted_behind_their_back() -> Result<()> {
    let shop = Shop::open().await?;
    let mut flows = shop.flows(&[])?;
    let order = shop.orders().await?.into_iter().next();
    shop.keys.delete(&order.context("no order")?).await?;
    flows.terminate()?;
    let status = flows.stopped().await?;
    let said = flows.log_tail();
    assert_eq!(status.code(), Some(ABSENT), "{said}");
    assert!(figures(&said)["lost"].as_u64() > Some(0), "{said}");
    Ok(())
}

#[tokio::test]
async fn flows_that_reach_no_cart_server_show_nothing() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let directory = tempfile::tempdir()?;
    let endpoints = cluster.endpoints().join(",");
    let unanswered = [
        "flows",
        "--url",
        "http://127.0.0.1:1/mcp",
        "--endpoints",
        &endpoints,
    ];
    let few = ["--flows", "4", "--patience", "100ms", "--output", "json"];
    let mut flows = started(&[&unanswered[..], &few].concat(), directory.path())?;
    let status = flows.stopped().await?;
    let said = flows.log_tail();
    assert_eq!(status.code(), Some(UNAVAILABLE), "{said}");
    // Not in the words of the libraries between.
    assert!(
        !said.contains("rmcp::") && !said.contains("reqwest"),
        "{said}"
    );
    assert!(said.contains("at last: Connection refused"), "{said}");
    Ok(())
}
