//! The injectors of faults themselves: each does what it says, shows that it did, and leaves a cluster that works.

use anyhow::{Context as _, Result};
use helve_tests::{
    cluster::Cluster,
    fault::{self, Fault},
    ledger::Ledger,
};
use rand::{SeedableRng as _, rngs::SmallRng};

use super::nodes;

/// Starts three nodes as the fault wants them, strikes, heals, and compares what was acknowledged with what is there.
async fn strike_and_heal(name: &str) -> Result<(Box<dyn Fault>, Cluster)> {
    let mut fault = fault::named(name).context("there is such a fault")?;
    let mut cluster = fault.prepare(nodes(3))?.start().await?;
    let ledger = Ledger::new("carts");
    let callers: Vec<_> = cluster
        .seats()
        .into_iter()
        .map(|seat| cluster.caller(seat))
        .collect();
    for _ in 0..20 {
        ledger.mint(&callers).await?;
    }
    let seen = fault
        .strike(&mut cluster, &mut SmallRng::seed_from_u64(7))
        .await?;
    println!("{name}: {seen}");
    assert!(!seen.evidence().is_empty(), "{name} left no evidence");
    fault.heal(&mut cluster).await?;
    for _ in 0..20 {
        ledger.mint(&callers).await?;
    }
    ledger.check(&cluster).await?;
    Ok((fault, cluster))
}

macro_rules! struck_and_healed {
    ($($test:ident: $name:literal;)*) => {$(
        #[tokio::test]
        async fn $test() -> Result<()> {
            strike_and_heal($name).await.map(|_| ())
        }
    )*};
}

struck_and_healed! {
    a_killed_leader_comes_back: "kill-leader";
    all_killed_nodes_come_back: "kill-all";
    a_frozen_leader_goes_on: "freeze-leader";
    all_nodes_restart_in_turn: "rolling-restart";
    a_cluster_starts_without_one_node_and_goes_on_without_another: "cold-start-one-missing";
    a_wiped_node_comes_back_under_a_new_id: "wiped-volume";
    leadership_goes_round: "leader-transfer-loop";
}
