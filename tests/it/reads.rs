//! Any node takes writes, and any other reads them at once.

use anyhow::Result;
use helve_proto::{
    Reason,
    v1::{RetrieveRequest, StoreRequest},
};
use helve_tests::{caller::reason, cluster::Cluster, promise};
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

#[tokio::test]
async fn a_node_without_a_majority_answers_unavailable_and_guesses_nothing() -> Result<()> {
    let cluster = nodes(3).start().await?;
    let leader = cluster.leader().await?.seat;
    let left = cluster.others(leader)[0];
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

    let read = caller
        .retrieve(RetrieveRequest {
            key: "a".to_owned(),
            ..RetrieveRequest::default()
        })
        .await;
    let status = read.expect_err("nobody can confirm a read");
    assert!(
        matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded),
        "{status}"
    );
    let status = caller
        .store(store)
        .await
        .expect_err("nobody can confirm a write");
    assert!(
        matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded),
        "{status}"
    );
    assert!(
        matches!(reason(&status), Some(Reason::NoLeader | Reason::Ambiguous)),
        "the node itself must say why: {status:?}"
    );

    for seat in cluster.others(left) {
        cluster.node(seat).thaw()?;
    }
    check_reads_after_writes(&healed(cluster).await?).await
}

async fn healed(mut cluster: Cluster) -> Result<Cluster> {
    cluster.all_ready().await?;
    cluster.leader().await?;
    Ok(cluster)
}
