//! A cluster that has lost its majority, and goes on from the one node that is left.

#[cfg(feature = "planted")]
pub(super) mod cut_short;
mod forced;
mod survivors;

use std::{fs, process::Output};

use anyhow::{Result, ensure};
use helve_tests::{
    cluster::Cluster,
    ledger::Ledger,
    promise,
    wait::{Look, until},
};
use serde_json::Value;
use tokio::process::Command;

use super::{binary, nodes};
use crate::{membership, probes::get, snapshot::purge_beyond};

const MINTS: usize = 20;

pub(super) async fn recover(cluster: &Cluster, seat: u64, flags: &[&str]) -> Result<Output> {
    let command = Command::new(binary())
        .args(["recover", "--output", "json", "--data-dir"])
        .arg(cluster.data_directory(seat))
        .args(flags)
        .kill_on_drop(true)
        .output();
    Ok(command.await?)
}

fn refusal(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(super) fn report(output: &Output) -> Result<Value> {
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {said}", output.status);
    Ok(serde_json::from_slice(&output.stdout)?)
}

async fn mint(ledger: &Ledger, cluster: &Cluster, seats: &[u64]) -> Result<()> {
    let callers: Vec<_> = seats.iter().map(|&seat| cluster.caller(seat)).collect();
    ledger.mint_many(&callers, MINTS).await
}

/// Waits until the page that probes see of a node contains this.
pub(super) async fn page_says(cluster: &Cluster, seat: u64, words: &str) -> Result<()> {
    let http = cluster.listeners(seat).http;
    until(
        &format!("node {seat} to say {words:?}"),
        async || match get(http, "/readyz").await {
            Ok((503, page)) if page.contains(words) => Look::Done(()),
            other => Look::NotYet(format!("{other:?}")),
        },
    )
    .await
}

/// Waits until the node that will be the survivor has what was acknowledged: a majority holds it, of which that may be no part.
pub(super) async fn every_node_holds(ledger: &Ledger, cluster: &Cluster) -> Result<()> {
    ledger.check(cluster).await
}

/// Loses nodes 2 and 3 for good, and makes node 1 a cluster of its own.
async fn lose_two_and_recover(cluster: &mut Cluster) -> Result<Value> {
    for seat in cluster.running() {
        cluster.kill(seat)?;
    }
    for seat in [2, 3] {
        cluster.empty(seat)?;
    }
    report(&recover(cluster, 1, &["--from-survivor"]).await?)
}

#[tokio::test]
async fn the_survivor_of_three_keeps_every_acknowledged_write_and_the_others_join_it() -> Result<()>
{
    let mut cluster = nodes(3).start().await?;
    let ledger = Ledger::new("carts");
    mint(&ledger, &cluster, &cluster.seats()).await?;
    let former = cluster.status(1).await?.cluster_id;
    let left = {
        cluster.kill(3)?;
        let image = cluster.take_image(3)?;
        cluster.start(3)?;
        cluster.ready(3).await?;
        image
    };
    let planned = {
        for seat in cluster.running() {
            cluster.kill(seat)?;
        }
        report(&recover(&cluster, 1, &[]).await?)?
    };
    promise!(
        planned["done"] == false && planned["former_cluster_id"] == former.as_str(),
        "{planned}"
    );
    let done = lose_two_and_recover(&mut cluster).await?;
    promise!(
        done["done"] == true
            && done["cluster_id"] != former.as_str()
            && done["digest"].as_str().is_some_and(|hash| hash.len() == 64)
            && done["may_be_lost"]
                .as_array()
                .is_some_and(|lost| !lost.is_empty()),
        "{done}"
    );
    cluster.start(1)?;
    cluster.ready(1).await?;
    ledger.check(&cluster).await?;
    mint(&ledger, &cluster, &[1]).await?;

    cluster.start(2)?;
    page_says(&cluster, 2, "helve member add --seat 2").await?;
    membership::add(&cluster, 2).await?;
    cluster.ready(2).await?;

    // One of the former nodes comes back with its data: it is refused, and joins once it is emptied.
    cluster.put_image_back(3, &left)?;
    cluster.start(3)?;
    let status = cluster.node_mut(3).stopped().await?;
    let log = cluster.node(3).log_tail();
    promise!(
        status.code() == Some(2) && log.contains("recovered from a survivor"),
        "{status}: {log}"
    );
    cluster.empty(3)?;
    cluster.start(3)?;
    page_says(&cluster, 3, "helve member add --seat 3").await?;
    membership::add(&cluster, 3).await?;
    cluster.ready(3).await?;
    mint(&ledger, &cluster, &cluster.seats()).await?;
    ledger.check(&cluster).await?;
    // The survivor is no longer needed for what it alone had kept.
    cluster.kill(1)?;
    cluster.leader_of([2, 3]).await?;
    mint(&ledger, &cluster, &[2, 3]).await?;
    ledger.check(&cluster).await
}

#[tokio::test]
async fn pages_of_a_wiped_node_and_of_a_survivor_name_recovery() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    cluster.all_ready().await?;
    for seat in cluster.running() {
        cluster.kill(seat)?;
    }
    cluster.empty(2)?;
    for seat in [1, 2] {
        cluster.start(seat)?;
    }
    for seat in [1, 2] {
        page_says(&cluster, seat, "helve recover --data-dir DIR").await?;
    }
    page_says(&cluster, 2, "no leader to join through").await
}

#[tokio::test]
async fn a_node_that_runs_or_whose_majority_answers_is_not_recovered() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let ledger = Ledger::new("carts");
    mint(&ledger, &cluster, &cluster.seats()).await?;
    let runs = refusal(&recover(&cluster, 1, &["--from-survivor"]).await?);
    promise!(runs.contains("is running on it"), "{runs}");
    cluster.kill(1)?;
    let answered = refusal(&recover(&cluster, 1, &["--from-survivor"]).await?);
    promise!(
        answered.contains("start this node instead") && answered.contains("node 2"),
        "{answered}"
    );
    cluster.kill(2)?;
    let answered = refusal(&recover(&cluster, 1, &["--from-survivor"]).await?);
    promise!(answered.contains("2 of 3 voters"), "{answered}");
    let nothing = refusal(&recover(&cluster, 9, &["--from-survivor"]).await?);
    promise!(nothing.contains("no Helve node"), "{nothing}");
    // It was not touched.
    cluster.start(1)?;
    cluster.start(2)?;
    cluster.all_ready().await?;
    ledger.check(&cluster).await
}

#[tokio::test]
async fn a_survivor_takes_up_what_its_rows_had_not_yet_applied() -> Result<()> {
    let mut cluster = nodes(3)
        .with("HELVE_SNAPSHOT_ENTRIES", "50")
        .with("HELVE_LOG_KEEP_ENTRIES", "10")
        .start()
        .await?;
    let ledger = Ledger::new("carts");
    for _ in 0..4 {
        mint(&ledger, &cluster, &cluster.seats()).await?;
    }
    every_node_holds(&ledger, &cluster).await?;
    let first = lose_two_and_recover(&mut cluster).await?;
    // Said again before it was started, it recovers what is there once more.
    let second = report(&recover(&cluster, 1, &["--from-survivor"]).await?)?;
    promise!(
        first["cluster_id"] != second["cluster_id"] && first["rows"] == second["rows"],
        "{first}, then {second}"
    );
    cluster.start(1)?;
    cluster.ready(1).await?;
    ledger.check(&cluster).await
}

#[tokio::test]
async fn rows_that_the_log_does_not_reach_are_not_recovered() -> Result<()> {
    let setup = nodes(1).with("HELVE_SNAPSHOT_ENTRIES", "50");
    let mut cluster = setup.with("HELVE_LOG_KEEP_ENTRIES", "10").start().await?;
    let ledger = Ledger::new("carts");
    purge_beyond(&cluster, &ledger, 1).await?;
    cluster.kill(1)?;
    fs::remove_dir_all(cluster.data_directory(1).join("state-1"))?;
    let said = refusal(&recover(&cluster, 1, &["--from-survivor"]).await?);
    promise!(
        said.contains("the rows hold entries up to 0 only"),
        "{said}"
    );
    Ok(())
}
