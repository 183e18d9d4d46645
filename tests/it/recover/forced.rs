//! `--force-bootstrap` on a node whose disk was lost: it makes no empty cluster while the rows may be left anywhere.

use anyhow::Result;
use helve_proto::v1::MintRequest;
use helve_tests::{caller::new_identity, cluster::Cluster, ledger::Ledger, promise};

use super::{super::nodes, every_node_holds, mint, page_says, recover, report};

const FORCE: &str = "HELVE_FORCE_BOOTSTRAP";
/// What the flag means without a value.
const ALONE: &str = "true";
const EVERYTHING_IS_LOST: &str = "everything-is-lost";

/// Starts a node with the flag, which must refuse, and returns what it said.
async fn refuses(cluster: &mut Cluster, seat: u64, value: &str) -> Result<String> {
    cluster.node_mut(seat).set(FORCE, value);
    cluster.start(seat)?;
    let status = cluster.node_mut(seat).stopped().await?;
    let log = cluster.node(seat).log_tail();
    let refusal = log.lines().last().unwrap_or_default().to_owned();
    promise!(
        status.code() == Some(2)
            && refusal.contains("--force-bootstrap")
            && refusal.contains("helve recover"),
        "{status}: {log}"
    );
    Ok(refusal)
}

#[tokio::test]
async fn force_bootstrap_is_refused_while_a_survivor_answers_or_may_be_left() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let ledger = Ledger::new("carts");
    mint(&ledger, &cluster, &cluster.seats()).await?;
    every_node_holds(&ledger, &cluster).await?;
    for seat in [2, 3] {
        cluster.kill(seat)?;
        cluster.empty(seat)?;
    }
    // The survivor runs, and leads no node.
    for value in [ALONE, EVERYTHING_IS_LOST] {
        let refusal = refuses(&mut cluster, 2, value).await?;
        promise!(refusal.contains("seat 1"), "{refusal}");
    }
    // It is down, and its disk is whole.
    cluster.kill(1)?;
    let refusal = refuses(&mut cluster, 2, ALONE).await?;
    promise!(refusal.contains("[1, 3] do not answer"), "{refusal}");
    // Nothing was changed: what the survivor holds is recovered, and the refused node joins it.
    report(&recover(&cluster, 1, &["--from-survivor"]).await?)?;
    cluster.start(1)?;
    cluster.ready(1).await?;
    ledger.check(&cluster).await?;
    let refusal = refuses(&mut cluster, 2, EVERYTHING_IS_LOST).await?;
    promise!(refusal.contains("seat 1"), "{refusal}");
    cluster.node_mut(2).set(FORCE, "false");
    cluster.start(2)?;
    page_says(&cluster, 2, "helve member add --seat 2").await
}

#[tokio::test]
async fn two_nodes_that_are_told_that_everything_is_lost_make_one_cluster() -> Result<()> {
    let mut cluster = nodes(3).prepare().await?;
    for seat in [1, 2] {
        cluster.node_mut(seat).set(FORCE, EVERYTHING_IS_LOST);
        cluster.start(seat)?;
    }
    cluster.leader_of([1, 2]).await?;
    cluster.all_ready().await?;
    // The third finds them, and makes no cluster of its own.
    cluster.start(3)?;
    page_says(&cluster, 3, "helve member add --seat 3").await?;
    let request = MintRequest {
        identity: Some(new_identity()),
        store: "carts".to_owned(),
        ..MintRequest::default()
    };
    cluster.caller(2).mint(request).await?;
    Ok(())
}
