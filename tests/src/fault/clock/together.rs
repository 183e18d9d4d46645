//! All clocks are wrong together, and right again: as after machines were suspended, or started before they were told the time.
//!
//! The cluster's time follows a majority of walls, so it must come along, and come back: forward soon, backward slowly, and never by
//! a fall, which the judge of histories sees.

use std::time::Duration;

use anyhow::{Context as _, Result};
use helve_node::stamp::SKEW_MAX;
use rand::rngs::SmallRng;
use tokio::time::Instant;
use tonic::async_trait;

use super::{Clock, Reading};
use crate::{
    cluster::{Cluster, Equipment, Setup},
    fault::{Fault, Seen},
    promise,
    promise::Broken,
    wait::{Look, until},
};

/// How far all clocks jump ahead. The way back takes twice as long.
const AHEAD_S: i64 = 25;
/// How far they jump back.
const BACK_S: i64 = -262;
/// How much time a cluster that is ahead of all walls must be seen to have lost.
const LOST_MS: i64 = 2_000;

/// All nodes' clocks are wrong alike until they are healed.
#[derive(Debug)]
pub(super) struct AllClocks {
    name: &'static str,
    by_s: i64,
    is_wrong: bool,
    /// Time did not follow the clocks, and so has nowhere to come back from.
    stays: bool,
}

/// Both of them.
pub(super) fn all() -> impl Iterator<Item = Box<dyn Fault>> {
    let both = [("all-clocks-ahead", AHEAD_S), ("all-clocks-back", BACK_S)];
    both.into_iter().map(|(name, by_s)| {
        Box::new(AllClocks {
            name,
            by_s,
            is_wrong: false,
            stays: false,
        }) as Box<dyn Fault>
    })
}

#[async_trait(?Send)]
impl Fault for AllClocks {
    fn name(&self) -> &'static str {
        self.name
    }

    fn missing(&self) -> Option<String> {
        Clock::missing()
    }

    fn prepare(&mut self, setup: Setup) -> Result<Setup> {
        Ok(setup.on(Equipment::Clocks))
    }

    async fn strike(&mut self, cluster: &mut Cluster, _rng: &mut SmallRng) -> Result<Seen> {
        near(cluster).await?;
        self.is_wrong = true;
        let begun = Instant::now();
        set(cluster, Reading::Offset(self.by_s))?;
        let mut seen = Seen::default();
        for seat in cluster.running() {
            let pid = cluster.node(seat).pid().context("the node runs")?;
            cluster.clock(seat)?.check_preloaded(pid)?;
        }
        let noticed = away(cluster, self.by_s.signum()).await?;
        seen.add(format!(
            "all clocks are off by {} s, and the leader finds them {noticed} ms ahead",
            self.by_s
        ));
        let moved = if self.by_s > 0 {
            near(cluster).await.map(|_| "time followed them".to_owned())
        } else {
            let lost = loses(cluster, noticed).await;
            lost.map(|lost| format!("time lost {lost} ms"))
        };
        self.stays = moved.is_err();
        let moved = moved.map_err(|error| {
            let stays = "the cluster's time does not return to the walls";
            Broken::new(format!("{stays}: {error:#}"))
        })?;
        seen.add(format!("{moved} in {:?}", begun.elapsed()));
        Ok(seen)
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        if !std::mem::take(&mut self.is_wrong) {
            return Ok(());
        }
        let begun = Instant::now();
        set(cluster, Reading::True)?;
        if std::mem::take(&mut self.stays) {
            return cluster.all_ready().await;
        }
        if self.by_s > 0 {
            let ahead_ms = away(cluster, -1).await?.unsigned_abs();
            near(cluster).await?;
            let lost = Duration::from_millis(ahead_ms).saturating_sub(SKEW_MAX);
            promise!(
                lost <= begun.elapsed(),
                "the cluster's time lost {lost:?} in {:?}: it fell",
                begun.elapsed()
            );
        } else {
            near(cluster).await?;
        }
        cluster.all_ready().await
    }
}

fn set(cluster: &Cluster, reading: Reading) -> Result<()> {
    let seats = cluster.seats();
    seats
        .into_iter()
        .try_for_each(|seat| cluster.clock(seat)?.set(reading))
}

/// How far the leader finds a majority of walls ahead of the cluster's time; `None`: it finds none that agrees.
async fn walls_ahead(cluster: &Cluster) -> Result<Option<i64>> {
    let leader = cluster.leader().await?.seat;
    let node = cluster.status(leader).await?.node;
    Ok(node.context("a status names its node")?.walls_ahead_ms)
}

/// Waits until the leader finds what it is to find, and answers that.
async fn found(cluster: &Cluster, what: &str, is_it: impl Fn(i64) -> bool) -> Result<i64> {
    until(what, async || match walls_ahead(cluster).await {
        Ok(Some(ahead_ms)) if is_it(ahead_ms) => Look::Done(ahead_ms),
        Ok(ahead_ms) => Look::NotYet(roughly(ahead_ms)),
        Err(error) => Look::NotYet(error.to_string()),
    })
    .await
}

/// How far the walls are ahead, to ten seconds: what trembles must not pass for progress.
fn roughly(ahead_ms: Option<i64>) -> String {
    match ahead_ms {
        Some(ahead_ms) => format!("the walls are ahead by {}0 s", ahead_ms.div_euclid(10_000)),
        None => "no majority of walls agrees".to_owned(),
    }
}

async fn near(cluster: &Cluster) -> Result<i64> {
    let is_near = |ahead_ms: i64| u128::from(ahead_ms.unsigned_abs()) <= SKEW_MAX.as_millis();
    found(cluster, "the cluster's time to be near the walls", is_near).await
}

async fn away(cluster: &Cluster, sign: i64) -> Result<i64> {
    let is_away = |ahead_ms: i64| {
        ahead_ms.signum() == sign && u128::from(ahead_ms.unsigned_abs()) > SKEW_MAX.as_millis()
    };
    found(cluster, "the leader to find the walls far away", is_away).await
}

/// Waits until the cluster's time, ahead of the walls by `first` when that was noticed, has run slower than they for a while.
async fn loses(cluster: &Cluster, first: i64) -> Result<i64> {
    let lost = |ahead_ms: i64| ahead_ms - first >= LOST_MS;
    Ok(found(cluster, "the cluster's time to run slower", lost).await? - first)
}
