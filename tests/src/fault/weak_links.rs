//! Links that work badly: late, slow, lossy, wrong, or open at one end only.

use std::time::Duration;

use anyhow::{Result, bail};
use rand::{rngs::SmallRng, seq::IndexedRandom as _};
use tonic::async_trait;

use super::{
    Fault, Seen,
    network::{Counts, Lanes, Side, Treatment},
};
use crate::{
    caller::Caller,
    cluster::{Cluster, Equipment, Setup},
    wait::{Look, until},
};

/// All of them.
pub fn all() -> impl Iterator<Item = Box<dyn Fault>> {
    use Reach::{Everyone, Follower, Peers};
    let delay = Treatment::Delay {
        base: Duration::from_millis(25),
        jitter: Duration::from_millis(100),
    };
    let limit = Treatment::Limit {
        bytes_per_s: 64 << 10,
    };
    let all = [
        ("delay", delay, Everyone),
        ("packet-loss", Treatment::Loss { percent: 10 }, Everyone),
        ("reset-links", Treatment::Reset { percent: 2 }, Everyone),
        ("half-open", Treatment::Swallow, Follower),
        ("narrow-links", limit, Peers),
        ("corrupt-links", Treatment::Corrupt { percent: 2 }, Peers),
    ];
    all.into_iter().map(|(name, treatment, reach)| {
        let weak = WeakLinks {
            name,
            treatment,
            reach,
        };
        Box::new(weak) as Box<dyn Fault>
    })
}

/// Which lanes are weak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Those between nodes.
    Peers,
    /// Those between nodes, and those to and from clients.
    Everyone,
    /// Those between one follower and the others.
    Follower,
}

/// Lanes that work badly until it is healed.
#[derive(Debug)]
pub struct WeakLinks {
    name: &'static str,
    treatment: Treatment,
    reach: Reach,
}

impl WeakLinks {
    async fn lanes(&self, cluster: &Cluster, rng: &mut SmallRng) -> Result<Vec<(Side, Side)>> {
        let leader = cluster.leader().await?.seat;
        let weak: Vec<u64> = match self.reach {
            Reach::Peers | Reach::Everyone => cluster.seats(),
            Reach::Follower => cluster
                .others(leader)
                .choose(rng)
                .copied()
                .into_iter()
                .collect(),
        };
        let mut sides: Vec<Side> = cluster.seats().into_iter().map(Side::Node).collect();
        if self.reach == Reach::Everyone {
            sides.push(Side::Clients);
        }
        let weak = weak.into_iter().map(Side::Node);
        let lanes = weak.flat_map(|a| sides.iter().flat_map(move |&b| [(a, b), (b, a)]));
        let mut lanes: Vec<_> = lanes.filter(|(a, b)| a != b).collect();
        lanes.sort_unstable();
        lanes.dedup();
        Ok(lanes)
    }

    /// Whether the treatment shows in the counts.
    fn shows(&self, counts: &Counts) -> bool {
        match self.treatment {
            Treatment::Delay { .. } | Treatment::Loss { .. } | Treatment::Limit { .. } => {
                counts.delayed > 0
            }
            Treatment::Reset { .. } | Treatment::Refuse => counts.reset > 0,
            Treatment::Swallow => counts.swallowed > 0,
            Treatment::Hold => counts.held > 0,
            Treatment::Corrupt { .. } => counts.corrupted > 0,
            Treatment::Pass => true,
        }
    }
}

fn total(lanes: &Lanes, weak: &[(Side, Side)]) -> Counts {
    weak.iter().fold(Counts::default(), |sum, &(from, to)| {
        sum.and(&lanes.counts(from, to))
    })
}

#[async_trait(?Send)]
impl Fault for WeakLinks {
    fn name(&self) -> &'static str {
        self.name
    }

    fn prepare(&mut self, setup: Setup) -> Result<Setup> {
        Ok(setup.on(Equipment::Network))
    }

    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        let weak = self.lanes(cluster, rng).await?;
        let lanes = cluster.network()?.lanes();
        let before = total(lanes, &weak);
        for &(from, to) in &weak {
            lanes.treat(from, to, self.treatment);
        }
        let probe = Caller::new(cluster.listeners(1).client_front);
        let counts = until("links to be weak", async || {
            if self.reach == Reach::Everyone {
                // Whether it is answered does not matter: it is there to be late, or lost.
                drop(probe.status().await);
            }
            match total(lanes, &weak).since(&before) {
                counts if self.shows(&counts) => Look::Done(counts),
                counts => Look::NotYet(counts.to_string()),
            }
        })
        .await?;
        Ok(Seen::one(format!("{:?}: {counts}", self.treatment)))
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        let network = cluster.network()?;
        network.lanes().clear();
        for seat in cluster.running() {
            if let Err(error) = cluster.node_mut(seat).assert_running() {
                bail!("node {seat} did not survive {:?}: {error}", self.treatment);
            }
        }
        cluster.all_ready().await
    }
}
