//! A node that meets a leader which lacks what was committed.

use std::fs;

use anyhow::Result;
use helve_proto::v1::TransferLeaderRequest;
use helve_tests::{
    cluster::Cluster,
    ledger::Ledger,
    promise,
    wait::{Look, until},
};

use super::{
    super::{nodes, recover, snapshot::node_status},
    mint, put_back, stop,
};

/// Hands the leadership of two nodes to and fro until they lead in a later term than this.
async fn lead_after(cluster: &Cluster, seats: [u64; 2], term: u64) -> Result<()> {
    until("the two to lead in a later term", async || {
        let handed_over = async {
            let leader = cluster.leader_of(seats).await?;
            let led = node_status(cluster, leader).await?.term;
            if led > term {
                return anyhow::Ok(None);
            }
            let other = seats.iter().find(|&&seat| seat != leader);
            let to = node_status(cluster, *other.unwrap_or(&leader)).await?.id;
            let request = TransferLeaderRequest { to };
            cluster.caller(leader).transfer_leader(request).await?;
            Ok(Some(led))
        };
        match handed_over.await {
            Ok(None) => Look::Done(()),
            other => Look::NotYet(format!("{other:?}")),
        }
    })
    .await
}

/// The survivor has lost what it remembered of the others, and meets a leader that lacks acknowledged writes.
#[tokio::test]
async fn a_node_keeps_what_was_committed_before_a_leader_that_lacks_it() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let ledger = Ledger::new("carts");
    let survivor = 1;
    mint(&ledger, &cluster, &cluster.seats()).await?;
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
    let kept = node_status(&cluster, survivor).await?;
    // None hands its office over: the two shall lead in a later term than the survivor knows.
    for seat in cluster.seats() {
        cluster.kill(seat)?;
    }
    fs::remove_file(cluster.data_directory(survivor).join("acknowledged"))?;
    for (seat, image) in &images {
        put_back(&mut cluster, *seat, image)?;
    }
    lead_after(&cluster, [2, 3], kept.term + 1).await?;
    cluster.start(survivor)?;
    // It is not ready beside such a leader, and stops before it would drop anything.
    recover::page_says(&cluster, survivor, "the leader has nothing committed after").await?;
    // The leader's next entry is to replace one that was committed.
    let others = Ledger::new("others");
    mint(&others, &cluster, &[2, 3]).await?;
    let status = cluster.node_mut(survivor).stopped().await?;
    let log = cluster.node(survivor).log_tail();
    promise!(
        status.code().is_some_and(|code| code != 0)
            && log.contains("the leader lacks committed entries of this node")
            && log.contains("helve recover"),
        "{status}: {log}"
    );
    // Its data is whole: as it says, the others are stopped, and a new cluster is made of it.
    for seat in [2, 3] {
        cluster.kill(seat)?;
    }
    let report =
        recover::report(&recover::recover(&cluster, survivor, &["--from-survivor"]).await?)?;
    promise!(
        report["last_index"].as_u64() >= Some(kept.last_log_index),
        "{report}, and it had {kept:?}"
    );
    cluster.start(survivor)?;
    cluster.ready(survivor).await?;
    ledger.check(&cluster).await
}
