//! A learner beside a node whose disk was put back.

use anyhow::Result;
use helve_tests::{
    cluster::Cluster,
    ledger::Ledger,
    promise,
    wait::{Look, until},
};

use super::{mint, put_back, replace, says_so, stop};
use crate::{membership::add, nodes, probes::get};

/// Waits until a node says how many voters answer it, and returns what it says.
async fn waits_for_voters(cluster: &Cluster, seat: u64) -> Result<String> {
    let http = cluster.listeners(seat).http;
    let node = format!("node {seat} to ask the voters what it acknowledged");
    until(&node, async || match get(http, "/readyz").await {
        Ok((503, page)) if page.contains("voters answer") => Look::Done(page),
        other => Look::NotYet(format!("{other:?}")),
    })
    .await
}

#[tokio::test]
async fn a_learner_does_not_clear_a_node_on_an_older_disk() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let ledger = Ledger::new("carts");
    let (older, knowing, third) = (1, 2, 3);
    let learner = cluster.add_seat()?;
    cluster.node_mut(learner).set("HELVE_LEARNER", "true");
    cluster.start(learner)?;
    add(&cluster, learner).await?;
    cluster.ready(learner).await?;
    mint(&ledger, &cluster, &[older, knowing, third]).await?;
    stop(&mut cluster, older).await?;
    let image = cluster.take_image(older)?;
    // What the node acknowledges from here on, and that it ran, one voter alone hears of.
    cluster.kill(learner)?;
    cluster.kill(third)?;
    cluster.start(older)?;
    cluster.ready(older).await?;
    mint(&ledger, &cluster, &[older, knowing]).await?;
    stop(&mut cluster, knowing).await?;
    cluster.kill(older)?;

    cluster.start(learner)?;
    waits_for_voters(&cluster, learner).await?;
    put_back(&mut cluster, older, &image)?;
    let page = waits_for_voters(&cluster, older).await?;
    promise!(page.contains("0 of 2 voters answer"), "{page}");
    cluster.start(knowing)?;
    says_so(&mut cluster, older).await?;
    cluster.start(third)?;
    replace(&mut cluster, older).await?;
    ledger.check(&cluster).await
}
