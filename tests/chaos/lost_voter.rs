//! A voter that loses its volume while the rest of its majority is away: it must not vote as if it still knew what it acknowledged.

use anyhow::Result;
use helve_tests::{
    cluster::Cluster,
    fault::{Fault, Majority, Seen, Target},
    wait::{Look, until},
};
use rand::rngs::SmallRng;
use tonic::async_trait;

/// Log entries that only the leader and the voter hold.
const ENTRIES: u64 = 20;

/// One follower is away while the other and the leader acknowledge writes. Then the leader dies, the other loses its volume, and
/// both followers are started: neither knows of the writes, so they must not serve until the leader is back.
pub(crate) struct LostVoter;

#[async_trait(?Send)]
impl Fault for LostVoter {
    fn name(&self) -> &'static str {
        "lost-voter"
    }

    fn majority(&self) -> Majority {
        Majority::Lost
    }

    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        let away = Target::Follower.pick(cluster, rng).await?[0];
        cluster.kill(away)?;
        let leader = cluster.leader().await?.seat;
        let known = last_applied(cluster, leader).await?;
        until(
            "entries that one follower misses",
            async || match last_applied(cluster, leader).await {
                Ok(applied) if applied >= known + ENTRIES => Look::Done(()),
                Ok(applied) => {
                    Look::NotYet(format!("{applied}, {ENTRIES} more than {known} needed"))
                }
                Err(error) => Look::NotYet(error.to_string()),
            },
        )
        .await?;
        let mut seen = Seen::one(format!("node {away} misses entries from {known} on"));
        cluster.kill(leader)?;
        for wiped in cluster.running() {
            cluster.wipe(wiped)?;
            cluster.start(wiped)?;
            seen.add(format!(
                "node {wiped} acknowledged them and lost its volume"
            ));
        }
        cluster.start(away)?;
        Ok(seen)
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        let running = cluster.running();
        for seat in cluster.seats() {
            if !running.contains(&seat) {
                cluster.start(seat)?;
            }
        }
        cluster.all_ready().await
    }
}

async fn last_applied(cluster: &Cluster, seat: u64) -> Result<u64> {
    Ok(cluster
        .status(seat)
        .await?
        .node
        .unwrap_or_default()
        .applied_index)
}
