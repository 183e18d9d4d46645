//! Failpoints that a fault arms in a node, and what is seen of the node that meets them.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result, ensure};
use helve_node::failpoint::Failpoint;
use helve_proto::v1::NodeStatus;
use helve_tests::{
    cluster::Cluster,
    failpoints::{arm, disarm},
    wait::{Look, until},
};

/// Far longer than a run: a process that waits this long is killed first.
const FOR_EVER: &str = "delay:3600000";

/// Failpoints that were armed in a node.
pub(super) struct Armed {
    seat: u64,
    log: PathBuf,
    /// What the node had said before does not count.
    said_before: usize,
}

impl Armed {
    /// Arms them, instead of those that were armed before.
    pub(super) fn new(cluster: &Cluster, seat: u64, script: &str) -> Result<Self> {
        let log = cluster.log_file(seat);
        let said_before = fs::read(&log)?.len();
        arm(cluster, seat, script)?;
        Ok(Self {
            seat,
            log,
            said_before,
        })
    }

    /// The node stops at a failpoint from now on, whenever it reaches it.
    pub(super) fn for_ever(cluster: &Cluster, seat: u64, point: Failpoint) -> Result<Self> {
        Self::new(cluster, seat, &format!("{}={FOR_EVER}", point.as_str()))
    }

    /// Waits until the node says that it came by, and did what it was armed for so often.
    pub(super) async fn reached(&self, point: Failpoint, times: usize) -> Result<String> {
        let (seat, said) = (self.seat, format!("failpoint {}: ", point.as_str()));
        let what = format!("node {seat} to reach {}", point.as_str());
        until(&what, async || match fs::read(&self.log) {
            Ok(log) => {
                let new = log.get(self.said_before..).unwrap_or_default();
                match String::from_utf8_lossy(new).matches(&said).count() {
                    met if met >= times => {
                        let seen = format!("node {seat} reached {} {met} times", point.as_str());
                        Look::Done(seen)
                    }
                    met => Look::NotYet(format!("{met} times of {times}")),
                }
            }
            Err(error) => Look::NotYet(error.to_string()),
        })
        .await
    }
}

/// Waits until a node has died of its failpoint.
pub(super) async fn dies(cluster: &mut Cluster, seat: u64) -> Result<String> {
    let node = cluster.node_mut(seat);
    until(&format!("node {seat} to die"), async || {
        match node.assert_running() {
            Ok(()) => Look::NotYet("it runs".to_owned()),
            Err(_) => Look::Done(()),
        }
    })
    .await?;
    let status = node.stopped().await?;
    let log = node.log_tail();
    let said = log.lines().rev().find(|line| line.contains("failpoint "));
    let said = said.with_context(|| format!("node {seat} did not die of a failpoint: {log}"))?;
    ensure!(said.contains("Kill"), "node {seat} died of {said}");
    Ok(format!("node {seat}: {said}, {status}"))
}

/// Starts every node that is down, without failpoints.
pub(super) async fn comes_back(cluster: &mut Cluster, seat: Option<u64>) -> Result<()> {
    if let Some(seat) = seat {
        disarm(cluster, seat)?;
    }
    cluster.revive()?;
    cluster.all_ready().await
}

/// Waits until the leader has thrown away its log up to behind an index.
pub(super) async fn purged_beyond(cluster: &Cluster, index: u64) -> Result<()> {
    let leader = cluster.leader().await?.seat;
    until("the leader to purge its log", async || {
        match status(cluster, leader).await {
            Ok(status) if status.purged_index > index => Look::Done(()),
            Ok(status) => Look::NotYet(format!("up to {}, not {index}", status.purged_index)),
            Err(error) => Look::NotYet(error.to_string()),
        }
    })
    .await
}

/// What a node says of itself.
pub(super) async fn status(cluster: &Cluster, seat: u64) -> Result<NodeStatus> {
    let node = cluster.status(seat).await?.node;
    node.context("a status names its node")
}
