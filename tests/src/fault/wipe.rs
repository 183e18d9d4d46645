//! A volume that is lost: the node comes back with nothing, and must not answer for the votes that it has forgotten.

use anyhow::{Context as _, Result, ensure};
use rand::rngs::SmallRng;
use tonic::async_trait;

use super::{Fault, Seen, Target};
use crate::{
    cluster::Cluster,
    wait::{Look, until},
};

/// One node is killed, loses all its data, and is started with the same arguments.
#[derive(Debug)]
pub struct WipedVolume;

#[async_trait(?Send)]
impl Fault for WipedVolume {
    fn name(&self) -> &'static str {
        "wiped-volume"
    }

    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        let mut seen = Seen::default();
        for seat in Target::Random.pick(cluster, rng).await? {
            let before = node_id(cluster, seat).await?;
            cluster.wipe(seat)?;
            cluster.start(seat)?;
            let after = votes_again(cluster, seat).await?;
            ensure!(
                after != before,
                "node {seat} lost its data, and is node {before} again"
            );
            seen.add(format!("node {before} lost its data and is node {after}"));
        }
        Ok(seen)
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        cluster.all_ready().await
    }
}

async fn node_id(cluster: &Cluster, seat: u64) -> Result<u64> {
    let node = cluster.status(seat).await?.node;
    Ok(node.context("a status names its node")?.id)
}

/// Waits until the node in a seat is a voter, as all others see it, and answers its id.
///
/// # Errors
///
/// If it does not become one.
pub async fn votes_again(cluster: &mut Cluster, seat: u64) -> Result<u64> {
    cluster.ready(seat).await?;
    let cluster = &*cluster;
    until("the node to vote", async || {
        let id = match node_id(cluster, seat).await {
            Ok(id) => id,
            Err(error) => return Look::NotYet(error.to_string()),
        };
        for other in cluster.running() {
            let members = match cluster.status(other).await {
                Ok(reply) => reply.members,
                Err(error) => return Look::NotYet(error.to_string()),
            };
            let member = |m: &&helve_proto::v1::Member| (m.seat, m.id, m.voter) == (seat, id, true);
            if members.iter().find(member).is_none() {
                return Look::NotYet(format!("node {other} sees {members:?}"));
            }
        }
        Look::Done(id)
    })
    .await
}
