//! Nodes that are killed: the normal way for a node to stop.

use std::os::unix::process::ExitStatusExt as _;

use anyhow::{Result, ensure};
use rand::rngs::SmallRng;
use rustix::process::Signal;
use tonic::async_trait;

use super::{Fault, Majority, Seen, Target};
use crate::cluster::Cluster;

/// SIGKILL. The nodes start again when it is healed.
#[derive(Debug)]
pub struct Kill {
    name: &'static str,
    target: Target,
    down: Vec<u64>,
}

/// Of the leader, a follower, any one, all.
pub fn all() -> impl Iterator<Item = Box<dyn Fault>> {
    let targets = [
        ("kill-leader", Target::Leader),
        ("kill-follower", Target::Follower),
        ("kill-random", Target::Random),
        ("kill-all", Target::All),
    ];
    targets
        .into_iter()
        .map(|(name, target)| Box::new(Kill::new(name, target)) as Box<dyn Fault>)
}

impl Kill {
    /// Of these nodes.
    #[must_use]
    pub fn new(name: &'static str, target: Target) -> Self {
        Self {
            name,
            target,
            down: Vec::new(),
        }
    }
}

#[async_trait(?Send)]
impl Fault for Kill {
    fn name(&self) -> &'static str {
        self.name
    }

    fn majority(&self) -> Majority {
        self.target.majority()
    }

    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        let mut seen = Seen::default();
        for seat in self.target.pick(cluster, rng).await? {
            seen.add(kill(cluster, seat)?);
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

/// Kills a node that runs, and says so.
///
/// # Errors
///
/// If it does not run, or had stopped by itself before the signal came.
pub fn kill(cluster: &mut Cluster, seat: u64) -> Result<String> {
    let node = cluster.node_mut(seat);
    node.assert_running()?;
    let pid = node.pid().unwrap_or_default();
    let status = node.kill()?;
    let killed = status.signal() == Some(Signal::KILL.as_raw());
    ensure!(
        killed,
        "node {seat} was to be killed, and had stopped by itself: {status}"
    );
    Ok(format!("node {seat}, process {pid}: {status}"))
}
