//! Faults in the middle of something, which no signal from outside hits: nodes that die, or stand still, at a failpoint. They are for
//! binaries with failpoints, which the suite breaks, and for the bugs that need a crash at the right moment to do harm.

use anyhow::Result;
use helve_node::failpoint::Failpoint;
use helve_tests::{
    cluster::Cluster,
    cluster::Setup,
    failpoints::{arm, disarm},
    fault::{Company, Fault, Majority, Seen, Target},
    promise,
};
use rand::{RngExt as _, rngs::SmallRng};
use tonic::async_trait;

use super::armed::{Armed, comes_back, dies, status};

/// All of them.
pub(crate) fn all() -> Vec<Box<dyn Fault>> {
    vec![
        Box::new(UnsyncedMajority::default()),
        Box::new(UnsyncedFollower::default()),
        Box::new(TornRows::default()),
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
        let arm = |&seat: &u64| Armed::for_ever(cluster, seat, Failpoint::LogBeforeWrite);
        let armed: Result<Vec<_>> = self.followers.iter().map(arm).collect();
        for follower in armed? {
            seen.add(follower.reached(Failpoint::LogBeforeWrite, 1).await?);
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
        cluster.revive()?;
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

    fn company(&self) -> Company {
        Company::None
    }

    /// No snapshots: only then does a log without its beginning tell of rows that were ahead of it.
    fn prepare(&mut self, setup: Setup) -> Result<Setup> {
        Ok(setup.with("HELVE_SNAPSHOT_ENTRIES", "1000000"))
    }

    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        let seat = Target::Follower.pick(cluster, rng).await?[0];
        self.down = Some(seat);
        let armed = Armed::for_ever(cluster, seat, Failpoint::LogBeforeWrite)?;
        let seen = armed.reached(Failpoint::LogBeforeWrite, 1).await?;
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
        // Only the planted bug passes between two writes, so it dies there first.
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
