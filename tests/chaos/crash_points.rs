//! Faults in the middle of something, which no signal from outside hits: nodes that die, or stand still, at a failpoint. They are for
//! binaries with failpoints, which the suite breaks, and for the bugs that need a crash at the right moment to do harm.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use helve_node::failpoint::Failpoint;
use helve_proto::v1::NodeStatus;
use helve_tests::{
    cluster::Cluster,
    cluster::Setup,
    failpoints::{arm, disarm},
    fault::{Fault, Majority, Seen, Target},
    promise,
    wait::{Look, until},
};
use rand::{RngExt as _, rngs::SmallRng};
use tonic::async_trait;

/// Far longer than a run: whoever waits so long is killed first.
const FOR_EVER: &str = "delay:3600000";

/// All of them.
pub(crate) fn all() -> Vec<Box<dyn Fault>> {
    vec![
        Box::new(UnsyncedMajority::default()),
        Box::new(UnsyncedFollower::default()),
        Box::new(TornRows::default()),
        Box::new(TornInstall::default()),
    ]
}

/// Nothing reaches the logs of the followers any more; then all nodes die at once. What was acknowledged meanwhile is lost if it was
/// acknowledged before it was durable.
#[derive(Default)]
struct UnsyncedMajority {
    followers: Vec<u64>,
}

#[async_trait(?Send)]
impl Fault for UnsyncedMajority {
    fn name(&self) -> &'static str {
        "unsynced-majority"
    }

    fn majority(&self) -> Majority {
        Majority::Lost
    }

    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        let leader = Target::Leader.pick(cluster, rng).await?;
        self.followers = cluster.seats();
        self.followers.retain(|seat| !leader.contains(seat));
        let mut seen = Seen::default();
        for &seat in &self.followers {
            arm_for_ever(cluster, seat, Failpoint::LogBeforeWrite)?;
        }
        for &seat in &self.followers {
            seen.add(reached(cluster, seat, Failpoint::LogBeforeWrite).await?);
        }
        Ok(seen)
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        for seat in cluster.running() {
            cluster.kill(seat)?;
            disarm(cluster, seat)?;
        }
        // The majority that forgot must not be reminded by the one that did not.
        for seat in self.followers.drain(..) {
            cluster.start(seat)?;
        }
        cluster.all_ready().await?;
        start_stopped(cluster)?;
        cluster.all_ready().await
    }
}

/// Nothing reaches the log of one follower any more; then it dies. Its rows must not show what its log does not hold.
#[derive(Default)]
struct UnsyncedFollower {
    down: Option<u64>,
}

#[async_trait(?Send)]
impl Fault for UnsyncedFollower {
    fn name(&self) -> &'static str {
        "unsynced-follower"
    }

    /// No snapshots: only then does a log without its beginning tell of rows that were ahead of it.
    fn prepare(&mut self, setup: Setup) -> Result<Setup> {
        Ok(setup.with("HELVE_SNAPSHOT_ENTRIES", "1000000"))
    }

    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        let seat = Target::Follower.pick(cluster, rng).await?[0];
        self.down = Some(seat);
        arm_for_ever(cluster, seat, Failpoint::LogBeforeWrite)?;
        let seen = reached(cluster, seat, Failpoint::LogBeforeWrite).await?;
        Ok(Seen::one(seen))
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        let Some(seat) = self.down.take() else {
            return Ok(());
        };
        cluster.kill(seat)?;
        disarm(cluster, seat)?;
        cluster.start(seat)?;
        cluster.ready(seat).await?;
        let status = status(cluster, seat).await?;
        promise!(
            status.purged_index == 0,
            "node {seat} held rows, and not the entries that they come from: {status:?}"
        );
        cluster.all_ready().await
    }
}

/// One node dies while it writes rows: between the halves of a batch, if it writes them in halves.
#[derive(Default)]
struct TornRows {
    down: Option<u64>,
}

#[async_trait(?Send)]
impl Fault for TornRows {
    fn name(&self) -> &'static str {
        "torn-rows"
    }

    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        let seat = Target::Random.pick(cluster, rng).await?[0];
        self.down = Some(seat);
        let [before, between, after] = [
            Failpoint::ApplyBeforeWrite,
            Failpoint::ApplyBetweenWrites,
            Failpoint::ApplyAfterWrite,
        ]
        .map(Failpoint::as_str);
        // Nobody passes between two writes but the planted bug, which so dies there first.
        let nth = rng.random_range(2..20);
        let rest = if rng.random() { before } else { after };
        let script = format!("{between}=kill:{nth},{rest}=kill:{}", nth + 1);
        arm(cluster, seat, &script)?;
        Ok(Seen::one(dies(cluster, seat).await?))
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        comes_back(cluster, self.down.take()).await
    }
}

/// One node lags behind what the others keep of their logs, gets a snapshot, and dies while it installs it.
#[derive(Default)]
struct TornInstall {
    down: Option<u64>,
}

#[async_trait(?Send)]
impl Fault for TornInstall {
    fn name(&self) -> &'static str {
        "torn-install"
    }

    /// So that the others soon purge what the node has missed.
    fn prepare(&mut self, setup: Setup) -> Result<Setup> {
        Ok(setup
            .with("HELVE_SNAPSHOT_ENTRIES", "50")
            .with("HELVE_LOG_KEEP_ENTRIES", "10"))
    }

    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        let seat = Target::Follower.pick(cluster, rng).await?[0];
        let last = status(cluster, seat).await?.last_log_index;
        self.down = Some(seat);
        cluster.kill(seat)?;
        purged_beyond(cluster, last).await?;
        let points = [
            (Failpoint::InstallCopying, 2),
            (Failpoint::InstallCopied, 1),
            (Failpoint::InstallBeforeSwitch, 1),
            (Failpoint::InstallSwitched, 1),
        ];
        let (point, nth) = points[rng.random_range(0..points.len())];
        arm(cluster, seat, &format!("{}=kill:{nth}", point.as_str()))?;
        cluster.start(seat)?;
        Ok(Seen::one(dies(cluster, seat).await?))
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        comes_back(cluster, self.down.take()).await
    }
}

fn arm_for_ever(cluster: &Cluster, seat: u64, point: Failpoint) -> Result<()> {
    arm(cluster, seat, &format!("{}={FOR_EVER}", point.as_str()))
}

/// Waits until a node says that it came by a failpoint that is armed.
async fn reached(cluster: &Cluster, seat: u64, point: Failpoint) -> Result<String> {
    let log = cluster.log_file(seat);
    let said = format!("failpoint {}: ", point.as_str());
    until(
        &format!("node {seat} to reach {}", point.as_str()),
        async || match fs::read(&log) {
            Ok(log) if String::from_utf8_lossy(&log).contains(&said) => {
                Look::Done(format!("node {seat} reached {}", point.as_str()))
            }
            Ok(_) => Look::NotYet("it has not said so".to_owned()),
            Err(error) => Look::NotYet(error.to_string()),
        },
    )
    .await
}

/// Waits until a node has died of its failpoint.
async fn dies(cluster: &mut Cluster, seat: u64) -> Result<String> {
    let node = cluster.node_mut(seat);
    until(&format!("node {seat} to die"), async || {
        match node.assert_running() {
            Ok(()) => Look::NotYet("it runs".to_owned()),
            Err(_) => Look::Done(()),
        }
    })
    .await?;
    let status = node.stopped().await?;
    let log = node.log_tail();
    let said = log.lines().rev().find(|line| line.contains("failpoint "));
    let said = said.with_context(|| format!("node {seat} did not die of a failpoint: {log}"))?;
    ensure!(said.contains("Kill"), "node {seat} died of {said}");
    Ok(format!("node {seat}: {said}, {status}"))
}

async fn comes_back(cluster: &mut Cluster, seat: Option<u64>) -> Result<()> {
    if let Some(seat) = seat {
        disarm(cluster, seat)?;
    }
    start_stopped(cluster)?;
    cluster.all_ready().await
}

fn start_stopped(cluster: &mut Cluster) -> Result<()> {
    let running = cluster.running();
    for seat in cluster.seats() {
        if !running.contains(&seat) {
            cluster.start(seat)?;
        }
    }
    Ok(())
}

async fn purged_beyond(cluster: &Cluster, index: u64) -> Result<()> {
    let leader = cluster.leader().await?.seat;
    until("the leader to purge its log", async || {
        match status(cluster, leader).await {
            Ok(status) if status.purged_index > index => Look::Done(()),
            Ok(status) => Look::NotYet(format!("up to {}, not {index}", status.purged_index)),
            Err(error) => Look::NotYet(error.to_string()),
        }
    })
    .await
}

async fn status(cluster: &Cluster, seat: u64) -> Result<NodeStatus> {
    let node = cluster.status(seat).await?.node;
    node.context("a status names its node")
}
