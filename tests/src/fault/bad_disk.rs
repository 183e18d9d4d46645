//! Disks that are full, slow or read-only, or that fail to sync.

use std::time::Duration;

use anyhow::Result;
use rand::rngs::SmallRng;
use tonic::async_trait;

use super::{
    Fault, Majority, Seen, Target,
    disk::{Access, Disk, DiskCounts, Sync},
    nudge::nudge,
};
use crate::{
    cluster::{Cluster, Equipment, Setup},
    promise,
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
    ill: Vec<Ill>,
}

/// A node whose disk is ill.
#[derive(Debug)]
struct Ill {
    seat: u64,
    /// What the disk had done before.
    before: DiskCounts,
    /// How the node stopped, if it has.
    stopped: Option<String>,
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

    /// How often the disk did what only an ill one does.
    fn shown(&self, counts: &DiskCounts) -> u64 {
        match self.illness {
            Illness::Low => 0,
            Illness::Full => counts.full,
            Illness::SyncFailsOnce | Illness::SyncFails => counts.failed_syncs,
            Illness::Slow(_) => counts.delayed,
            Illness::ReadOnly => counts.read_only,
        }
    }

    /// What a node says that stops for it; `None` if none stops for it.
    fn word(&self) -> Option<&'static str> {
        match self.illness {
            Illness::Low | Illness::Slow(_) => None,
            Illness::Full => Some("No space left on device"),
            Illness::SyncFailsOnce | Illness::SyncFails => Some("Input/output error"),
            Illness::ReadOnly => Some("Read-only file system"),
        }
    }

    /// Whether the node must stop at once: what it does not know to be on disk it must not go on with.
    fn must_stop(&self) -> bool {
        matches!(self.illness, Illness::SyncFailsOnce | Illness::SyncFails)
    }

    /// Waits until one of the nodes has met its disk's illness, and says how that showed.
    async fn meets_it(&mut self, cluster: &mut Cluster, place: usize) -> Result<String> {
        let Ill { seat, before, .. } = self.ill[place];
        if self.illness == Illness::Low {
            return warns(cluster, seat).await;
        }
        let mut seen = until("the disk to fail as it was told", async || {
            nudge(cluster).await;
            let counts = match cluster.disk(seat) {
                Ok(disk) => disk.counts(),
                Err(error) => return Look::Done(Err(error)),
            };
            if self.shown(&counts) > self.shown(&before) {
                return Look::Done(Ok(format!("node {seat}'s disk: {counts}")));
            }
            match (self.note_stopped(cluster), self.spared(cluster, seat)) {
                (Err(error), _) => Look::Done(Err(error)),
                (Ok(()), Some(spared)) => Look::Done(Ok(spared)),
                (Ok(()), None) => Look::NotYet(counts.to_string()),
            }
        })
        .await??;
        if self.must_stop() {
            until("the node to stop", async || {
                match (self.note_stopped(cluster), &self.ill[place].stopped) {
                    (Err(error), _) => Look::Done(Err(error)),
                    (Ok(()), Some(_)) => Look::Done(Ok(())),
                    (Ok(()), None) => Look::NotYet("it runs".to_owned()),
                }
            })
            .await??;
        }
        if let Some(stopped) = &self.ill[place].stopped {
            seen += &format!("; {stopped}");
        }
        Ok(seen)
    }

    /// Why nothing is written to this disk any more, so that it will not show that it is ill: too few nodes are left to write with.
    fn spared(&self, cluster: &Cluster, seat: u64) -> Option<String> {
        let stopped = self.ill.iter().filter_map(|ill| ill.stopped.as_deref());
        let stopped: Vec<_> = stopped.collect();
        (stopped.len() * 2 > cluster.seats().len()).then(|| {
            format!(
                "node {seat} has no peer left to write with: {}",
                stopped.join(", ")
            )
        })
    }

    /// Starts those again that have stopped, and says whether any had.
    fn revive(&mut self, cluster: &mut Cluster) -> Result<bool> {
        self.note_stopped(cluster)?;
        let revived = cluster.revive()?;
        for seat in &revived {
            println!("node {seat} had stopped while its disk did not work");
        }
        Ok(!revived.is_empty())
    }

    /// Notes the nodes that have stopped. None may but with an error, and it must say which.
    fn note_stopped(&mut self, cluster: &mut Cluster) -> Result<()> {
        let word = self.word();
        for ill in &mut self.ill {
            let node = cluster.node_mut(ill.seat);
            if let Some(status) = node.ended()? {
                let (seat, said) = (ill.seat, node.log_tail());
                promise!(
                    !status.success() && word.is_none_or(|word| said.contains(word)),
                    "node {seat} had a bad disk, and stopped with {status}:\n{said}"
                );
                ill.stopped = Some(format!("node {seat} stopped: {status}"));
            }
        }
        Ok(())
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
        for seat in self.target.pick(cluster, rng).await? {
            self.ill.push(Ill {
                seat,
                before: cluster.disk(seat)?.counts(),
                stopped: None,
            });
        }
        for ill in &self.ill {
            self.break_disk(cluster.disk(ill.seat)?);
        }
        for place in 0..self.ill.len() {
            seen.add(self.meets_it(cluster, place).await?);
        }
        Ok(seen)
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        for ill in &self.ill {
            cluster.disk(ill.seat)?.mend();
        }
        self.revive(cluster)?;
        let mut ready = cluster.all_ready().await;
        // One may have been about to stop.
        if ready.is_err() && self.revive(cluster)? {
            ready = cluster.all_ready().await;
        }
        self.ill.clear();
        ready
    }
}
