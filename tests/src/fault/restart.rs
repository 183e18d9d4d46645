//! Nodes that are stopped in good order and started again, one by one or all at once.

use anyhow::{Result, ensure};
use rand::{rngs::SmallRng, seq::SliceRandom as _};
use tonic::async_trait;

use super::{Fault, Majority, Seen, kill};
use crate::cluster::Cluster;

/// All that is about restarts.
pub fn all() -> impl Iterator<Item = Box<dyn Fault>> {
    let all: [Box<dyn Fault>; 3] = [
        Box::new(RollingRestart),
        Box::new(RestartAll::default()),
        Box::new(ColdStart::default()),
    ];
    all.into_iter()
}

/// SIGTERM for one node after the other, each started again and ready before the next.
#[derive(Debug)]
pub struct RollingRestart;

#[async_trait(?Send)]
impl Fault for RollingRestart {
    fn name(&self) -> &'static str {
        "rolling-restart"
    }

    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        let mut seats = cluster.running();
        seats.shuffle(rng);
        let mut seen = Seen::default();
        for seat in seats {
            seen.add(stop(cluster, seat).await?);
            cluster.start(seat)?;
            cluster.ready(seat).await?;
        }
        Ok(seen)
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        for seat in cluster.seats() {
            if cluster.node(seat).pid().is_none() {
                cluster.start(seat)?;
            }
        }
        cluster.all_ready().await
    }
}

/// SIGTERM for all nodes at once.
#[derive(Debug, Default)]
pub struct RestartAll {
    down: Vec<u64>,
}

#[async_trait(?Send)]
impl Fault for RestartAll {
    fn name(&self) -> &'static str {
        "restart-all"
    }

    fn majority(&self) -> Majority {
        Majority::Lost
    }

    async fn strike(&mut self, cluster: &mut Cluster, _: &mut SmallRng) -> Result<Seen> {
        let mut seen = Seen::default();
        for seat in cluster.running() {
            cluster.node(seat).terminate()?;
        }
        for seat in cluster.running() {
            seen.add(stopped(cluster, seat).await?);
            self.down.push(seat);
        }
        Ok(seen)
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        for seat in self.down.drain(..) {
            cluster.start(seat)?;
        }
        cluster.all_ready().await
    }
}

/// All nodes killed, and all but one started: they must do without it. Then another one is exchanged for the one that was missing.
#[derive(Debug, Default)]
pub struct ColdStart {
    down: Vec<u64>,
}

#[async_trait(?Send)]
impl Fault for ColdStart {
    fn name(&self) -> &'static str {
        "cold-start-one-missing"
    }

    fn majority(&self) -> Majority {
        Majority::Lost
    }

    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        let mut seen = Seen::default();
        self.down = cluster.running();
        self.down.shuffle(rng);
        ensure!(
            self.down.len() > 2,
            "of less than three nodes none may be missing"
        );
        for &seat in &self.down {
            seen.add(kill::kill(cluster, seat)?);
        }
        let missing = self.down[0];
        while self.down.len() > 1 {
            cluster.start(self.down[self.down.len() - 1])?;
            self.down.pop();
        }
        let leader = cluster.leader().await?;
        cluster.all_ready().await?;
        seen.add(format!("node {missing} is missing, and {leader:?}"));
        cluster.start(missing)?;
        self.down.clear();
        cluster.ready(missing).await?;
        seen.add(kill::kill(cluster, leader.seat)?);
        self.down.push(leader.seat);
        Ok(seen)
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        for seat in self.down.drain(..) {
            cluster.start(seat)?;
        }
        cluster.all_ready().await
    }
}

pub(super) async fn stop(cluster: &mut Cluster, seat: u64) -> Result<String> {
    cluster.node(seat).terminate()?;
    stopped(cluster, seat).await
}

async fn stopped(cluster: &mut Cluster, seat: u64) -> Result<String> {
    let status = cluster.node_mut(seat).stopped().await?;
    ensure!(
        status.success(),
        "node {seat} was asked to stop, and did so with {status}:\n{}",
        cluster.node(seat).log_tail()
    );
    Ok(format!("node {seat}: {status}"))
}
