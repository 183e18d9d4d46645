//! Power that fails: what was not synced is gone.

use std::fmt;

use anyhow::{Result, ensure};
use rand::{RngExt as _, rngs::SmallRng};
use tonic::async_trait;

use super::{
    Fault, Majority, Seen, Target,
    disk::{Disk, Loss},
    kill::kill,
};
use crate::cluster::{Cluster, Equipment, Setup};

/// Nodes are killed, and their disks go back to what is durable; of the rest a part is kept, if the dice say so.
#[derive(Debug)]
pub struct PowerLoss {
    name: &'static str,
    target: Target,
    down: Vec<u64>,
}

/// Of all nodes, of the leader, of any one.
pub fn all() -> impl Iterator<Item = Box<dyn Fault>> {
    let targets = [
        ("power-loss-all", Target::All),
        ("power-loss-leader", Target::Leader),
        ("power-loss-random", Target::Random),
    ];
    targets.into_iter().map(|(name, target)| {
        Box::new(PowerLoss {
            name,
            target,
            down: Vec::new(),
        }) as Box<dyn Fault>
    })
}

#[async_trait(?Send)]
impl Fault for PowerLoss {
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
        let seats = self.target.pick(cluster, rng).await?;
        let mut seen = Seen::default();
        for &seat in &seats {
            seen.add(kill(cluster, seat)?);
            self.down.push(seat);
        }
        let mut undone = 0;
        for seat in seats {
            let is_torn = rng.random_bool(0.5);
            let loss = if is_torn {
                Loss::Torn(rng)
            } else {
                Loss::Whole
            };
            let manner = Manner(is_torn);
            let lost = cluster.disk_mut(seat)?.lose_power(loss)?;
            undone += lost.writes + lost.names;
            seen.add(format!("node {seat} lost {manner} {lost:?}"));
        }
        // A node never syncs all that it writes: its rows come back from the log.
        ensure!(undone > 0, "the power failed, and nothing was lost: {seen}");
        Ok(seen)
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        for seat in self.down.drain(..) {
            cluster.start(seat)?;
        }
        cluster.all_ready().await
    }
}

/// Whether a part was kept.
struct Manner(bool);

impl fmt::Display for Manner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 {
            "a part of what was not synced:"
        } else {
            "all that was not synced:"
        })
    }
}
