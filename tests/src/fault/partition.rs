//! Nodes that cannot reach each other, or one way only, and clients that cannot reach a node.

mod shape;

use std::time::Duration;

use anyhow::{Context as _, Result};
use rand::{
    RngExt as _, SeedableRng as _,
    rngs::SmallRng,
    seq::{IndexedRandom as _, SliceRandom as _},
};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};
use tonic::async_trait;

pub use shape::Shape;

use super::{
    Fault, Seen,
    network::{Counts, Lanes, Side, Treatment},
};
use crate::{
    caller::Caller,
    cluster::{Cluster, Equipment, Setup},
    wait::{Look, until},
};

/// How long a flapping network stays as it is.
const FLAP: Duration = Duration::from_millis(200);
/// How long a client that is cut off waits for what cannot come.
const PROBE: Duration = Duration::from_millis(500);

/// All partitions.
pub fn all() -> impl Iterator<Item = Box<dyn Fault>> {
    let shapes = [
        ("partition-leader-minority", Shape::LeaderInMinority),
        ("partition-leader-majority", Shape::LeaderInMajority),
        ("leader-deaf", Shape::LeaderDeaf),
        ("leader-mute", Shape::LeaderMute),
        ("bridge", Shape::Bridge),
        ("client-cut", Shape::ClientsFromLeader),
    ];
    let partitions = shapes
        .into_iter()
        .map(|(name, shape)| Box::new(Partition { name, shape }) as Box<dyn Fault>);
    let changing: [Box<dyn Fault>; 2] = [
        Box::new(Changing::new("flapping-links", Pace::Flapping)),
        Box::new(Changing::new("swizzle-clog", Pace::Swizzle)),
    ];
    partitions.chain(changing)
}

/// Lanes that are cut until it is healed. What is cut is held, swallowed or refused, as the dice fall.
#[derive(Debug)]
pub struct Partition {
    name: &'static str,
    shape: Shape,
}

#[async_trait(?Send)]
impl Fault for Partition {
    fn name(&self) -> &'static str {
        self.name
    }

    fn prepare(&mut self, setup: Setup) -> Result<Setup> {
        Ok(setup.on(Equipment::Network))
    }

    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        let leader = cluster.leader().await?.seat;
        let cuts = self.shape.cuts(&cluster.seats(), leader, rng);
        let manner = [Treatment::Hold, Treatment::Swallow, Treatment::Refuse];
        let manner = *manner.choose(rng).context("there are three")?;
        let lanes = cluster.network()?.lanes();
        let before = total(lanes, &cuts);
        for &(from, to) in &cuts {
            lanes.treat(from, to, manner);
        }
        if self.shape == Shape::ClientsFromLeader {
            probe(cluster, leader).await?;
        }
        let counts = until("something to be cut off", async || {
            match total(lanes, &cuts).since(&before) {
                counts if counts.cut() => Look::Done(counts),
                counts => Look::NotYet(counts.to_string()),
            }
        })
        .await?;
        let mut seen = Seen::one(format!("node {leader} led; {manner:?} from/to {cuts:?}"));
        seen.add(counts.to_string());
        Ok(seen)
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        cluster.network()?.lanes().clear();
        cluster.all_ready().await
    }
}

/// Shows that clients are cut off from a node: it gives no answer over the network, though it lives.
async fn probe(cluster: &Cluster, seat: u64) -> Result<()> {
    let cut_off = Caller::new(cluster.listeners(seat).client_front);
    if let Ok(Ok(reply)) = timeout(PROBE, cut_off.status()).await {
        anyhow::bail!("node {seat} was to be cut off from clients, and answered {reply:?}");
    }
    cluster.status(seat).await.map(|_| ())
}

/// What happened on these lanes together.
fn total(lanes: &Lanes, cuts: &[(Side, Side)]) -> Counts {
    cuts.iter().fold(Counts::default(), |sum, &(from, to)| {
        sum.and(&lanes.counts(from, to))
    })
}

/// How a network changes that does not hold still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// One node's links break and come back, five times a second.
    Flapping,
    /// Some nodes' links are clogged one by one, and come back in another order.
    Swizzle,
}

/// Links that break and come back until it is healed.
#[derive(Debug)]
pub struct Changing {
    name: &'static str,
    pace: Pace,
    task: Option<JoinHandle<()>>,
}

impl Changing {
    fn new(name: &'static str, pace: Pace) -> Self {
        Self {
            name,
            pace,
            task: None,
        }
    }
}

#[async_trait(?Send)]
impl Fault for Changing {
    fn name(&self) -> &'static str {
        self.name
    }

    fn prepare(&mut self, setup: Setup) -> Result<Setup> {
        Ok(setup.on(Equipment::Network))
    }

    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        let lanes = cluster.network()?.lanes().clone();
        let seats = cluster.seats();
        let pairs = shape::pairs(&seats);
        let before = total(&lanes, &pairs);
        let own = SmallRng::seed_from_u64(rng.random());
        let changing = change(self.pace, lanes.clone(), seats, own);
        self.task = Some(tokio::spawn(changing));
        let counts = until("links to break and come back", async || {
            match total(&lanes, &pairs).since(&before) {
                counts if counts.held + counts.reset >= 3 => Look::Done(counts),
                counts => Look::NotYet(counts.to_string()),
            }
        })
        .await?;
        Ok(Seen::one(counts.to_string()))
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        if let Some(task) = self.task.take() {
            task.abort();
            // It was aborted, or it panicked: then the network is as it left it, and is cleared all the same.
            drop(task.await);
        }
        cluster.network()?.lanes().clear();
        cluster.all_ready().await
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

async fn change(pace: Pace, lanes: Lanes, seats: Vec<u64>, mut rng: SmallRng) {
    loop {
        match pace {
            Pace::Flapping => {
                let Some(&seat) = seats.choose(&mut rng) else {
                    return;
                };
                let manner = [Treatment::Hold, Treatment::Refuse];
                let manner = *manner.choose(&mut rng).unwrap_or(&Treatment::Hold);
                treat_all(&lanes, &seats, seat, manner);
                sleep(FLAP).await;
                treat_all(&lanes, &seats, seat, Treatment::Pass);
                sleep(FLAP).await;
            }
            Pace::Swizzle => {
                let mut some = seats.clone();
                some.shuffle(&mut rng);
                some.truncate(rng.random_range(1..=seats.len()));
                for &seat in &some {
                    treat_all(&lanes, &seats, seat, Treatment::Hold);
                    sleep(FLAP.mul_f64(rng.random())).await;
                }
                some.shuffle(&mut rng);
                for &seat in &some {
                    treat_all(&lanes, &seats, seat, Treatment::Pass);
                    sleep(FLAP.mul_f64(rng.random())).await;
                }
                sleep(FLAP * 5).await;
            }
        }
    }
}

/// Treats what one node and its peers send each other.
fn treat_all(lanes: &Lanes, seats: &[u64], seat: u64, treatment: Treatment) {
    for &other in seats.iter().filter(|&&other| other != seat) {
        lanes.treat(Side::Node(seat), Side::Node(other), treatment);
        lanes.treat(Side::Node(other), Side::Node(seat), treatment);
    }
}
