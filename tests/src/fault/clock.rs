//! Clocks that are wrong: that jump, jitter, or run too fast, on one node; or on all nodes together.
//!
//! A node's clock is faked by libfaketime, preloaded: it reads the offset from a file at every look
//! at the clock. The monotonic clock stays true, as it does when an operator or a time server sets
//! the wall clock; that it drifts, too, is a fault of its own, for which the node is restarted.

mod faked;
mod together;

use std::time::Duration;

use anyhow::{Context as _, Result};
use helve_node::stamp::SKEW_MAX;
use rand::rngs::SmallRng;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};
use tonic::async_trait;

pub use faked::{Clock, Monotonic, Reading};

use super::{Fault, Seen, Target, kill::kill};
use crate::{
    cluster::{Cluster, Equipment, Setup},
    members::hand_over,
    promise,
};

/// How far a clock jumps.
const JUMP_S: i64 = 262;
/// How long a jittering clock stays as it is.
const STROBE: Duration = Duration::from_millis(200);

/// What a clock does.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Error {
    /// It jumps by this many seconds.
    Jump(i64),
    /// It jumps there and back, five times a second.
    Strobe(i64),
    /// It runs so much faster.
    Rate(f64),
    /// All clocks of the node run so much faster, its monotonic one too.
    RateOfAll(f64),
}

/// One node's clock is wrong until it is healed.
#[derive(Debug)]
pub struct WrongClock {
    name: &'static str,
    error: Error,
    target: Target,
    wrong: Option<u64>,
    before: Option<ClusterTime>,
    strobe: Option<JoinHandle<()>>,
}

/// All of them.
pub fn all() -> impl Iterator<Item = Box<dyn Fault>> {
    let all = [
        ("clock-jump-ahead", Error::Jump(JUMP_S), Target::Follower),
        ("clock-jump-back", Error::Jump(-JUMP_S), Target::Follower),
        (
            "leader-clock-jump-ahead",
            Error::Jump(JUMP_S),
            Target::Leader,
        ),
        ("clock-strobe", Error::Strobe(JUMP_S), Target::Leader),
        ("clock-drift", Error::Rate(1.5), Target::Leader),
        (
            "clock-drift-monotonic",
            Error::RateOfAll(1.2),
            Target::Random,
        ),
    ];
    let wrong = all.into_iter().map(|(name, error, target)| {
        Box::new(WrongClock {
            name,
            error,
            target,
            wrong: None,
            before: None,
            strobe: None,
        }) as Box<dyn Fault>
    });
    wrong.chain(together::all())
}

#[async_trait(?Send)]
impl Fault for WrongClock {
    fn name(&self) -> &'static str {
        self.name
    }

    fn missing(&self) -> Option<String> {
        Clock::missing()
    }

    fn prepare(&mut self, setup: Setup) -> Result<Setup> {
        Ok(setup.on(Equipment::Clocks))
    }

    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        let seats = self.target.pick(cluster, rng).await?;
        let seat = *seats.first().context("one node is picked")?;
        self.before = Some(ClusterTime::read(cluster).await?);
        self.wrong = Some(seat);
        let mut seen = Seen::default();
        match self.error {
            Error::Jump(by_s) => cluster.clock(seat)?.set(Reading::Offset(by_s))?,
            Error::Rate(rate) => cluster.clock(seat)?.set(Reading::Rate(rate))?,
            Error::Strobe(by_s) => {
                cluster.clock(seat)?.set(Reading::Offset(by_s))?;
                let clock = cluster.clock(seat)?.clone();
                self.strobe = Some(tokio::spawn(strobe(clock, by_s)));
            }
            Error::RateOfAll(rate) => {
                seen.add(kill(cluster, seat)?);
                cluster.clock(seat)?.set(Reading::Rate(rate))?;
                restart_with(cluster, seat, Monotonic::Faked)?;
                cluster.ready(seat).await?;
            }
        }
        let pid = cluster.node(seat).pid().context("the node runs")?;
        let clock = cluster.clock(seat)?;
        clock.check_preloaded(pid)?;
        if matches!(self.error, Error::Jump(_)) {
            seen.add(format!(
                "node {seat}'s clock is off by {} s",
                clock.off_s()?
            ));
        } else {
            seen.add(format!("node {seat}'s clock: {:?}", self.error));
        }
        if self.target == Target::Follower {
            seen.add(take_office(cluster, seat).await?);
        }
        Ok(seen)
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        if let Some(strobe) = self.strobe.take() {
            strobe.abort();
            // Its end is its abortion.
            drop(strobe.await);
        }
        let held = match self.before.take() {
            Some(before) => before.did_not_leap(cluster).await,
            None => Ok(()),
        };
        if let Some(seat) = self.wrong.take() {
            cluster.clock(seat)?.set(Reading::True)?;
            if matches!(self.error, Error::RateOfAll(_)) {
                kill(cluster, seat)?;
                restart_with(cluster, seat, Monotonic::True)?;
            }
        }
        cluster.all_ready().await?;
        held
    }
}

/// The replicated time, as the leader had it once.
#[derive(Debug)]
struct ClusterTime {
    at: Instant,
    clock_ms: u64,
}

impl ClusterTime {
    async fn read(cluster: &Cluster) -> Result<Self> {
        let at = Instant::now();
        let leader = cluster.leader().await?.seat;
        let node = cluster.status(leader).await?.node;
        let clock_ms = node.context("a status names its node")?.clock_ms;
        Ok(Self { at, clock_ms })
    }

    /// Whatever the clock of one node says, lifetimes go on as time does.
    async fn did_not_leap(&self, cluster: &Cluster) -> Result<()> {
        let now = Self::read(cluster).await?;
        let went = Duration::from_millis(now.clock_ms.saturating_sub(self.clock_ms));
        let passed = self.at.elapsed();
        promise!(
            went <= passed + SKEW_MAX,
            "the cluster's time went on by {went:?} in {passed:?}"
        );
        Ok(())
    }
}

impl Drop for WrongClock {
    fn drop(&mut self) {
        if let Some(strobe) = &self.strobe {
            strobe.abort();
        }
    }
}

async fn strobe(clock: Clock, by_s: i64) {
    loop {
        for offset_s in [by_s, 0, -by_s, 0] {
            if let Err(error) = clock.set(Reading::Offset(offset_s)) {
                eprintln!("a clock could not be set: {error:#}");
                return;
            }
            sleep(STROBE).await;
        }
    }
}

fn restart_with(cluster: &mut Cluster, seat: u64, monotonic: Monotonic) -> Result<()> {
    for (name, value) in cluster.clock(seat)?.environment(monotonic) {
        cluster.node_mut(seat).set(&name, &value);
    }
    cluster.start(seat)
}

/// A leader takes its time from the wall when it takes office: the node with the wrong clock does so
/// now.
async fn take_office(cluster: &Cluster, seat: u64) -> Result<String> {
    let leader = hand_over(cluster, seat).await?;
    Ok(format!("node {seat} leads since term {}", leader.term))
}
