//! Every node stopped, and started again.

use anyhow::Result;
use helve_tests::{cluster::Cluster, ledger::Ledger};

use super::nodes;

/// Handles minted in each round, through each node.
const MINTS: usize = 10;

async fn mint_through_every_node(cluster: &Cluster, ledger: &Ledger) -> Result<()> {
    for seat in cluster.seats() {
        for _ in 0..MINTS {
            ledger.mint(&[cluster.caller(seat)]).await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn all_nodes_killed_at_once_come_back_with_every_acknowledged_write() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let ledger = Ledger::new("carts");
    for _ in 0..2 {
        mint_through_every_node(&cluster, &ledger).await?;
        for seat in cluster.seats() {
            cluster.kill(seat)?;
        }
        for seat in cluster.seats() {
            cluster.start(seat)?;
        }
        cluster.all_ready().await?;
        ledger.check(&cluster).await?;
    }
    Ok(())
}

#[tokio::test]
async fn all_nodes_stopped_in_turn_come_back_with_every_acknowledged_write() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let ledger = Ledger::new("carts");
    mint_through_every_node(&cluster, &ledger).await?;
    for seat in cluster.seats() {
        cluster.node(seat).terminate()?;
        let status = cluster.node_mut(seat).stopped().await?;
        assert!(status.success(), "node {seat} stopped with {status}");
    }
    for seat in cluster.seats() {
        cluster.start(seat)?;
    }
    cluster.all_ready().await?;
    ledger.check(&cluster).await
}

#[tokio::test]
async fn a_single_node_that_is_killed_comes_back_with_every_acknowledged_write() -> Result<()> {
    let mut cluster = nodes(1).start().await?;
    let ledger = Ledger::new("carts");
    for _ in 0..3 {
        mint_through_every_node(&cluster, &ledger).await?;
        cluster.kill(1)?;
        cluster.start(1)?;
        cluster.all_ready().await?;
        ledger.check(&cluster).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_node_that_was_away_has_every_acknowledged_write_when_it_is_ready() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let ledger = Ledger::new("carts");
    for seat in cluster.seats() {
        cluster.kill(seat)?;
        let other = cluster.others(seat)[0];
        for _ in 0..MINTS {
            ledger.mint(&[cluster.caller(other)]).await?;
        }
        cluster.start(seat)?;
        cluster.ready(seat).await?;
        ledger.check(&cluster).await?;
    }
    Ok(())
}
