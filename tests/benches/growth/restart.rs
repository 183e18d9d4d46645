//! How long nodes that were killed take until they serve again.

use std::time::Instant;

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use serde::Serialize;

use crate::{
    load::{Load, Operation},
    nodes::Nodes,
    plan::Plan,
};

/// Who is killed.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Killed {
    Follower,
    Leader,
    All,
}

impl Killed {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Follower => "a follower",
            Self::Leader => "the leader",
            Self::All => "all three nodes",
        }
    }

    async fn seats(self, nodes: &Nodes) -> Result<Vec<u64>> {
        let leader = nodes.cluster.leader().await?.seat;
        Ok(match self {
            Self::Follower => nodes.cluster.others(leader)[..1].to_vec(),
            Self::Leader => vec![leader],
            Self::All => nodes.cluster.seats(),
        })
    }
}

/// Nodes that were killed and started again.
#[derive(Debug, Serialize)]
pub(crate) struct Restart {
    pub(crate) killed: Killed,
    /// From the start until a linearizable get was answered through each of them.
    pub(crate) seconds: Vec<f64>,
}

impl Restart {
    /// Until the last one of them served.
    pub(crate) fn longest(&self) -> f64 {
        self.seconds.iter().copied().fold(0.0, f64::max)
    }
}

/// A follower, then the leader, then all.
pub(crate) async fn measure(nodes: &mut Nodes, plan: &Plan) -> Result<Vec<Restart>> {
    let mut restarts = Vec::new();
    for killed in [Killed::Follower, Killed::Leader, Killed::All] {
        // So that there is something that only the log holds.
        let mut load = Load::new(nodes, &nodes.cluster.seats(), plan)?;
        load.round(Operation::Mint, &nodes.pids(), plan).await?;
        let restarted = restart(nodes, killed).await;
        let restarted = restarted.with_context(|| format!("kill -9 of {}", killed.name()))?;
        eprintln!("kill -9 of {}: {:.2} s", killed.name(), restarted.longest());
        restarts.push(restarted);
        nodes.cluster.all_ready().await?;
    }
    Ok(restarts)
}

async fn restart(nodes: &mut Nodes, killed: Killed) -> Result<Restart> {
    let seats = killed.seats(nodes).await?;
    for &seat in &seats {
        nodes.kill(seat)?;
    }
    let begun = Instant::now();
    for &seat in &seats {
        nodes.cluster.start(seat)?;
    }
    let serve = seats.iter().map(|&seat| nodes.serves(seat, begun));
    let seconds = try_join_all(serve).await?;
    Ok(Restart { killed, seconds })
}
