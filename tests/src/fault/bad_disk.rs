//! Disks that are full, slow or read-only, or that fail to sync.

use std::time::Duration;

use anyhow::{Result, bail};
use rand::rngs::SmallRng;
use tonic::async_trait;

use super::{
    Fault, Majority, Seen, Target,
    disk::{Access, Disk, DiskCounts, Sync},
    nudge::nudge,
};
use crate::{
    cluster::{Cluster, Equipment, Setup},
    wait::{Look, until},
};

/// Room that is left on a disk below the reserve: enough for what must be written all the same.
const LOW_BYTES: u64 = 64 << 20;
/// What a disk takes for a sync that does 50 in a second.
const SLOW_SYNC: Duration = Duration::from_millis(20);
/// What a disk takes for a sync when it stalls.
const STALL: Duration = Duration::from_secs(1);

/// What is wrong with the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Illness {
    /// Less room than the reserve: the node is to notice.
    Low,
    /// No room at all.
    Full,
    /// The next sync fails.
    SyncFailsOnce,
    /// All syncs fail.
    SyncFails,
    /// Every sync takes so long.
    Slow(Duration),
    /// It has become read-only.
    ReadOnly,
}

/// Some nodes' disks are ill until it is healed.
#[derive(Debug)]
pub struct BadDisk {
    name: &'static str,
    illness: Illness,
    target: Target,
    ill: Vec<u64>,
}

/// All of them.
pub fn all() -> impl Iterator<Item = Box<dyn Fault>> {
    use Illness::{Full, Low, ReadOnly, Slow, SyncFails, SyncFailsOnce};
    let all = [
        ("disk-low-one", Low, Target::Random),
        ("disk-low-all", Low, Target::All),
        ("disk-full-one", Full, Target::Random),
        ("disk-full-majority", Full, Target::Majority),
        ("disk-full-all", Full, Target::All),
        ("fsync-error-once", SyncFailsOnce, Target::Random),
        ("fsync-error-leader", SyncFails, Target::Leader),
        ("slow-disk", Slow(SLOW_SYNC), Target::Random),
        ("fsync-stall", Slow(STALL), Target::Leader),
        ("read-only-disk", ReadOnly, Target::Random),
    ];
    all.into_iter().map(|(name, illness, target)| {
        Box::new(BadDisk {
            name,
            illness,
            target,
            ill: Vec::new(),
        }) as Box<dyn Fault>
    })
}

impl BadDisk {
    fn break_disk(&self, disk: &Disk) {
        let used_bytes = disk.used_bytes();
        disk.switch(|switches| match self.illness {
            Illness::Low => switches.capacity_bytes = used_bytes + LOW_BYTES,
            Illness::Full => switches.capacity_bytes = used_bytes,
            Illness::SyncFailsOnce => switches.sync = Sync::FailsOnce,
            Illness::SyncFails => switches.sync = Sync::Fails,
            Illness::Slow(delay) => switches.sync_delay = delay,
            Illness::ReadOnly => switches.access = Access::ReadOnly,
        });
    }

    fn shows(&self, counts: &DiskCounts) -> bool {
        match self.illness {
            Illness::Low => true,
            Illness::Full => counts.full > 0,
            Illness::SyncFailsOnce | Illness::SyncFails => counts.failed_syncs > 0,
            Illness::Slow(_) => counts.delayed > 0,
            Illness::ReadOnly => counts.read_only > 0,
        }
    }

    /// Whether the node must stop at once: what it does not know to be on disk it must not go on with.
    fn must_stop(&self) -> bool {
        matches!(self.illness, Illness::SyncFailsOnce | Illness::SyncFails)
    }

    /// Waits until the node has met its disk's illness, and says how that showed.
    async fn meets_it(&self, cluster: &mut Cluster, seat: u64) -> Result<String> {
        if self.illness == Illness::Low {
            return warns(cluster, seat).await;
        }
        let counts = until("the disk to fail as it was told", async || {
            nudge(cluster).await;
            match cluster.disk(seat).map(Disk::counts) {
                Ok(counts) if self.shows(&counts) => Look::Done(Ok(counts)),
                Ok(counts) => Look::NotYet(counts.to_string()),
                Err(error) => Look::Done(Err(error)),
            }
        })
        .await??;
        let mut seen = format!("node {seat}'s disk: {counts}");
        if self.must_stop() {
            let status = cluster.node_mut(seat).stopped().await?;
            if status.success() {
                bail!("node {seat} could not sync, and stopped as if it had: {status}");
            }
            seen += &format!("; the node: {status}");
        }
        Ok(seen)
    }
}

/// Waits until a node says that its disk is below the reserve.
async fn warns(cluster: &Cluster, seat: u64) -> Result<String> {
    until(
        "the node to notice that its disk is low",
        async || match cluster.status(seat).await {
            Ok(reply) => match reply.node.unwrap_or_default().warning {
                warning if warning.contains("disk") => {
                    Look::Done(format!("node {seat} says: {warning}"))
                }
                warning => Look::NotYet(format!("it warns: {warning}")),
            },
            Err(error) => Look::NotYet(error.to_string()),
        },
    )
    .await
}

#[async_trait(?Send)]
impl Fault for BadDisk {
    fn name(&self) -> &'static str {
        self.name
    }

    fn missing(&self) -> Option<String> {
        Disk::missing()
    }

    fn majority(&self) -> Majority {
        self.target.majority()
    }

    fn prepare(&mut self, setup: Setup) -> Result<Setup> {
        Ok(setup.on(Equipment::Disks))
    }

    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        let mut seen = Seen::default();
        self.ill = self.target.pick(cluster, rng).await?;
        for &seat in &self.ill {
            self.break_disk(cluster.disk(seat)?);
        }
        for &seat in &self.ill {
            seen.add(self.meets_it(cluster, seat).await?);
        }
        Ok(seen)
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        for seat in self.ill.drain(..) {
            cluster.disk(seat)?.mend();
        }
        for seat in cluster.revive()? {
            println!("node {seat} had stopped while its disk did not work");
        }
        cluster.all_ready().await
    }
}
