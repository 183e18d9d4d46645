//! A retried mutation takes effect once, and is answered with its first outcome, on whichever node the retry lands.

use anyhow::Result;
use helve_proto::v1::{
    CountRequest, HandleStatus, MintRequest, TakeRequest, TransactRequest,
    transact_reply::Result as Part,
};
use helve_proto::v1::{MintOperation, Operation, operation::Operation as Kind};
use helve_tests::{caller::new_identity, cluster::Cluster, promise};

use super::nodes;

/// A mint into a store, to be retried.
pub(crate) fn mint_of(store: &str) -> MintRequest {
    MintRequest {
        identity: Some(new_identity()),
        store: store.to_owned(),
        value: "beans".into(),
        ..MintRequest::default()
    }
}

/// Sends a mint and a take to the first node, and retries each on every node.
pub(crate) async fn check_retries(cluster: &Cluster, store: &str) -> Result<()> {
    let seats = cluster.running();
    let mint = mint_of(store);
    let minted = cluster.caller(seats[0]).mint(mint.clone()).await?.info;
    for &seat in &seats {
        let again = cluster.caller(seat).mint(mint.clone()).await?.info;
        promise!(
            again == minted,
            "node {seat} answered a retried mint with {again:?}, not {minted:?}"
        );
    }

    let take = TakeRequest {
        identity: Some(new_identity()),
        store: store.to_owned(),
        id: minted.unwrap_or_default().name,
        ..TakeRequest::default()
    };
    for &seat in &seats {
        let taken = cluster.caller(seat).take(take.clone()).await?;
        let value = taken.value.clone();
        promise!(
            taken.status() == HandleStatus::Live && value == "beans",
            "node {seat} answered a retried take with {taken:?}"
        );
    }
    let live = cluster
        .caller(seats[0])
        .count(CountRequest {
            store: store.to_owned(),
            owner: None,
        })
        .await?
        .live;
    promise!(
        live == 0,
        "{live} handles are left of one that was minted and taken"
    );
    Ok(())
}

#[tokio::test]
async fn a_retry_on_another_node_is_answered_with_the_first_outcome() -> Result<()> {
    let cluster = nodes(3).start().await?;
    check_retries(&cluster, "carts").await
}

#[tokio::test]
async fn a_retry_after_a_leader_change_is_answered_with_the_first_outcome() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let request = TransactRequest {
        identity: Some(new_identity()),
        operations: vec![Operation {
            operation: Some(Kind::Mint(MintOperation {
                store: "carts".to_owned(),
                ..MintOperation::default()
            })),
        }],
    };
    let leader = cluster.leader().await?;
    let first = cluster
        .caller(leader.seat)
        .transact(request.clone())
        .await?
        .result;
    assert!(matches!(first, Some(Part::Committed(_))), "{first:?}");
    cluster.kill(leader.seat)?;
    let next = cluster.leader().await?;
    promise!(
        next.term > leader.term,
        "{next:?} leads after {leader:?} was killed"
    );
    for seat in cluster.running() {
        let again = cluster.caller(seat).transact(request.clone()).await?.result;
        promise!(
            again == first,
            "node {seat} answered a retry with {again:?}, not {first:?}"
        );
    }
    let live = cluster
        .caller(next.seat)
        .count(CountRequest {
            store: "carts".to_owned(),
            owner: None,
        })
        .await?
        .live;
    promise!(live == 1, "{live} handles were minted by one transaction");
    Ok(())
}

#[tokio::test]
async fn a_retry_after_all_nodes_were_killed_is_answered_with_the_first_outcome() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let mint = mint_of("carts");
    let first = cluster.caller(1).mint(mint.clone()).await?.info;
    for seat in cluster.seats() {
        cluster.kill(seat)?;
    }
    for seat in cluster.seats() {
        cluster.start(seat)?;
    }
    cluster.all_ready().await?;
    for seat in cluster.seats() {
        let again = cluster.caller(seat).mint(mint.clone()).await?.info;
        promise!(
            again == first,
            "node {seat} answered a retry with {again:?}, not {first:?}"
        );
    }
    Ok(())
}
