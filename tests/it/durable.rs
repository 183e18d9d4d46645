//! What is acknowledged was synced by a majority first. Killing processes cannot show that: the system keeps what they wrote.

use anyhow::{Context as _, Result};
use helve_tests::{cluster::Cluster, promise};

use super::{nodes, replay::mint_of};

/// Syncs of the log on all nodes so far.
async fn syncs(cluster: &Cluster) -> Result<u64> {
    let mut syncs = 0;
    for seat in cluster.running() {
        let node = cluster.status(seat).await?.node;
        syncs += node.context("a status names its node")?.log_syncs;
    }
    Ok(syncs)
}

/// One write after the other: each must have been synced by the leader and one more, and shares its syncs with no other.
pub(crate) async fn check_syncs(cluster: &Cluster) -> Result<()> {
    const WRITES: u64 = 20;
    let caller = cluster.caller(cluster.running()[0]);
    let before = syncs(cluster).await?;
    for _ in 0..WRITES {
        caller.mint(mint_of("carts")).await?;
    }
    let made = syncs(cluster).await? - before;
    promise!(
        made >= 2 * WRITES,
        "{WRITES} writes were acknowledged after {made} syncs"
    );
    Ok(())
}

#[tokio::test]
async fn each_write_is_synced_by_a_majority_before_it_is_acknowledged() -> Result<()> {
    check_syncs(&nodes(3).start().await?).await
}
