//! A node that meets a leader which lacks what was committed.

use std::{fs, path::PathBuf};

use anyhow::{Result, bail};
use helve_proto::v1::{GetRequest, NodeStatus, TransferLeaderRequest};
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

/// The node that keeps its disk.
const SURVIVOR: u64 = 1;

/// Kills all nodes once the other two have acknowledged more than their images hold, and takes from
/// the survivor what it remembers of them. If a seat is given, its node leads then, in a later term
/// than the images know. Returns the survivor's status, and the images.
async fn lose_what_two_held(
    cluster: &mut Cluster,
    ledger: &Ledger,
    leader: Option<u64>,
) -> Result<(NodeStatus, Vec<(u64, PathBuf)>)> {
    mint(ledger, cluster, &cluster.seats()).await?;
    for seat in [2, 3] {
        stop(cluster, seat).await?;
    }
    let mut images = Vec::new();
    for seat in [2, 3] {
        images.push((seat, cluster.take_image(seat)?));
        cluster.start(seat)?;
    }
    cluster.all_ready().await?;
    if let Some(leader) = leader {
        let term = node_status(cluster, SURVIVOR).await?.term;
        leads_after(cluster, leader, term + 2).await?;
    }
    mint(ledger, cluster, &cluster.seats()).await?;
    let kept = node_status(cluster, SURVIVOR).await?;
    // None hands its office over: that would take another term.
    for seat in cluster.seats() {
        cluster.kill(seat)?;
    }
    fs::remove_file(cluster.data_directory(SURVIVOR).join("acknowledged"))?;
    Ok((kept, images))
}

fn put_all_back(cluster: &mut Cluster, images: &[(u64, PathBuf)]) -> Result<()> {
    for (seat, _) in images {
        if cluster.node(*seat).pid().is_some() {
            cluster.kill(*seat)?;
        }
    }
    let mut images = images.iter();
    images.try_for_each(|(seat, image)| put_back(cluster, *seat, image))
}

/// The other two are stopped, and the survivor's data becomes a cluster of its own, with all that
/// was acknowledged.
async fn is_recovered(cluster: &mut Cluster, ledger: &Ledger, kept: &NodeStatus) -> Result<()> {
    for seat in cluster.running() {
        cluster.kill(seat)?;
    }
    let report =
        recover::report(&recover::recover(cluster, SURVIVOR, &["--from-survivor"]).await?)?;
    promise!(
        report["last_index"].as_u64() >= Some(kept.last_log_index),
        "{report}, and it had {kept:?}"
    );
    cluster.start(SURVIVOR)?;
    cluster.ready(SURVIVOR).await?;
    ledger.check(cluster).await
}

async fn hand_over(cluster: &Cluster, from: u64, to: u64) -> Result<()> {
    let to = node_status(cluster, to).await?.id;
    let request = TransferLeaderRequest { to };
    cluster.caller(from).transfer_leader(request).await?;
    Ok(())
}

/// Hands leadership around until this seat leads in a later term than this.
async fn leads_after(cluster: &Cluster, seat: u64, term: u64) -> Result<()> {
    until("the seat to lead in a later term", async || {
        let handed_over = async {
            let leader = cluster.leader().await?.seat;
            if leader != seat {
                hand_over(cluster, leader, seat).await?;
            } else if node_status(cluster, seat).await?.term <= term {
                hand_over(cluster, leader, cluster.others(seat)[0]).await?;
            } else {
                return anyhow::Ok(true);
            }
            Ok(false)
        };
        match handed_over.await {
            Ok(true) => Look::Done(()),
            other => Look::NotYet(format!("{other:?}")),
        }
    })
    .await
}

/// How often the disks are put back until the two elect the wanted leader in the wanted term.
const ELECTIONS_MAX: usize = 24;

/// Lets the two whose disks are put back elect this seat in this very term.
async fn elect_in(
    cluster: &mut Cluster,
    images: &[(u64, PathBuf)],
    seat: u64,
    term: u64,
) -> Result<()> {
    let mut seen = Vec::new();
    for _ in 0..ELECTIONS_MAX {
        put_all_back(cluster, images)?;
        lead_after(cluster, [2, 3], term - 1).await?;
        let leader = cluster.leader_of([2, 3]).await?;
        let led = node_status(cluster, leader).await?.term;
        if (leader, led) == (seat, term) {
            return Ok(());
        }
        seen.push((leader, led));
    }
    bail!("never seat {seat} in term {term}, but {seen:?}")
}

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
            hand_over(cluster, leader, *other.unwrap_or(&leader)).await?;
            Ok(Some(led))
        };
        match handed_over.await {
            Ok(None) => Look::Done(()),
            other => Look::NotYet(format!("{other:?}")),
        }
    })
    .await
}

/// The survivor has lost what it remembered of the others, and meets a leader that lacks
/// acknowledged writes.
#[tokio::test]
async fn a_node_keeps_what_was_committed_before_a_leader_that_lacks_it() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let ledger = Ledger::new("carts");
    let (kept, images) = lose_what_two_held(&mut cluster, &ledger, None).await?;
    put_all_back(&mut cluster, &images)?;
    lead_after(&cluster, [2, 3], kept.term + 1).await?;
    cluster.start(SURVIVOR)?;
    // It is not ready beside such a leader, and stops before it would drop anything.
    recover::page_says(&cluster, SURVIVOR, "the leader has nothing committed after").await?;
    // The leader's next entry is to replace one that was committed.
    let others = Ledger::new("others");
    mint(&others, &cluster, &[2, 3]).await?;
    let status = cluster.node_mut(SURVIVOR).stopped().await?;
    let log = cluster.node(SURVIVOR).log_tail();
    promise!(
        status.code().is_some_and(|code| code != 0)
            && log.contains("the leader lacks committed entries of this node")
            && log.contains("helve recover"),
        "{status}: {log}"
    );
    // Its data is whole: as it says, the others are stopped, and a new cluster is made of it.
    is_recovered(&mut cluster, &ledger, &kept).await
}

/// The survivor's own vote keeps it from the leader that the others elected in the same term. It
/// says so, and blames no silence.
async fn names_both_leaders(own: u64, other: u64, says: &str) -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let ledger = Ledger::new("carts");
    let (kept, images) = lose_what_two_held(&mut cluster, &ledger, Some(own)).await?;
    elect_in(&mut cluster, &images, other, kept.term).await?;
    cluster.start(SURVIVOR)?;
    recover::page_says(&cluster, SURVIVOR, says).await?;
    let id = node_status(&cluster, other).await?.id;
    let elected = format!("node {id} was elected in the same term");
    recover::page_says(&cluster, SURVIVOR, &elected).await?;
    let status = node_status(&cluster, SURVIVOR).await?;
    promise!(
        status.warning.contains("helve recover") && status.term == kept.term,
        "{status:?}"
    );
    let refused = format!("node {} refuses this node's messages: it follows", kept.id);
    until(
        "the other leader to say who refuses it",
        async || match node_status(&cluster, other).await {
            Ok(status) if status.warning.contains(&refused) => Look::Done(()),
            other => Look::NotYet(format!("{other:?}")),
        },
    )
    .await?;
    is_recovered(&mut cluster, &ledger, &kept).await
}

#[tokio::test]
async fn a_survivor_that_voted_in_the_term_of_another_leader_names_both() -> Result<()> {
    names_both_leaders(2, 3, "this node followed node").await
}

/// A term is led a second time, without the entries of the first. New entries have the log ids of
/// those that are lost, so no log contradicts them. The survivor keeps saying so.
async fn stays_found_out(own: u64, other: u64) -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let ledger = Ledger::new("carts");
    let (kept, images) = lose_what_two_held(&mut cluster, &ledger, Some(own)).await?;
    elect_in(&mut cluster, &images, other, kept.term).await?;
    cluster.start(SURVIVOR)?;
    let lacks = "the leader has nothing committed after";
    recover::page_says(&cluster, SURVIVOR, lacks).await?;
    let others = Ledger::new("others");
    until("the leader to write more than it lost", async || {
        let minted = others.mint(&[cluster.caller(other)]).await;
        match (minted, node_status(&cluster, other).await) {
            (Ok(()), Ok(status)) if status.committed_index > kept.last_log_index + 1 => {
                Look::Done(())
            }
            other => Look::NotYet(format!("{other:?}")),
        }
    })
    .await?;
    let read = GetRequest {
        store: "carts".to_owned(),
        id: "any".to_owned(),
        ..GetRequest::default()
    };
    let answer = cluster.caller(SURVIVOR).get(read).await;
    promise!(
        answer.is_err(),
        "it reads in the name of a leader that lacks what it has applied: {answer:?}"
    );
    recover::page_says(&cluster, SURVIVOR, lacks).await?;
    is_recovered(&mut cluster, &ledger, &kept).await
}

#[tokio::test]
async fn a_leader_that_leads_its_own_term_again_without_its_entries_stays_found_out() -> Result<()>
{
    stays_found_out(2, 2).await
}

/// A node that starts does not count on its own leadership: it follows the other leader of its term.
#[tokio::test]
async fn a_survivor_that_led_the_term_of_another_leader_finds_it_out() -> Result<()> {
    stays_found_out(SURVIVOR, 2).await
}
