//! Nodes that stand still for a while, and go on as if nothing had been: a paused machine, or one that swaps.

use std::{fs, ops::Range, time::Instant};

use anyhow::{Context as _, Result, ensure};
use rand::{RngExt as _, rngs::SmallRng};
use tokio::time::{Duration, sleep};
use tonic::async_trait;

use super::{Fault, Majority, Seen, Target};
use crate::{cluster::Cluster, promise};

/// A long time: past every lease, the peers' keep-alive (4 s), the clients' and a stream that is
/// not read (10 s each), and what a leader's clock may be off by (10 s). The longest is as long as
/// the pauses of a machine that is moved.
const LONG_MS: Range<u64> = 15_000..30_000;

/// For how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    /// As long as the plan says.
    Planned,
    /// [`LONG_MS`], and as long as the plan says.
    Long,
}

/// SIGSTOP. The nodes go on when it is healed.
#[derive(Debug)]
pub struct Freeze {
    name: &'static str,
    target: Target,
    length: Length,
    frozen: Vec<u64>,
}

/// Of the leader, a follower, any one, all; and of the leader, for long.
pub fn all() -> impl Iterator<Item = Box<dyn Fault>> {
    use Length::{Long, Planned};
    let all = [
        ("freeze-leader", Target::Leader, Planned),
        ("freeze-follower", Target::Follower, Planned),
        ("freeze-random", Target::Random, Planned),
        ("freeze-all", Target::All, Planned),
        ("freeze-leader-long", Target::Leader, Long),
    ];
    all.into_iter().map(|(name, target, length)| {
        Box::new(Freeze {
            name,
            target,
            length,
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
            seen.add(frozen_state(cluster, seat)?);
        }
        if self.length == Length::Long {
            let time = Duration::from_millis(rng.random_range(LONG_MS));
            seen.add(without(cluster, &self.frozen, time).await?);
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

/// Lets the others do without those that stand still for so long. They are a majority, and must have elected when it is over.
async fn without(cluster: &Cluster, frozen: &[u64], time: Duration) -> Result<String> {
    let begun = Instant::now();
    sleep(time).await;
    let others = cluster.running().into_iter();
    let led = cluster
        .leader_of(others.filter(|seat| !frozen.contains(seat)))
        .await;
    promise!(
        led.is_ok(),
        "the leader stood still for {time:?}, and a majority elected no other: {led:?}"
    );
    for &seat in frozen {
        frozen_state(cluster, seat)?;
    }
    Ok(format!("after {:?} node {} leads", begun.elapsed(), led?))
}

/// Waits until a node is stopped, and reports it.
fn frozen_state(cluster: &Cluster, seat: u64) -> Result<String> {
    let pid = cluster.node(seat).pid().context("a frozen node runs")?;
    let state = state(pid)?;
    ensure!(
        state == 'T',
        "node {seat} was to stand still, and is in state {state}"
    );
    Ok(format!("node {seat}, process {pid}: state {state}"))
}

/// The state of a process as the kernel names it: `T` if it is stopped.
///
/// # Errors
///
/// If there is no such process.
fn state(pid: u32) -> Result<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name of the program is in parentheses, and may hold anything.
    let (_, behind) = stat.rsplit_once(')').context("a stat names its program")?;
    behind
        .trim_start()
        .chars()
        .next()
        .context("a stat names the state")
}
