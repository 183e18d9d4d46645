//! Any node takes writes, and any other reads them at once.

use anyhow::Result;
use helve_proto::{
    Reason,
    v1::{RetrieveRequest, StoreRequest},
};
use helve_tests::{caller::reason, cluster::Cluster, promise, promise::Broken};
use tonic::Code;

use super::nodes;

/// Rounds of a write and the reads after it: a node that reads without asking the leader lags behind in nearly each.
const ROUNDS: u64 = 50;

/// Writes through each node in turn, and reads each write from every node as soon as it is acknowledged.
pub(crate) async fn check_reads_after_writes(cluster: &Cluster) -> Result<()> {
    for round in 0..ROUNDS {
        for writer in cluster.seats() {
            let value = format!("{round} by {writer}");
            let request = StoreRequest {
                key: "counter".to_owned(),
                value: value.clone().into(),
                ..StoreRequest::default()
            };
            let written = cluster.caller(writer).store(request).await?;
            let revision = written.info.unwrap_or_default().revision;
            for reader in cluster.seats() {
                let request = RetrieveRequest {
                    key: "counter".to_owned(),
                    ..RetrieveRequest::default()
                };
                let reply = cluster.caller(reader).retrieve(request).await?;
                let found = reply.record.unwrap_or_default();
                promise!(
                    found.value == value.as_bytes()
                        && found.info.unwrap_or_default().revision == revision,
                    "node {reader} read {:?} after node {writer} had written {value:?}",
                    found.value
                );
                let index = reply.header.unwrap_or_default().index;
                promise!(
                    index >= revision,
                    "node {reader} read at index {index}, before the write at {revision}"
                );
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn every_node_reads_what_another_has_just_written() -> Result<()> {
    let cluster = nodes(3).start().await?;
    check_reads_after_writes(&cluster).await
}

/// Freezes the leader and a follower: the follower that is left must not answer.
pub(crate) async fn check_a_minority_is_silent(cluster: &Cluster) -> Result<()> {
    let leader = cluster.leader().await?.seat;
    check_is_silent_alone(cluster, cluster.others(leader)[0]).await
}

/// Freezes the followers: the leader that is left must not answer.
pub(crate) async fn check_a_leader_alone_is_silent(cluster: &Cluster) -> Result<()> {
    let leader = cluster.leader().await?.seat;
    check_is_silent_alone(cluster, leader).await
}

/// Freezes all others: what is left must not answer, neither reads nor writes.
async fn check_is_silent_alone(cluster: &Cluster, left: u64) -> Result<()> {
    let caller = cluster.caller(left);
    let store = StoreRequest {
        key: "a".to_owned(),
        value: "1".into(),
        ..StoreRequest::default()
    };
    caller.store(store.clone()).await?;
    for seat in cluster.others(left) {
        cluster.node(seat).freeze()?;
    }
    let retrieve = RetrieveRequest {
        key: "a".to_owned(),
        ..RetrieveRequest::default()
    };
    let read = caller.retrieve(retrieve).await;
    let written = caller.store(store).await;
    for seat in cluster.others(left) {
        cluster.node(seat).thaw()?;
    }
    for answer in [
        read.map(|reply| format!("{reply:?}")),
        written.map(|reply| format!("{reply:?}")),
    ] {
        let status = match answer {
            Err(status) => status,
            Ok(reply) => return Err(Broken::new(format!("a minority answered {reply}")).into()),
        };
        // The node itself says why, within the deadline.
        promise!(
            matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded)
                && matches!(reason(&status), Some(Reason::NoLeader | Reason::Ambiguous)),
            "a minority answered {status:?}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_node_without_a_majority_answers_unavailable_and_guesses_nothing() -> Result<()> {
    let cluster = nodes(3).start().await?;
    check_a_minority_is_silent(&cluster).await?;
    check_reads_after_writes(&healed(cluster).await?).await
}

#[tokio::test]
async fn a_leader_without_a_majority_answers_unavailable_and_guesses_nothing() -> Result<()> {
    let cluster = nodes(3).start().await?;
    check_a_leader_alone_is_silent(&cluster).await?;
    check_reads_after_writes(&healed(cluster).await?).await
}

async fn healed(mut cluster: Cluster) -> Result<Cluster> {
    cluster.all_ready().await?;
    cluster.leader().await?;
    Ok(cluster)
}
