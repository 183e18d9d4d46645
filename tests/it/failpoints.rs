//! A node that dies in the middle of anything comes back, and nothing that was acknowledged is lost.
//!
//! Each test arms one failpoint after the other with `kill` in a running node, does what leads there until the node has died of it,
//! and starts the node again.

use std::os::unix::process::ExitStatusExt as _;

use anyhow::{Result, bail};
use helve_node::failpoint::Failpoint;
use helve_proto::v1::{
    GetRequest, HandleStatus, MintRequest, TakeSnapshotRequest, TransferLeaderRequest,
};
use helve_tests::{
    caller::{Caller, new_identity},
    cluster::Cluster,
    digest::agree,
    failpoints::{arm, disarm, watch},
    ledger::Ledger,
    wait::{Look, until},
};
use rustix::process::Signal;

use super::{
    backup, early_stops, nodes, recover, sealed,
    snapshot::{node_status, purge_beyond, votes},
    upgrade::every_node_says,
};

/// On which node a failpoint is armed.
#[derive(Clone, Copy)]
enum On {
    Leader,
    Follower,
}

const WRITING: [(Failpoint, On); 8] = [
    (Failpoint::LogBeforeWrite, On::Leader),
    (Failpoint::LogBeforeWrite, On::Follower),
    (Failpoint::LogBeforeAck, On::Leader),
    (Failpoint::LogBeforeAck, On::Follower),
    (Failpoint::OutcomeBeforeAnswer, On::Leader),
    (Failpoint::ApplyBeforeWrite, On::Leader),
    (Failpoint::ApplyBeforeWrite, On::Follower),
    (Failpoint::ApplyAfterWrite, On::Leader),
];

const VOTING: [(Failpoint, On); 2] = [
    (Failpoint::VoteBeforeReply, On::Follower),
    (Failpoint::VoteBeforeReply, On::Leader),
];

const TAKING_SNAPSHOTS: [(Failpoint, On); 6] = [
    (Failpoint::BuildCheckpointed, On::Leader),
    (Failpoint::BuildDescribed, On::Follower),
    (Failpoint::BuildPublished, On::Follower),
    (Failpoint::FileBeforeRename, On::Follower),
    (Failpoint::PurgeBeforeWrite, On::Follower),
    (Failpoint::PurgeAfterWrite, On::Leader),
];

/// Besides the leader, the node that gets the snapshot.
const INSTALLING: [(Failpoint, On); 9] = [
    (Failpoint::SendChunk, On::Leader),
    (Failpoint::ReceiveChunk, On::Follower),
    (Failpoint::ReceiveFinished, On::Follower),
    (Failpoint::FileBeforeRename, On::Follower),
    (Failpoint::InstallCopying, On::Follower),
    (Failpoint::InstallCopied, On::Follower),
    (Failpoint::InstallBeforeSwitch, On::Follower),
    (Failpoint::InstallSwitched, On::Follower),
    (Failpoint::RemovalBefore, On::Follower),
];

const CHANGING_MEMBERS: [(Failpoint, On); 1] = [(Failpoint::JointApplied, On::Leader)];

/// Only a planted bug comes by: see `planted::a_cluster_that_writes_a_batch_in_two_is_found`.
const PLANTED: [Failpoint; 1] = [Failpoint::ApplyBetweenWrites];

/// This many in a row take much longer than rows are written at once for a read.
const UNREAD_MINTS: usize = 150;
/// How often the leader's rows are made to fail until a caller was answered before: mostly it is the first time.
const UNWRITTEN_TURNS: usize = 10;

const SNAPSHOT_ENTRIES: &str = "50";
const LOG_KEEP_ENTRIES: &str = "10";

/// Three nodes in which failpoints can be armed, and which take snapshots often.
pub(crate) async fn three_nodes(environment: &[(&str, &str)]) -> Result<Cluster> {
    let setup = nodes(3)
        .with("HELVE_SNAPSHOT_ENTRIES", SNAPSHOT_ENTRIES)
        .with("HELVE_LOG_KEEP_ENTRIES", LOG_KEEP_ENTRIES);
    let with =
        |setup: helve_tests::cluster::Setup, (name, value): &(&str, &str)| setup.with(name, value);
    let mut cluster = environment.iter().fold(setup, with).prepare().await?;
    for seat in cluster.seats() {
        watch(&mut cluster, seat);
        cluster.start(seat)?;
    }
    cluster.all_ready().await?;
    nothing_to_do(&cluster).await?;
    Ok(cluster)
}

/// Waits until a new cluster has raised its level and done what is due by that: what nodes add to the log by themselves must not be what
/// passes a failpoint.
pub(crate) async fn nothing_to_do(cluster: &Cluster) -> Result<()> {
    every_node_says(cluster, "the level of all, and nothing due", |reply| {
        let supported = reply.members.iter().map(|member| member.feature_level);
        let is_raised = supported.min() <= Some(reply.feature_level);
        let lag_ms = reply.node.as_ref().map(|node| node.removal_lag_ms);
        !reply.members.is_empty() && is_raised && lag_ms == Some(0)
    })
    .await
}

async fn seat_of(cluster: &Cluster, on: On) -> Result<u64> {
    let leader = cluster.leader().await?.seat;
    Ok(match on {
        On::Leader => leader,
        On::Follower => cluster.others(leader)[0],
    })
}

pub(crate) fn callers(cluster: &Cluster) -> Vec<Caller> {
    let seats = cluster.running();
    seats.into_iter().map(|seat| cluster.caller(seat)).collect()
}

/// Does something again and again until a node has died of its failpoint.
async fn dies(
    cluster: &mut Cluster,
    seat: u64,
    point: Failpoint,
    mut drive: impl AsyncFnMut(&Cluster) -> Result<()>,
) -> Result<()> {
    let what = format!("node {seat} to die at {}", point.as_str());
    until(&what, async || {
        if cluster.node_mut(seat).assert_running().is_err() {
            return Look::Done(());
        }
        match drive(cluster).await {
            Ok(()) => Look::NotYet("it runs".to_owned()),
            Err(error) => Look::NotYet(error.to_string()),
        }
    })
    .await?;
    let status = cluster.node_mut(seat).stopped().await?;
    let log = cluster.node(seat).log_tail();
    assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "{log}");
    let said = format!("failpoint {}: Kill", point.as_str());
    assert!(log.contains(&said), "node {seat} did not die of it: {log}");
    Ok(())
}

/// Starts a node that died, without its failpoint, and looks that nothing was lost.
async fn comes_back(cluster: &mut Cluster, seat: u64, ledger: &Ledger) -> Result<()> {
    disarm(cluster, seat)?;
    cluster.start(seat)?;
    cluster.all_ready().await?;
    ledger.mint(&callers(cluster)).await?;
    ledger.check(cluster).await
}

/// Arms each failpoint in turn, and drives the cluster there.
async fn each_is_survived(
    points: &[(Failpoint, On)],
    mut drive: impl AsyncFnMut(&Cluster, u64, &Ledger) -> Result<()>,
) -> Result<()> {
    let mut cluster = three_nodes(&[]).await?;
    for (turn, (point, on)) in points.iter().enumerate() {
        let ledger = Ledger::new(&format!("{turn}-{}", point.as_str()));
        let seat = seat_of(&cluster, *on).await?;
        arm(&cluster, seat, &format!("{}=kill", point.as_str()))?;
        dies(&mut cluster, seat, *point, async |cluster| {
            drive(cluster, seat, &ledger).await
        })
        .await?;
        comes_back(&mut cluster, seat, &ledger).await?;
    }
    agree(&cluster).await
}

#[tokio::test]
async fn a_node_that_dies_at_any_step_of_a_write_loses_nothing() -> Result<()> {
    each_is_survived(&WRITING, async |cluster, _, ledger| {
        ledger.mint(&callers(cluster)).await
    })
    .await
}

/// Makes the leader unable to write rows, and starts it again once it has ended of it. Answers whether a caller was answered before:
/// what a node adds to the log itself has rows written first, those of callers with them.
async fn ends_unwritten(cluster: &mut Cluster, ledger: &Ledger) -> Result<bool> {
    let point = Failpoint::ApplyBeforeWrite.as_str();
    let leader = cluster.leader().await?.seat;
    let through = [cluster.caller(leader)];
    // The last read must be a while ago: until then rows are written before callers are answered.
    for _ in 0..UNREAD_MINTS {
        ledger.mint(&through).await?;
    }
    arm(cluster, leader, &format!("{point}=error"))?;
    let store = "answered".to_owned();
    let request = MintRequest {
        identity: Some(new_identity()),
        store: store.clone(),
        ..MintRequest::default()
    };
    let answer = through[0].mint(request).await;
    if answer.is_err() {
        // The leader may have lost its office meanwhile, and written nothing.
        ledger.mint(&callers(cluster)).await?;
    }
    let status = cluster.node_mut(leader).stopped().await?;
    let log = cluster.node(leader).log_tail();
    assert!(
        status.code().is_some_and(|code| code != 0),
        "{status}: {log}"
    );
    assert!(log.contains(&format!("failpoint {point}")), "{log}");
    comes_back(cluster, leader, ledger).await?;
    let Ok(answer) = answer else {
        return Ok(false);
    };
    let id = answer.info.unwrap_or_default().name;
    for caller in callers(cluster) {
        let request = GetRequest {
            store: store.clone(),
            id: id.clone(),
            ..GetRequest::default()
        };
        let held = caller.get(request).await?;
        assert_eq!(held.status(), HandleStatus::Live, "{id}: {held:?}");
    }
    Ok(true)
}

#[tokio::test]
async fn node_that_cannot_write_what_it_answered_ends_by_itself() -> Result<()> {
    let mut cluster = three_nodes(&[]).await?;
    for turn in 0..UNWRITTEN_TURNS {
        let ledger = Ledger::new(&format!("unwritten-{turn}"));
        if ends_unwritten(&mut cluster, &ledger).await? {
            return agree(&cluster).await;
        }
    }
    bail!("in {UNWRITTEN_TURNS} turns, no caller was answered before rows were written")
}

#[tokio::test]
async fn a_node_that_dies_before_it_says_how_it_voted_loses_nothing() -> Result<()> {
    each_is_survived(&VOTING, async |cluster, _, ledger| {
        ledger.mint(&callers(cluster)).await?;
        for caller in callers(cluster) {
            // Only the leader does it, and not while a successor is missing.
            let asked = caller.transfer_leader(TransferLeaderRequest { to: 0 });
            if asked.await.is_ok() {
                break;
            }
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_node_that_dies_at_any_step_of_a_snapshot_or_purge_loses_nothing() -> Result<()> {
    each_is_survived(&TAKING_SNAPSHOTS, async |cluster, seat, ledger| {
        for _ in 0..20 {
            ledger.mint(&callers(cluster)).await?;
        }
        let caller = cluster.caller(seat);
        caller.take_snapshot(TakeSnapshotRequest {}).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_node_that_dies_at_any_step_of_sending_or_installing_a_snapshot_loses_nothing()
-> Result<()> {
    let mut cluster = three_nodes(&[]).await?;
    for (point, on) in &INSTALLING {
        let ledger = Ledger::new(point.as_str());
        let leader = cluster.leader().await?.seat;
        let lagging = cluster.others(leader)[0];
        let last = node_status(&cluster, lagging).await?.last_log_index;
        cluster.kill(lagging)?;
        purge_beyond(&cluster, &ledger, last).await?;
        // Leadership may have moved while the node was away.
        let seat = match on {
            On::Leader => cluster.leader().await?.seat,
            On::Follower => lagging,
        };
        arm(&cluster, seat, &format!("{}=kill", point.as_str()))?;
        cluster.start(lagging)?;
        dies(&mut cluster, seat, *point, async |_| Ok(())).await?;
        comes_back(&mut cluster, seat, &ledger).await?;
    }
    agree(&cluster).await
}

#[tokio::test]
async fn a_leader_that_dies_in_the_middle_of_a_change_of_members_leaves_it_to_the_next()
-> Result<()> {
    let mut cluster = three_nodes(&[]).await?;
    for (point, _) in CHANGING_MEMBERS {
        let ledger = Ledger::new(point.as_str());
        ledger.mint(&callers(&cluster)).await?;
        let leader = cluster.leader().await?.seat;
        let lost = cluster.others(leader)[0];
        arm(&cluster, leader, &format!("{}=kill", point.as_str()))?;
        cluster.wipe(lost)?;
        cluster.start(lost)?;
        dies(&mut cluster, leader, point, async |_| Ok(())).await?;
        comes_back(&mut cluster, leader, &ledger).await?;
        let leader = cluster.leader().await?.seat;
        votes(&cluster, leader, lost).await?;
        ledger.check(&cluster).await?;
    }
    agree(&cluster).await
}

#[test]
fn every_failpoint_is_in_one_of_these_tests() {
    let tables = [
        &WRITING[..],
        &VOTING,
        &TAKING_SNAPSHOTS,
        &INSTALLING,
        &CHANGING_MEMBERS,
    ];
    let armed: Vec<_> = tables
        .into_iter()
        .flatten()
        .map(|(point, _)| *point)
        .collect();
    let elsewhere = [
        &PLANTED[..],
        &early_stops::STEPS,
        &recover::cut_short::STEPS,
        &backup::cut_short::STEPS,
        &sealed::cut_short::STEPS,
    ]
    .concat();
    for point in Failpoint::ALL {
        assert!(
            armed.contains(point) || elsewhere.contains(point),
            "{} is not tried",
            point.as_str()
        );
    }
}
