//! Nodes of two versions in one cluster: an upgrade that goes from node to node, and back before all have it.

use anyhow::{Result, ensure};
use helve_proto::v1::MintRequest;
use rand::{rngs::SmallRng, seq::SliceRandom as _};
use tonic::async_trait;

use super::{Fault, Seen, nudge::STORE, restart::stop};
use crate::{
    caller::new_identity,
    cluster::Cluster,
    wait::{Look, until},
};

/// The feature level of the version under test, and of the same with one level more.
const OLD: u32 = helve_machine::limits::FEATURE_LEVEL;
const NEW: u32 = OLD + 1;
/// How a node ends that must not start.
const REFUSED: i32 = 2;

/// One node after the other is stopped and started as the next version, and one of them as the old one again in between. Once the
/// last has it, the cluster's level rises, and no way leads back: then an old version is refused. Needs a build that knows the next
/// level.
#[derive(Debug)]
pub struct RollingUpgrade;

#[async_trait(?Send)]
impl Fault for RollingUpgrade {
    fn name(&self) -> &'static str {
        "rolling-upgrade"
    }

    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        let mut seats = cluster.running();
        seats.shuffle(rng);
        let mut seen = Seen::default();
        if level(cluster, seats[0]).await? == OLD {
            let (last, first) = seats.split_last().unwrap_or((&0, &[]));
            for &seat in first {
                becomes(cluster, seat, NEW).await?;
            }
            seen.add(mixed(cluster, &seats).await?);
            becomes(cluster, first[0], OLD).await?;
            seen.add(mixed(cluster, &seats).await?);
            becomes(cluster, *last, NEW).await?;
            seen.add(mixed(cluster, &seats).await?);
            becomes(cluster, first[0], NEW).await?;
            for &seat in &seats {
                raised(cluster, seat).await?;
            }
            seen.add(format!("the level rose to {NEW}"));
        } else {
            seen.add(refused(cluster, seats[0]).await?);
            becomes(cluster, seats[0], NEW).await?;
        }
        Ok(seen)
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        cluster.revive()?;
        cluster.all_ready().await
    }
}

/// The node's next start is that of a version with this feature level.
async fn becomes(cluster: &mut Cluster, seat: u64, level: u32) -> Result<()> {
    if cluster.node(seat).pid().is_some() {
        stop(cluster, seat).await?;
    }
    let value = level.to_string();
    cluster.node_mut(seat).set("HELVE_FEATURE_LEVEL", &value);
    cluster.start(seat)?;
    cluster.ready(seat).await
}

/// The cluster's level, as a node has it.
async fn level(cluster: &Cluster, seat: u64) -> Result<u32> {
    Ok(cluster.status(seat).await?.feature_level)
}

/// Waits until a write went through each node of a cluster whose nodes are of several versions, and says which. The level must not
/// have risen.
async fn mixed(cluster: &Cluster, seats: &[u64]) -> Result<String> {
    let mut versions = Vec::new();
    for &seat in seats {
        let caller = cluster.caller(seat);
        until("a write among several versions", async || {
            let request = MintRequest {
                identity: Some(new_identity()),
                store: STORE.to_owned(),
                ..MintRequest::default()
            };
            Look::of(caller.mint(request).await)
        })
        .await?;
        let status = cluster.status(seat).await?;
        let own = status.node.unwrap_or_default().feature_level;
        ensure!(
            status.feature_level == OLD,
            "the level rose before all nodes were upgraded: {versions:?}"
        );
        versions.push(own);
    }
    ensure!(
        versions.contains(&OLD) && versions.contains(&NEW),
        "versions were to be mixed: {versions:?}"
    );
    Ok(format!("writes through versions {versions:?}"))
}

async fn raised(cluster: &Cluster, seat: u64) -> Result<()> {
    until("the level to rise", async || {
        match level(cluster, seat).await {
            Ok(NEW) => Look::Done(()),
            Ok(level) => Look::NotYet(format!("node {seat} has level {level}")),
            Err(error) => Look::NotYet(format!("{error:#}")),
        }
    })
    .await
}

async fn refused(cluster: &mut Cluster, seat: u64) -> Result<String> {
    stop(cluster, seat).await?;
    let old = OLD.to_string();
    cluster.node_mut(seat).set("HELVE_FEATURE_LEVEL", &old);
    cluster.start(seat)?;
    let status = cluster.node_mut(seat).stopped().await?;
    ensure!(
        status.code() == Some(REFUSED),
        "the level has risen, and the old version was to be refused on node {seat}: {status}"
    );
    Ok(format!("node {seat} as the old version: {status}"))
}
