//! Members that come and go while the cluster serves.

mod failures;
mod growth;
mod learners;
mod refusals;
mod removal;

use std::process::Output;

use anyhow::{Context as _, Result, ensure};
use helve_proto::v1::{Member, NodeStatus, Role, StatusReply};
use helve_tests::{
    cluster::Cluster,
    wait::{Look, until},
};
use serde_json::Value;
use tokio::process::Command;

use super::binary;

/// Runs `helve member` against these seats, without holding up the test.
async fn run(cluster: &Cluster, seats: &[u64], arguments: &[&str]) -> Result<Output> {
    let endpoints = seats
        .iter()
        .map(|&seat| cluster.listeners(seat).client.to_string());
    let endpoints = endpoints.collect::<Vec<_>>().join(",");
    let command = Command::new(binary())
        .arg("member")
        .args(arguments)
        .args(["--output", "json", "--endpoints", &endpoints])
        .kill_on_drop(true)
        .output();
    Ok(command.await?)
}

/// What `helve member` printed, which must have succeeded.
pub(crate) async fn told(cluster: &Cluster, seats: &[u64], arguments: &[&str]) -> Result<Value> {
    let output = run(cluster, seats, arguments).await?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{arguments:?}: {}: {said}",
        output.status
    );
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Adds the running node of a seat, and returns its id.
pub(crate) async fn add(cluster: &Cluster, seat: u64) -> Result<u64> {
    let (number, peer) = place(cluster, seat);
    let seats = cluster.running();
    let arguments = ["add", "--seat", &number, "--peer", &peer];
    let added = told(cluster, &seats, &arguments).await?;
    added["node_id"].as_u64().context("no id")
}

/// The seat and the peer address, as the command line takes them.
pub(crate) fn place(cluster: &Cluster, seat: u64) -> (String, String) {
    (seat.to_string(), cluster.listeners(seat).peer.to_string())
}

pub(crate) async fn node(cluster: &Cluster, seat: u64) -> Result<NodeStatus> {
    let status = cluster.status(seat).await?;
    status.node.context("a status names its node")
}

/// The ids of the voters that a node knows.
fn voters(status: &StatusReply) -> Vec<u64> {
    let voters = status.members.iter().filter(|member| member.voter);
    voters.map(|member| member.id).collect()
}

/// What the leader says of the cluster once its members are as wished.
pub(crate) async fn members_are(
    cluster: &Cluster,
    what: &str,
    wished: impl Fn(&[Member]) -> bool,
) -> Result<StatusReply> {
    until(what, async || {
        let status = async {
            let leader = cluster.leader().await?;
            cluster.status(leader.seat).await
        };
        match status.await {
            Ok(status) if !status.joint && wished(&status.members) => Look::Done(status),
            Ok(status) => Look::NotYet(format!("{:?}, joint: {}", status.members, status.joint)),
            Err(error) => Look::NotYet(error.to_string()),
        }
    })
    .await
}

/// Waits until a node says that it has this role.
pub(crate) async fn has_role(cluster: &Cluster, seat: u64, role: Role) -> Result<NodeStatus> {
    until(
        &format!("node {seat} to be {role:?}"),
        async || match node(cluster, seat).await {
            Ok(status) if status.role() == role => Look::Done(status),
            other => Look::NotYet(format!("{other:?}")),
        },
    )
    .await
}
