//! A node whose disk was lost: what callers of the others notice while it gets everything from the leader.

use std::{cell::Cell, time::Instant};

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join;
use helve_tests::wait::{Look, until_within};
use serde::Serialize;

use crate::{
    footprint::snapshot_bytes,
    load::{Load, Measured, Operation},
    measure::figures::Figures,
    nodes::{Nodes, PATIENCE},
    plan::Plan,
};

/// Rounds of mints, and as many snapshots, after which a log that still has its beginning will never lose it.
const ROUNDS_MAX: usize = 1000;

/// A node that came back with nothing, as a new one.
#[derive(Debug, Serialize)]
pub(crate) struct Newcomer {
    pub(crate) before: Measured,
    pub(crate) during: Figures,
    /// From its start until it answered a linearizable get.
    pub(crate) serves_seconds: f64,
    /// From its start until all nodes counted it among the voters.
    pub(crate) votes_seconds: f64,
    pub(crate) snapshot_bytes: u64,
}

impl Newcomer {
    pub(crate) fn p99_ratio(&self) -> f64 {
        self.during.p99_ms / self.before.median.p99_ms
    }
}

/// Takes a follower's data away.
pub(crate) async fn measure(nodes: &mut Nodes, plan: &Plan) -> Result<Newcomer> {
    shorten_logs(nodes, plan).await?;
    let leader = nodes.cluster.leader().await?.seat;
    let seat = nodes.cluster.others(leader)[0];
    let old = nodes.status(seat).await?;
    // Before and while it is away callers go the same ways.
    let mut load = Load::new(nodes, &nodes.cluster.others(seat), plan)?;
    let before = load.rounds(Operation::Mint, &nodes.pids(), plan).await?;
    nodes.kill(seat)?;
    nodes.cluster.wipe(seat)?;
    let begun = Instant::now();
    nodes.cluster.start(seat)?;
    let (during, (serves_seconds, snapshot_bytes)) = {
        let nodes = &*nodes;
        let is_over = Cell::new(false);
        let served = async {
            let seconds = nodes.serves(seat, begun).await?;
            is_over.set(true);
            Ok((seconds, snapshot_bytes(nodes, seat)?))
        };
        let pids = nodes.pids();
        let pace = plan.pace();
        let load = load.until(Operation::Mint, &pids, &pace, || is_over.get());
        try_join(load, served).await?
    };
    eprintln!("a node that was wiped serves after {serves_seconds:.2} s");
    let node = nodes.status(seat).await?;
    ensure!(
        node.id != old.id,
        "it lost its data, and is node {} again",
        old.id
    );
    ensure!(
        node.snapshot_index > 0,
        "it got the whole log, and no snapshot: {node:?}"
    );
    votes(nodes, seat).await?;
    let votes_seconds = begun.elapsed().as_secs_f64();
    nodes.cluster.all_ready().await?;
    Ok(Newcomer {
        before,
        during,
        serves_seconds,
        votes_seconds,
        snapshot_bytes,
    })
}

/// Lets nodes work and take snapshots until each has thrown the beginning of its log away: before that, a new node gets the log.
async fn shorten_logs(nodes: &Nodes, plan: &Plan) -> Result<()> {
    let seats = nodes.cluster.seats();
    let mut load = Load::new(nodes, &seats, plan)?;
    for _ in 0..ROUNDS_MAX {
        let mut kept_whole = Vec::new();
        for &seat in &seats {
            nodes.take_snapshot(seat).await?;
            let status = nodes.status(seat).await?;
            if status.purged_index == 0 {
                kept_whole.push((seat, status.last_log_index));
            }
        }
        if kept_whole.is_empty() {
            return Ok(());
        }
        eprintln!("logs that still have their beginning, (node, last entry): {kept_whole:?}");
        load.round(Operation::Mint, &nodes.pids(), plan).await?;
    }
    anyhow::bail!("after {ROUNDS_MAX} snapshots a log still has its beginning")
}

/// Waits until all nodes count the one in this seat among the voters.
async fn votes(nodes: &Nodes, seat: u64) -> Result<()> {
    let sees = async |other| {
        let id = nodes.status(seat).await?.id;
        let status = nodes.cluster.status(other).await?;
        let mut members = status.members.iter();
        let member = members.find(|member| (member.seat, member.id) == (seat, id));
        anyhow::Ok(member.context("it is no member")?.voter)
    };
    for other in nodes.cluster.seats() {
        let what = format!("node {other} to see the new one vote");
        until_within(PATIENCE, &what, async || match sees(other).await {
            Ok(true) => Look::Done(()),
            other => Look::NotYet(format!("{other:?}")),
        })
        .await?;
    }
    Ok(())
}
