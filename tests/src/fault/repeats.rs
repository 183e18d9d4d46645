//! The workloads' own calls, repeated, delayed and reordered, also when the cluster has forgotten them, and callers that are gone.

use anyhow::Result;
use rand::rngs::SmallRng;
use tonic::async_trait;

use super::{
    Fault, Seen,
    between::{Counts, Manner},
};
use crate::{
    cluster::Cluster,
    promise,
    wait::{Look, until},
};

/// Copies that must have been answered as their calls were, and refused as too late, for a strike to have been one.
const ALIKE_MIN: u64 = 20;
const STALE_MIN: u64 = 2;
/// Callers that must have been gone.
const ABANDONED_MIN: u64 = 5;

/// Each call that changes something is treated so until it is healed.
#[derive(Debug)]
pub struct Repeats {
    name: &'static str,
    manner: Manner,
}

/// Copies, and callers that are gone.
pub fn all() -> impl Iterator<Item = Box<dyn Fault>> {
    let manners = [
        ("repeated-calls", Manner::Repeated),
        ("abandoned-calls", Manner::Abandoned),
    ];
    manners
        .into_iter()
        .map(|(name, manner)| Box::new(Repeats { name, manner }) as Box<dyn Fault>)
}

impl Repeats {
    fn shows(&self, before: Counts, now: Counts) -> bool {
        match self.manner {
            Manner::Straight => true,
            Manner::Repeated => {
                now.alike >= before.alike + ALIKE_MIN && now.stale >= before.stale + STALE_MIN
            }
            Manner::Abandoned => now.abandoned >= before.abandoned + ABANDONED_MIN,
        }
    }
}

#[async_trait(?Send)]
impl Fault for Repeats {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn strike(&mut self, cluster: &mut Cluster, _: &mut SmallRng) -> Result<Seen> {
        let between = cluster.between();
        let before = between.counts();
        between.treat(self.manner);
        let counts = until("calls to be repeated", async || match between.counts() {
            // The layer that repeats calls has been stopped: healing says so.
            counts if self.shows(before, counts) || between.is_broken() => Look::Done(counts),
            counts => Look::NotYet(counts.to_string()),
        })
        .await?;
        Ok(Seen::one(counts.to_string()))
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        let between = cluster.between();
        between.treat(Manner::Straight);
        until("all copies to come", async || match between.pending() {
            0 => Look::Done(()),
            pending => Look::NotYet(format!("{pending} are to come")),
        })
        .await?;
        let broken = between.take_broken();
        promise!(broken.is_empty(), "calls were done twice: {broken:?}");
        cluster.all_ready().await
    }
}
