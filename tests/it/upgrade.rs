//! Nodes of two versions in one cluster: the one under test, and the same with one feature level more.

mod held;

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use futures::future::{try_join, try_join_all};
use helve_machine::limits::FEATURE_LEVEL as OLD;
use helve_proto::v1::StatusReply;
use helve_tests::{
    cluster::Cluster,
    ledger::Ledger,
    process::Process,
    wait::{Look, until},
};

use super::nodes;

const WRITERS: usize = 4;
/// Acknowledged writes between two steps of the upgrade.
const WRITES: usize = 40;
const REFUSED: i32 = 2;
/// The level of the next version.
const NEW: u32 = OLD + 1;

/// The node's next start is that of a version with this feature level.
fn set_level(node: &mut Process, level: u32) {
    node.set("HELVE_FEATURE_LEVEL", &level.to_string());
}

/// Waits until every running node says what is wanted.
pub(crate) async fn every_node_says(
    cluster: &Cluster,
    what: &str,
    says: impl Fn(&StatusReply) -> bool,
) -> Result<()> {
    until(what, async || {
        for seat in cluster.running() {
            match cluster.status(seat).await {
                Ok(reply) if says(&reply) => {}
                Ok(reply) => return Look::NotYet(format!("{reply:?}")),
                Err(error) => return Look::NotYet(format!("node {seat}: {error:#}")),
            }
        }
        Look::Done(())
    })
    .await
}

/// Waits until this many members are recorded as of the new version on every node.
async fn recorded(cluster: &Cluster, upgraded: usize) -> Result<()> {
    let what = format!("{upgraded} members to be recorded as upgraded");
    every_node_says(cluster, &what, |reply| {
        let of_new = reply.members.iter().filter(|m| m.feature_level == NEW);
        of_new.count() == upgraded
    })
    .await
}

async fn written(ledger: &Ledger) -> Result<()> {
    let from = ledger.len();
    until("writes to go on", async || {
        let now = ledger.len();
        if now >= from + WRITES {
            return Look::Done(());
        }
        Look::NotYet(format!("{} since then", now - from))
    })
    .await
}

/// One node after the other gets the new version.
async fn upgrade_all(cluster: &mut Cluster, ledger: &Ledger) -> Result<()> {
    let seats = cluster.seats();
    for (upgraded, seat) in (1..).zip(seats.iter().copied()) {
        cluster.kill(seat)?;
        written(ledger).await?;
        set_level(cluster.node_mut(seat), NEW);
        cluster.start(seat)?;
        cluster.ready(seat).await?;
        recorded(cluster, upgraded).await?;
        if upgraded < seats.len() {
            written(ledger).await?;
            for seat in cluster.seats() {
                let level = cluster.status(seat).await?.feature_level;
                assert_eq!(level, OLD, "node {seat}, with {upgraded} upgraded");
            }
        }
    }
    every_node_says(cluster, "the level to be raised", |r| {
        r.feature_level == NEW
    })
    .await?;
    written(ledger).await
}

#[tokio::test]
async fn a_rolling_upgrade_under_writes_raises_the_level_after_the_last_node_and_loses_nothing()
-> Result<()> {
    let mut cluster = nodes(3).start().await?;
    every_node_says(&cluster, "the level of this version", |r| {
        r.feature_level == OLD && r.members.iter().all(|m| m.feature_level == OLD)
    })
    .await?;
    let ledger = Ledger::new("carts");
    let done = AtomicBool::new(false);
    let callers: Vec<_> = cluster
        .seats()
        .into_iter()
        .map(|seat| cluster.caller(seat))
        .collect();
    let writers = (0..WRITERS).map(|writer| {
        let mut callers = callers.clone();
        let first = writer % callers.len();
        callers.rotate_left(first);
        let (done, ledger) = (&done, &ledger);
        async move {
            while !done.load(Ordering::Relaxed) {
                ledger.mint(&callers).await?;
            }
            anyhow::Ok(())
        }
    });
    let upgrade = async {
        let upgraded = upgrade_all(&mut cluster, &ledger).await;
        done.store(true, Ordering::Relaxed);
        upgraded
    };
    try_join(upgrade, try_join_all(writers)).await?;
    ledger.check(&cluster).await?;
    used_the_new_level(&cluster).await?;
    an_old_version_is_refused(&mut cluster).await?;
    ledger.check(&cluster).await
}

/// The leader has used an operation that exists from the next level on.
async fn used_the_new_level(cluster: &Cluster) -> Result<()> {
    until(
        "an operation of the next level to take effect",
        async || {
            let mut logs = String::new();
            for seat in cluster.seats() {
                logs.push_str(&cluster.node(seat).log_tail());
            }
            if logs.contains("Probed") {
                return Look::Done(());
            }
            Look::NotYet("no node says so".to_owned())
        },
    )
    .await
}

/// With data of the new level, and with none: it could not apply what the log holds.
async fn an_old_version_is_refused(cluster: &mut Cluster) -> Result<()> {
    cluster.kill(2)?;
    set_level(cluster.node_mut(2), OLD);
    for data in ["its own", "none"] {
        cluster.start(2)?;
        let status = cluster.node_mut(2).stopped().await?;
        let said = cluster.node(2).log_tail();
        assert_eq!(status.code(), Some(REFUSED), "with data: {data}\n{said}");
        assert!(
            said.contains(&format!("feature level {NEW}")) && said.contains("start the version"),
            "{said}"
        );
        cluster.wipe(2)?;
    }
    Ok(())
}

#[tokio::test]
async fn a_node_that_went_back_to_an_older_version_is_ready_when_the_members_know() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let seat = 2;
    for level in [NEW, OLD] {
        cluster.kill(seat)?;
        set_level(cluster.node_mut(seat), level);
        cluster.start(seat)?;
        cluster.ready(seat).await?;
        let own = cluster.status(seat).await?;
        let known = own.members.iter().find(|member| member.seat == seat);
        assert!(
            known.is_some_and(|known| known.feature_level <= level),
            "ready with level {level}, and recorded as {known:?}"
        );
        recorded(&cluster, usize::from(level == NEW)).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_changed_client_address_is_recorded_on_all_nodes() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let ledger = Ledger::new("carts");
    ledger.mint(&[cluster.caller(1)]).await?;
    // A follower, and then the leader.
    for (turn, address) in ["cart.example:7400", "other.example:7400"]
        .iter()
        .enumerate()
    {
        let leader = cluster.leader().await?.seat;
        let seat = if turn == 0 {
            cluster.others(leader)[0]
        } else {
            leader
        };
        cluster.kill(seat)?;
        cluster.node_mut(seat).set("HELVE_ADVERTISE", address);
        cluster.start(seat)?;
        cluster.ready(seat).await?;
        every_node_says(&cluster, "the new address", |reply| {
            let member = reply.members.iter().find(|m| m.seat == seat);
            member.is_some_and(|m| m.client_address == *address && m.voter)
        })
        .await?;
    }
    ledger.mint(&[cluster.caller(2)]).await?;
    ledger.check(&cluster).await
}

#[tokio::test]
async fn a_node_that_moved_its_peer_port_is_found_and_recorded_there() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let ledger = Ledger::new("carts");
    ledger.mint(&[cluster.caller(1)]).await?;
    for seat in cluster.seats() {
        cluster.kill(seat)?;
        // A port that no seat has.
        let moved = cluster.listeners(10 + seat).peer.to_string();
        let peers = cluster.seats().into_iter().map(|other| {
            let address = if other == seat {
                moved.clone()
            } else {
                cluster.listeners(other).peer.to_string()
            };
            format!("{other}={address}")
        });
        let peers = peers.collect::<Vec<_>>().join(",");
        let node = cluster.node_mut(seat);
        node.set_argument("--peer-listen", &moved)?;
        node.set_argument("--peers", &peers)?;
        cluster.start(seat)?;
        cluster.ready(seat).await?;
        every_node_says(&cluster, "the new peer address", |reply| {
            let member = reply.members.iter().find(|m| m.seat == seat);
            member.is_some_and(|m| m.peer_address == moved && m.voter)
        })
        .await?;
        ledger.mint(&[cluster.caller(seat)]).await?;
        ledger.check(&cluster).await?;
    }
    Ok(())
}
