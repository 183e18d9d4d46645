//! What goes wrong in the demo: the leader is killed, then a cart server, both while flows have open carts.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;

use super::{
    flows::{Gates, crowds},
    nodes::Nodes,
    replicas::Replicas,
    tickets::{BOOKKEEPERS, Probe},
};

/// How long the flows may take to come to their gates.
const CROWD_TIMEOUT: Duration = Duration::from_secs(30);
/// The replica that is killed.
const VICTIM: usize = 0;

/// What was done, and what it cost.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Faults {
    /// The leader that was killed, its process id, and its term.
    pub(super) leader: String,
    pub(super) leader_pid: u32,
    pub(super) term_before: u64,
    /// The next leader, and its term.
    pub(super) next_leader: String,
    pub(super) term_after: u64,
    /// From the kill until a write through the client crate was acknowledged.
    pub(super) failover_ms: u64,
    /// The cart server that was killed, and its process id.
    pub(super) replica: String,
    pub(super) replica_pid: u32,
}

/// Breaks things, and mends them.
pub(super) async fn strike(
    nodes: &mut Nodes,
    replicas: &mut Replicas,
    gates: &Gates,
    flows: u64,
    probe: &Probe,
    say: impl Fn(String),
) -> anyhow::Result<Faults> {
    let (leader_crowd, replica_crowd) = crowds(flows);
    crowd("leader", gates.leader.crowd(leader_crowd + BOOKKEEPERS)).await?;
    let old = nodes.ready().await?;
    let victim = &mut nodes.0[old.place].process;
    let (leader, leader_pid) = (victim.name().to_owned(), victim.pid().context("no leader")?);
    let killed_at = Instant::now();
    let status = victim.kill().await?;
    gates.leader.open();
    say(format!(
        "killed the leader, {leader} (pid {leader_pid}): {status}"
    ));
    let (acknowledged, new) = tokio::join!(probe.write(), nodes.leader_after(old.term));
    let failover = acknowledged?.duration_since(killed_at);
    let new = new?;
    let next_leader = nodes.0[new.place].process.name().to_owned();
    say(format!(
        "{next_leader} leads in term {} (was {}); a write took effect after {} ms",
        new.term,
        old.term,
        failover.as_millis()
    ));

    crowd("replica", gates.replica.crowd(replica_crowd)).await?;
    let victim = &mut replicas.replicas[VICTIM].process;
    let (replica, replica_pid) = (
        victim.name().to_owned(),
        victim.pid().context("no replica")?,
    );
    let status = victim.kill().await?;
    gates.replica.open();
    say(format!(
        "killed a cart server, {replica} (pid {replica_pid}): {status}"
    ));

    replicas.replicas[VICTIM].process.restart()?;
    nodes.0[old.place].process.restart()?;
    replicas.ready().await?;
    nodes.ready().await?;
    say(format!("{leader} and {replica} serve again"));
    Ok(Faults {
        leader,
        leader_pid,
        term_before: old.term,
        next_leader,
        term_after: new.term,
        failover_ms: u64::try_from(failover.as_millis()).unwrap_or(u64::MAX),
        replica,
        replica_pid,
    })
}

async fn crowd(gate: &str, crowd: impl Future<Output = ()>) -> anyhow::Result<()> {
    tokio::time::timeout(CROWD_TIMEOUT, crowd)
        .await
        .with_context(|| format!("no flow was open for the {gate}'s death after {CROWD_TIMEOUT:?}"))
}
