//! Nodes whose disks are put back to an older state: nothing on the disk shows it, and only the others can tell.

mod diverged;
mod learners;

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use helve_proto::v1::MintRequest;
use helve_tests::{
    caller::{Caller, new_identity},
    cluster::Cluster,
    fault::wipe::votes_again,
    ledger::Ledger,
    members::hand_over,
    promise,
    wait::{Look, until},
};

use super::{
    nodes,
    snapshot::{node_status, purge_beyond},
};
use crate::probes::get;

/// Mints between an image of a disk and the moment when it is put back.
const MINTS: usize = 40;

async fn mint(ledger: &Ledger, cluster: &Cluster, seats: &[u64]) -> Result<()> {
    let callers: Vec<_> = seats.iter().map(|&seat| cluster.caller(seat)).collect();
    ledger.mint_many(&callers, MINTS).await
}

async fn stop(cluster: &mut Cluster, seat: u64) -> Result<()> {
    cluster.node(seat).terminate()?;
    cluster.node_mut(seat).stopped().await?;
    Ok(())
}

/// Stops a node, copies its disk, and starts it again.
async fn image(cluster: &mut Cluster, seat: u64) -> Result<PathBuf> {
    stop(cluster, seat).await?;
    let image = cluster.take_image(seat)?;
    cluster.start(seat)?;
    cluster.ready(seat).await?;
    Ok(image)
}

/// Kills a node, puts its disk back, and starts it.
fn put_back(cluster: &mut Cluster, seat: u64, image: &Path) -> Result<()> {
    if cluster.node(seat).pid().is_some() {
        cluster.kill(seat)?;
    }
    cluster.put_image_back(seat, image)?;
    cluster.start(seat)
}

/// Waits until a node says in its status and to probes that its disk is an older one.
async fn says_so(cluster: &mut Cluster, seat: u64) -> Result<()> {
    let http = cluster.listeners(seat).http;
    let node = format!("node {seat} to say that its disk was put back");
    until(&node, async || match get(http, "/readyz").await {
        Ok((503, page)) if page.contains("put back to an older state") => Look::Done(()),
        other => Look::NotYet(format!("{other:?}")),
    })
    .await?;
    let status = cluster.status(seat).await?.node.unwrap_or_default();
    promise!(
        !status.ready && status.warning.contains("empty --data-dir"),
        "{status:?}"
    );
    let log = cluster.node(seat).log_tail();
    promise!(log.contains("put back to an older state"), "{log}");
    cluster.node_mut(seat).assert_running()
}

/// As the node's own advice says: it is stopped, emptied, and joins again.
async fn replace(cluster: &mut Cluster, seat: u64) -> Result<()> {
    cluster.kill(seat)?;
    cluster.empty(seat)?;
    cluster.start(seat)?;
    votes_again(cluster, seat).await?;
    Ok(())
}

#[tokio::test]
async fn follower_on_an_older_disk_takes_no_part_until_emptied() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let ledger = Ledger::new("carts");
    let leader = cluster.leader().await?.seat;
    let seat = cluster.others(leader)[0];
    mint(&ledger, &cluster, &[leader]).await?;
    let image = image(&mut cluster, seat).await?;
    mint(&ledger, &cluster, &cluster.others(seat)).await?;
    put_back(&mut cluster, seat, &image)?;
    says_so(&mut cluster, seat).await?;
    // It remembers, and the others go on without it.
    cluster.kill(seat)?;
    cluster.start(seat)?;
    says_so(&mut cluster, seat).await?;
    mint(&ledger, &cluster, &cluster.others(seat)).await?;
    let third = cluster.others(leader)[1];
    cluster.kill(third)?;
    // With it alone, no leader would be of a majority that lost nothing.
    let caller = cluster.caller(leader);
    let alone = ledger_is_closed(&caller).await;
    ensure!(alone, "writes went on with a node that takes no part");
    cluster.start(third)?;
    cluster.ready(third).await?;
    replace(&mut cluster, seat).await?;
    ledger.check(&cluster).await
}

/// A mint that is tried once does not succeed.
async fn ledger_is_closed(caller: &Caller) -> bool {
    let request = MintRequest {
        identity: Some(new_identity()),
        store: "closed".to_owned(),
        ..Default::default()
    };
    caller.mint(request).await.is_err()
}

#[tokio::test]
async fn a_leader_on_an_older_disk_is_found_out_by_its_followers() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let ledger = Ledger::new("carts");
    mint(&ledger, &cluster, &cluster.seats()).await?;
    let first = cluster.leader().await?.seat;
    let image = image(&mut cluster, first).await?;
    hand_over(&cluster, first).await?;
    mint(&ledger, &cluster, &[first]).await?;
    put_back(&mut cluster, first, &image)?;
    says_so(&mut cluster, first).await?;
    mint(&ledger, &cluster, &cluster.others(first)).await?;
    replace(&mut cluster, first).await?;
    ledger.check(&cluster).await
}

#[tokio::test]
async fn an_older_disk_is_found_out_when_all_nodes_start_together() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let ledger = Ledger::new("carts");
    mint(&ledger, &cluster, &cluster.seats()).await?;
    let seat = 2;
    let image = image(&mut cluster, seat).await?;
    mint(&ledger, &cluster, &cluster.others(seat)).await?;
    for seat in cluster.seats() {
        stop(&mut cluster, seat).await?;
    }
    put_back(&mut cluster, seat, &image)?;
    for other in cluster.others(seat) {
        cluster.start(other)?;
    }
    says_so(&mut cluster, seat).await?;
    mint(&ledger, &cluster, &cluster.others(seat)).await?;
    replace(&mut cluster, seat).await?;
    ledger.check(&cluster).await
}

#[tokio::test]
async fn two_of_five_on_older_disks_are_found_out_and_the_other_three_go_on() -> Result<()> {
    let mut cluster = nodes(5).start().await?;
    let ledger = Ledger::new("carts");
    mint(&ledger, &cluster, &[1, 2]).await?;
    let images = [
        (4, image(&mut cluster, 4).await?),
        (5, image(&mut cluster, 5).await?),
    ];
    mint(&ledger, &cluster, &[1, 2, 3]).await?;
    for (seat, image) in &images {
        put_back(&mut cluster, *seat, image)?;
    }
    for (seat, _) in &images {
        says_so(&mut cluster, *seat).await?;
    }
    mint(&ledger, &cluster, &[1, 2, 3]).await?;
    for (seat, _) in &images {
        cluster.kill(*seat)?;
        cluster.empty(*seat)?;
    }
    for (seat, _) in images {
        cluster.start(seat)?;
        votes_again(&mut cluster, seat).await?;
    }
    ledger.check(&cluster).await
}

#[tokio::test]
async fn a_disk_from_before_the_node_had_a_cluster_is_found_out() -> Result<()> {
    let mut cluster = nodes(3).prepare().await?;
    // Its identity is there, and nothing else: it waits for the others.
    cluster.start(3)?;
    let http = cluster.listeners(3).http;
    until("the node to wait for its peers", async || {
        match get(http, "/readyz").await {
            Ok((503, page)) if page.contains("no answer from seats") => Look::Done(()),
            other => Look::NotYet(format!("{other:?}")),
        }
    })
    .await?;
    cluster.kill(3)?;
    let image = cluster.take_image(3)?;
    for seat in cluster.seats() {
        cluster.start(seat)?;
    }
    cluster.all_ready().await?;
    let ledger = Ledger::new("carts");
    mint(&ledger, &cluster, &cluster.seats()).await?;
    put_back(&mut cluster, 3, &image)?;
    until(
        "the node to say that its disk was put back",
        async || match get(http, "/readyz").await {
            Ok((503, page)) if page.contains("put back to an older state") => Look::Done(()),
            other => Look::NotYet(format!("{other:?}")),
        },
    )
    .await?;
    replace(&mut cluster, 3).await?;
    ledger.check(&cluster).await
}

/// Nothing can be told before the third is back: it alone knows. Then it keeps what the others lost.
#[tokio::test]
async fn a_survivor_keeps_what_two_nodes_on_older_disks_have_lost() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let ledger = Ledger::new("carts");
    let survivor = 1;
    mint(&ledger, &cluster, &cluster.seats()).await?;
    // Of one moment: neither of the two knows of the other what it itself does not.
    let mut images = Vec::new();
    for seat in [2, 3] {
        stop(&mut cluster, seat).await?;
    }
    for seat in [2, 3] {
        images.push((seat, cluster.take_image(seat)?));
        cluster.start(seat)?;
    }
    cluster.all_ready().await?;
    mint(&ledger, &cluster, &cluster.seats()).await?;
    for seat in cluster.seats() {
        stop(&mut cluster, seat).await?;
    }
    for (seat, image) in &images {
        put_back(&mut cluster, *seat, image)?;
    }
    cluster.leader_of([2, 3]).await?;
    let before = cluster.status(2).await?.node.unwrap_or_default();
    cluster.start(survivor)?;
    let http = cluster.listeners(survivor).http;
    until("the survivor to name an older disk", async || {
        match get(http, "/readyz").await {
            Ok((503, page)) if page.contains("was put back to an older state") => Look::Done(()),
            other => Look::NotYet(format!("{other:?}")),
        }
    })
    .await?;
    for (seat, _) in images {
        says_so(&mut cluster, seat).await?;
    }
    let kept = cluster.status(survivor).await?.node.unwrap_or_default();
    promise!(
        kept.last_log_index > before.last_log_index,
        "{kept:?}, and the others had {before:?}"
    );
    Ok(())
}

/// Three nodes that keep little of their logs.
async fn forgetful() -> Result<Cluster> {
    let setup = nodes(3).with("HELVE_SNAPSHOT_ENTRIES", "50");
    setup.with("HELVE_LOG_KEEP_ENTRIES", "10").start().await
}

/// What a node does while the leader purges its log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    Runs,
    IsAway,
}

/// The leader has no entries for such a node any more, only a snapshot: that must not hide that its disk is an older one.
async fn is_found_out_beside_a_purged_log(meanwhile: Meanwhile) -> Result<()> {
    let mut cluster = forgetful().await?;
    let ledger = Ledger::new("carts");
    let leader = cluster.leader().await?.seat;
    let seat = cluster.others(leader)[0];
    mint(&ledger, &cluster, &[leader]).await?;
    let image = image(&mut cluster, seat).await?;
    let imaged = node_status(&cluster, seat).await?.last_log_index;
    mint(&ledger, &cluster, &cluster.others(seat)).await?;
    if meanwhile == Meanwhile::IsAway {
        cluster.kill(seat)?;
    }
    purge_beyond(&cluster, &ledger, imaged + 1).await?;
    put_back(&mut cluster, seat, &image)?;
    says_so(&mut cluster, seat).await?;
    let status = node_status(&cluster, seat).await?;
    let leader = cluster.leader_of(cluster.others(seat)).await?;
    let purged = node_status(&cluster, leader).await?.purged_index;
    promise!(
        status.snapshot_index <= imaged && status.last_log_index < purged,
        "it was caught up, and its votes were forgotten: {status:?}"
    );
    // Also after a restart.
    cluster.kill(seat)?;
    cluster.start(seat)?;
    says_so(&mut cluster, seat).await?;
    mint(&ledger, &cluster, &cluster.others(seat)).await?;
    replace(&mut cluster, seat).await?;
    ledger.check(&cluster).await
}

#[tokio::test]
async fn a_disk_from_before_the_purge_is_found_out_and_gets_no_snapshot() -> Result<()> {
    is_found_out_beside_a_purged_log(Meanwhile::Runs).await
}

#[tokio::test]
async fn a_disk_from_before_the_purge_is_found_out_though_its_node_was_away() -> Result<()> {
    is_found_out_beside_a_purged_log(Meanwhile::IsAway).await
}
