//! Planted bugs that need a crash at the right moment to do harm.

use anyhow::{Context as _, Result};
use helve_machine::planted::Plant;
use helve_node::failpoint::Failpoint;
use helve_tests::{
    caller::Caller,
    cluster::Cluster,
    digest::agree,
    failpoints::{arm, disarm, watch},
    ledger::Ledger,
    promise,
    wait::{Look, until},
};

use super::{assert_found, assert_was_executed};
use crate::{
    failpoints::{nothing_to_do, three_nodes},
    nodes,
    snapshot::{node_status, purge_beyond},
};

/// Far longer than a test: a process that waits this long is killed first.
const FOR_EVER: &str = "delay:3600000";

async fn with_bug(plant: Plant) -> Result<Cluster> {
    three_nodes(&[("HELVE_PLANTED", plant.as_str())]).await
}

/// From now on nothing reaches a node's log.
fn hold_up_log(cluster: &Cluster, seat: u64) -> Result<()> {
    let point = Failpoint::LogBeforeWrite.as_str();
    arm(cluster, seat, &format!("{point}={FOR_EVER}"))
}

fn kill_all(cluster: &mut Cluster) -> Result<()> {
    for seat in cluster.running() {
        cluster.kill(seat)?;
    }
    Ok(())
}

async fn start_without_failpoints(cluster: &mut Cluster, seats: &[u64]) -> Result<()> {
    for &seat in seats {
        disarm(cluster, seat)?;
        cluster.start(seat)?;
    }
    cluster.all_ready().await
}

fn caller_of(cluster: &Cluster, seat: u64) -> [Caller; 1] {
    [cluster.caller(seat)]
}

#[tokio::test]
async fn a_log_that_is_called_durable_before_it_is_loses_writes_and_is_found() -> Result<()> {
    let mut cluster = with_bug(Plant::AckBeforeSync).await?;
    let ledger = Ledger::new("carts");
    let leader = cluster.leader().await?.seat;
    let others = cluster.others(leader);
    for &seat in &others {
        hold_up_log(&cluster, seat)?;
    }
    ledger.mint(&caller_of(&cluster, leader)).await?;
    assert_was_executed(&cluster, leader, Plant::AckBeforeSync).await?;
    kill_all(&mut cluster)?;
    start_without_failpoints(&mut cluster, &others).await?;
    assert_found("ack-before-sync", ledger.check(&cluster).await);
    Ok(())
}

/// The log is shorter than what a node keeps of it, so nothing may be missing at its beginning.
async fn check_log_is_whole(cluster: &Cluster, seat: u64) -> Result<()> {
    let status = node_status(cluster, seat).await?;
    promise!(
        status.purged_index == 0,
        "node {seat} holds rows, and not the entries that they come from: {status:?}"
    );
    Ok(())
}

#[tokio::test]
async fn rows_that_are_ahead_of_the_durable_log_are_found() -> Result<()> {
    let mut cluster = with_bug(Plant::ApplyBeforeDurable).await?;
    let ledger = Ledger::new("carts");
    let leader = cluster.leader().await?.seat;
    let ahead = cluster.others(leader)[0];
    hold_up_log(&cluster, ahead)?;
    ledger.mint(&caller_of(&cluster, leader)).await?;
    let minted = node_status(&cluster, leader).await?.applied_index;
    until(
        "the rows to be ahead of the log",
        async || match node_status(&cluster, ahead).await {
            Ok(status) if status.applied_index >= minted => Look::Done(()),
            Ok(status) => Look::NotYet(format!("{status:?}")),
            Err(error) => Look::NotYet(error.to_string()),
        },
    )
    .await?;
    cluster.kill(ahead)?;
    start_without_failpoints(&mut cluster, &[ahead]).await?;
    assert_found(
        "apply-before-durable",
        check_log_is_whole(&cluster, ahead).await,
    );
    Ok(())
}

#[tokio::test]
async fn a_batch_that_is_written_in_two_is_found_after_a_crash_between_them() -> Result<()> {
    let mut cluster = nodes(3).prepare().await?;
    let torn = 3;
    cluster.node_mut(torn).set("HELVE_PLANTED", "two-writes");
    for seat in cluster.seats() {
        watch(&mut cluster, seat);
        cluster.start(seat)?;
    }
    cluster.all_ready().await?;
    nothing_to_do(&cluster).await?;
    let ledger = Ledger::new("carts");
    let sound = cluster.others(torn);
    ledger.mint(&caller_of(&cluster, sound[0])).await?;
    agree(&cluster).await?;
    let point = Failpoint::ApplyBetweenWrites.as_str();
    arm(&cluster, torn, &format!("{point}=kill"))?;
    ledger.mint(&caller_of(&cluster, sound[0])).await?;
    cluster.node_mut(torn).stopped().await?;
    cluster.node_mut(torn).set("HELVE_PLANTED", "");
    start_without_failpoints(&mut cluster, &[torn]).await?;
    assert_found("two-writes", agree(&cluster).await);
    Ok(())
}

/// A node that was killed must come back.
async fn check_restart(cluster: &mut Cluster, seat: u64) -> Result<()> {
    disarm(cluster, seat)?;
    cluster.start(seat)?;
    if let Err(error) = cluster.ready(seat).await {
        promise!(
            cluster.node_mut(seat).assert_running().is_ok(),
            "node {seat} does not start again: {error}"
        );
        return Err(error);
    }
    Ok(())
}

#[tokio::test]
async fn a_snapshot_that_counts_before_it_is_there_is_found_after_a_crash() -> Result<()> {
    let mut cluster = with_bug(Plant::HalfInstall).await?;
    let ledger = Ledger::new("carts");
    let leader = cluster.leader().await?.seat;
    let lagging = cluster.others(leader)[0];
    let last = node_status(&cluster, lagging).await?.last_log_index;
    cluster.kill(lagging)?;
    purge_beyond(&cluster, &ledger, last).await?;
    // Behind the first of the small files: there is a database, and not all of it.
    let point = Failpoint::InstallCopying.as_str();
    arm(&cluster, lagging, &format!("{point}=kill:2"))?;
    cluster.start(lagging)?;
    cluster.node_mut(lagging).stopped().await?;
    let restarted = check_restart(&mut cluster, lagging).await;
    assert_found("half-install", restarted);
    Ok(())
}

#[tokio::test]
async fn a_wiped_voter_that_comes_back_as_itself_loses_writes_and_is_found() -> Result<()> {
    let mut cluster = with_bug(Plant::ReuseId).await?;
    let ledger = Ledger::new("carts");
    let leader = cluster.leader().await?.seat;
    let [away, wiped] = cluster.others(leader)[..] else {
        anyhow::bail!("three nodes have two followers");
    };
    ledger.mint(&caller_of(&cluster, leader)).await?;
    cluster.kill(away)?;
    ledger.mint(&caller_of(&cluster, leader)).await?;
    cluster.kill(leader)?;
    // Of the two that had acknowledged the write, one is down and the other forgets.
    cluster.wipe(wiped)?;
    start_without_failpoints(&mut cluster, &[away, wiped]).await?;
    assert_was_executed(&cluster, wiped, Plant::ReuseId).await?;
    assert_found("reuse-id", ledger.check(&cluster).await);
    let id = node_status(&cluster, wiped).await?.id;
    assert_eq!(id, wiped, "it was to come back under its old id");
    cluster.leader().await.map(|_| ()).context("they vote")
}
