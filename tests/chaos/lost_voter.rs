//! A voter that loses its volume while the rest of its majority is away: it must not vote as if it still knew what it acknowledged.

use anyhow::{Context as _, Result};
use helve_tests::{
    cluster::Cluster,
    fault::{Fault, Majority, Seen, Target},
    wait::{Look, until},
};
use rand::{
    rngs::SmallRng,
    seq::{IndexedRandom as _, SliceRandom as _},
};
use tonic::async_trait;

/// Log entries that only the leader and the voter hold.
const ENTRIES: u64 = 20;

/// A minority of followers is away while the others and the leader acknowledge writes. Then these die, one of them loses its volume,
/// and it is started with those that were away: they are a majority, and none knows of the writes, so they must not serve until one
/// is back that does.
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
        let leader = Target::Leader.pick(cluster, rng).await?[0];
        let mut away = cluster.others(leader);
        away.shuffle(rng);
        away.truncate((cluster.seats().len() - 1) / 2);
        let mut seen = acknowledged_without(cluster, &away).await?;
        let leader = cluster.leader().await?.seat;
        cluster.kill(leader)?;
        let knowing = cluster.running();
        for &seat in &knowing {
            cluster.kill(seat)?;
        }
        let wiped = *knowing.choose(rng).context("a leader has a majority")?;
        cluster.wipe(wiped)?;
        seen.add(format!(
            "node {wiped} acknowledged them and lost its volume"
        ));
        for seat in away.into_iter().chain([wiped]) {
            cluster.start(seat)?;
        }
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

/// Kills these nodes, and waits until the others have acknowledged entries that they miss.
///
/// # Errors
///
/// If the others do not.
pub(crate) async fn acknowledged_without(cluster: &mut Cluster, away: &[u64]) -> Result<Seen> {
    for &seat in away {
        cluster.kill(seat)?;
    }
    let leader = cluster.leader().await?.seat;
    let known = last_applied(cluster, leader).await?;
    until(
        "entries that those who are away miss",
        async || match last_applied(cluster, leader).await {
            Ok(applied) if applied >= known + ENTRIES => Look::Done(()),
            Ok(applied) => Look::NotYet(format!("{applied}, {ENTRIES} more than {known} needed")),
            Err(error) => Look::NotYet(error.to_string()),
        },
    )
    .await?;
    Ok(Seen::one(format!(
        "nodes {away:?} miss entries from {known} on"
    )))
}

async fn last_applied(cluster: &Cluster, seat: u64) -> Result<u64> {
    Ok(cluster
        .status(seat)
        .await?
        .node
        .unwrap_or_default()
        .applied_index)
}
