//! A disk that is put back to an older state while only the rest of its majority knows better.

use anyhow::{Context as _, Result};
use helve_tests::{
    cluster::Cluster,
    fault::{Fault, Majority, Seen, Target, wipe::votes_again},
    wait::{Look, until},
};
use rand::{
    rngs::SmallRng,
    seq::{IndexedRandom as _, SliceRandom as _},
};
use tonic::async_trait;

use super::lost_voter::acknowledged_without;

/// A minority of followers is away while the others acknowledge writes. Then all stop, the disk of one that acknowledged is put back to
/// an image from before, and all start together: that one and those that were away are a majority, and none of them knows of the
/// writes. The others do, and must be heard.
#[derive(Default)]
pub(crate) struct RestoredDisk {
    restored: Option<u64>,
}

#[async_trait(?Send)]
impl Fault for RestoredDisk {
    fn name(&self) -> &'static str {
        "restored-disk"
    }

    fn majority(&self) -> Majority {
        Majority::Lost
    }

    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        let leader = Target::Leader.pick(cluster, rng).await?[0];
        let followers = cluster.others(leader);
        let restored = *followers.choose(rng).context("a leader has followers")?;
        cluster.kill(restored)?;
        let image = cluster.take_image(restored)?;
        cluster.start(restored)?;
        cluster.ready(restored).await?;
        let leader = cluster.leader().await?.seat;
        let mut away = cluster.others(leader);
        away.retain(|&seat| seat != restored);
        away.shuffle(rng);
        away.truncate((cluster.seats().len() - 1) / 2);
        let mut seen = acknowledged_without(cluster, &away).await?;
        for seat in cluster.running() {
            cluster.kill(seat)?;
        }
        cluster.put_image_back(restored, &image)?;
        self.restored = Some(restored);
        for seat in cluster.seats() {
            cluster.start(seat)?;
        }
        seen.add(comes_back(cluster, restored).await?);
        Ok(seen)
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        let Some(restored) = self.restored.take() else {
            return Ok(());
        };
        if warning(cluster, restored).await?.contains("put back") {
            cluster.kill(restored)?;
            cluster.empty(restored)?;
            cluster.start(restored)?;
            votes_again(cluster, restored).await?;
        }
        cluster.all_ready().await
    }
}

async fn warning(cluster: &Cluster, seat: u64) -> Result<String> {
    let status = cluster.status(seat).await?;
    Ok(status.node.unwrap_or_default().warning)
}

/// Waits until the node on the older disk says so, or serves as if nothing were wrong.
async fn comes_back(cluster: &Cluster, seat: u64) -> Result<String> {
    until(
        "the node on the older disk to come back",
        async || match cluster
            .status(seat)
            .await
            .map(|reply| reply.node.unwrap_or_default())
        {
            Ok(node) if node.ready => Look::Done(format!("node {seat} serves from an older disk")),
            Ok(node) if node.warning.contains("put back to an older state") => {
                Look::Done(format!("node {seat} says: {}", node.warning))
            }
            other => Look::NotYet(format!("{other:?}")),
        },
    )
    .await
}
