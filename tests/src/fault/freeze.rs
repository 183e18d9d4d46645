//! Nodes that stand still for a while, and go on as if nothing had been: a paused machine, or one that swaps.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use rand::rngs::SmallRng;
use tonic::async_trait;

use super::{Fault, Majority, Seen, Target};
use crate::cluster::Cluster;

/// SIGSTOP. The nodes go on when it is healed.
#[derive(Debug)]
pub struct Freeze {
    name: &'static str,
    target: Target,
    frozen: Vec<u64>,
}

/// Of the leader, a follower, any one, all.
pub fn all() -> impl Iterator<Item = Box<dyn Fault>> {
    let targets = [
        ("freeze-leader", Target::Leader),
        ("freeze-follower", Target::Follower),
        ("freeze-random", Target::Random),
        ("freeze-all", Target::All),
    ];
    targets.into_iter().map(|(name, target)| {
        Box::new(Freeze {
            name,
            target,
            frozen: Vec::new(),
        }) as Box<dyn Fault>
    })
}

#[async_trait(?Send)]
impl Fault for Freeze {
    fn name(&self) -> &'static str {
        self.name
    }

    fn majority(&self) -> Majority {
        self.target.majority()
    }

    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        let mut seen = Seen::default();
        for seat in self.target.pick(cluster, rng).await? {
            cluster.node(seat).freeze()?;
            self.frozen.push(seat);
            let pid = cluster.node(seat).pid().context("a frozen node runs")?;
            let state = state(pid)?;
            ensure!(
                state == 'T',
                "node {seat} was to stand still, and is in state {state}"
            );
            seen.add(format!("node {seat}, process {pid}: state {state}"));
        }
        Ok(seen)
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        for seat in self.frozen.drain(..) {
            cluster.node(seat).thaw()?;
        }
        cluster.all_ready().await
    }
}

/// The state of a process as the kernel names it: `T` if it is stopped.
///
/// # Errors
///
/// If there is no such process.
fn state(pid: u32) -> Result<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name of the program stands in parentheses, and may hold anything.
    let (_, behind) = stat.rsplit_once(')').context("a stat names its program")?;
    behind
        .trim_start()
        .chars()
        .next()
        .context("a stat names the state")
}
