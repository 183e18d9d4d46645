//! Nodes that never vote: `helve serve --learner`, `helve member promote`, and what takes their place.

use std::{fs, process::Output};

use anyhow::{Context as _, Result};
use helve_proto::{
    Reason,
    v1::{MintRequest, Role, handle_service_client::HandleServiceClient},
};
use helve_tests::{
    caller::{new_identity, reason, word_of_node},
    cluster::Cluster,
    ledger::Ledger,
    promise,
    wait::{Look, until},
};
use serde_json::Value;
use tokio::process::Command;
use tonic::Request;

use super::{add, has_role, members_are, node, place, refusals::silent, run, told, voters};
use crate::{
    binary,
    command_line::{ABSENT, NOT_NOW, USAGE},
    nodes,
};

/// How a refused start, or a refused recovery, ends.
const REFUSED: i32 = 2;

/// At its next start, the node of this seat has `--learner`, or has it not.
fn learns(cluster: &mut Cluster, seat: u64, flag: &str) {
    cluster.node_mut(seat).set("HELVE_LEARNER", flag);
}

/// Lets a node in that was started with `--learner`, by the command that every node is let in with. Returns its seat and id.
async fn let_learner_in(cluster: &mut Cluster) -> Result<(u64, u64)> {
    let seat = cluster.add_seat()?;
    learns(cluster, seat, "true");
    cluster.start(seat)?;
    let id = add(cluster, seat).await?;
    cluster.ready(seat).await?;
    has_role(cluster, seat, Role::Learner).await?;
    Ok((seat, id))
}

/// Starts a node again, with `--learner` or without.
async fn restart(cluster: &mut Cluster, seat: u64, flag: &str) -> Result<()> {
    cluster.kill(seat)?;
    learns(cluster, seat, flag);
    cluster.start(seat)?;
    cluster.ready(seat).await
}

fn said(output: &Output, status: i32) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{said}");
    said
}

async fn promote(cluster: &Cluster, seats: &[u64], id: u64) -> Result<Output> {
    run(cluster, seats, &["promote", &id.to_string()]).await
}

/// Runs another command of `helve`.
async fn helve(arguments: &[&str]) -> Result<Output> {
    let command = Command::new(binary())
        .args(arguments)
        .args(["--output", "json"])
        .kill_on_drop(true)
        .output();
    Ok(command.await?)
}

#[tokio::test]
async fn a_learner_serves_and_gives_no_vote_without_a_majority() -> Result<()> {
    let mut cluster = nodes(2).start().await?;
    let (seat, id) = let_learner_in(&mut cluster).await?;
    let status = members_are(&cluster, "three members", |members| members.len() == 3).await?;
    promise!(
        voters(&status).len() == 2 && !voters(&status).contains(&id),
        "{status:?}"
    );
    let ledger = Ledger::new("carts");
    let leader = cluster.leader().await?.seat;
    for _ in 0..10 {
        // What the leader has acknowledged, the learner must show at once; and it forwards writes.
        ledger.mint(&[cluster.caller(leader)]).await?;
        ledger.check(&cluster).await?;
        ledger.mint(&[cluster.caller(seat)]).await?;
    }
    let directory = tempfile::tempdir()?;
    let to = directory.path().join("to");
    let to = to.to_str().context("a path of a test is UTF-8")?;
    let endpoint = cluster.listeners(seat).client.to_string();
    said(&helve(&["backup", to, "--endpoints", &endpoint]).await?, 0);
    let shown = helve(&["status", "--endpoints", &endpoint]).await?;
    said(&shown, 0);
    let shown: Value = serde_json::from_slice(&shown.stdout)?;
    let is_learner = |row: &Value| row["role"] == "learner" && row["voter"] == false;
    promise!(
        shown["nodes"].as_array().is_some_and(|rows| rows
            .iter()
            .any(|row| row["id"] == id && is_learner(row) && row["health"] == "ready")),
        "{shown}"
    );

    // With its vote, the voter that is left would have two of three.
    cluster.kill(leader)?;
    let left = if leader == 1 { 2 } else { 1 };
    until(
        "the voter that is left to miss its leader",
        async || match node(&cluster, left).await {
            Ok(status) if !status.ready => Look::Done(()),
            other => Look::NotYet(format!("{other:?}")),
        },
    )
    .await?;
    let mint = MintRequest {
        identity: Some(new_identity()),
        store: "lost".to_owned(),
        ..MintRequest::default()
    };
    let mut client = HandleServiceClient::new(cluster.caller(seat).line());
    let refused = word_of_node(client.mint(Request::new(mint))).await;
    let refused = refused.expect_err("two voters are no majority without one of them");
    promise!(
        matches!(reason(&refused), Some(Reason::NoLeader | Reason::Ambiguous)),
        "{refused}"
    );
    for seat in cluster.running() {
        let status = node(&cluster, seat).await?;
        promise!(status.role() != Role::Leader, "{status:?}");
    }
    has_role(&cluster, seat, Role::Learner).await?;
    cluster.start(leader)?;
    cluster.all_ready().await?;
    ledger.check(&cluster).await
}

#[tokio::test]
async fn a_learner_votes_once_promoted_without_the_flag() -> Result<()> {
    let mut cluster = nodes(2).start().await?;
    let ledger = Ledger::new("carts");
    let (seat, id) = let_learner_in(&mut cluster).await?;
    let with_flag = promote(&cluster, &[1, 2], id).await?;
    let with_flag = said(&with_flag, NOT_NOW);
    promise!(with_flag.contains("without the flag"), "{with_flag}");
    let unknown = promote(&cluster, &[1, 2], 77).await?;
    promise!(
        said(&unknown, ABSENT).contains("no member 77"),
        "{unknown:?}"
    );
    let voter = promote(&cluster, &[1, 2], 1).await?;
    promise!(said(&voter, NOT_NOW).contains("voter already"), "{voter:?}");
    let malformed = promote(&cluster, &[1, 2], 0).await?;
    promise!(
        said(&malformed, USAGE).contains("no node id"),
        "{malformed:?}"
    );

    restart(&mut cluster, seat, "false").await?;
    has_role(&cluster, seat, Role::Learner).await?;
    let number = id.to_string();
    let promoted = told(&cluster, &[1, 2], &["promote", &number]).await?;
    let rows = promoted["members"].as_array().context("no members")?;
    promise!(
        promoted["node_id"] == id && rows.iter().all(|row| row["voter"] == true),
        "{promoted}"
    );
    has_role(&cluster, seat, Role::Follower).await?;
    // Of three voters two are left, and both votes are needed.
    cluster.kill(1)?;
    ledger
        .mint(&[cluster.caller(2), cluster.caller(seat)])
        .await?;
    cluster.start(1)?;
    cluster.all_ready().await?;
    ledger.check(&cluster).await?;

    cluster.kill(seat)?;
    learns(&mut cluster, seat, "true");
    cluster.start(seat)?;
    let ended = cluster.node_mut(seat).stopped().await?;
    let log = cluster.node(seat).log_tail();
    promise!(
        ended.code() == Some(REFUSED)
            && log.contains("start it without --learner")
            && log.contains(&format!("helve member remove {id}")),
        "{ended}: {log}"
    );
    Ok(())
}

#[tokio::test]
async fn a_removed_learner_stays_out_while_its_seat_is_wanted() -> Result<()> {
    let mut cluster = nodes(1).start().await?;
    let ledger = Ledger::new("carts");
    ledger.mint(&[cluster.caller(1)]).await?;
    let (seat, id) = let_learner_in(&mut cluster).await?;
    let identity = cluster.data_directory(seat).join("node.json");
    until(
        "the learner to remember that it is a member",
        async || match fs::read_to_string(&identity) {
            Ok(known) if !known.contains("\"member_at\": 0,") => Look::Done(()),
            other => Look::NotYet(format!("{other:?}")),
        },
    )
    .await?;
    // It hears of its removal only after its seat is wanted again.
    cluster.node(seat).freeze()?;
    let number = id.to_string();
    told(&cluster, &[1], &["remove", &number]).await?;
    let (wanted, peer) = place(&cluster, seat);
    let wish = ["add", "--seat", &wanted, "--peer", &peer, "--wait", "5s"];
    let (letting_in, awake) = tokio::join!(run(&cluster, &[1], &wish), async {
        until("the leader to wait for a node", async || {
            match cluster.status(1).await {
                Ok(status) if status.change.contains("waiting") => Look::Done(()),
                other => Look::NotYet(format!("{other:?}")),
            }
        })
        .await?;
        cluster.node(seat).thaw()
    });
    awake?;
    let letting_in = said(&letting_in?, NOT_NOW);
    promise!(letting_in.contains("nothing was changed"), "{letting_in}");
    has_role(&cluster, seat, Role::Removed).await?;
    cluster.kill(seat)?;
    cluster.start(seat)?;
    has_role(&cluster, seat, Role::Removed).await?;
    let members = cluster.status(1).await?.members;
    promise!(members.len() == 1, "it came back: {members:?}");

    // With an empty directory it is a new node, and a learner again.
    cluster.wipe(seat)?;
    cluster.start(seat)?;
    let again = add(&cluster, seat).await?;
    promise!(again > id, "{again} was given after {id}");
    cluster.ready(seat).await?;
    has_role(&cluster, seat, Role::Learner).await?;
    ledger.check(&cluster).await
}

#[tokio::test]
async fn what_replaces_a_member_votes_if_that_one_did() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let ledger = Ledger::new("carts");
    ledger.mint(&[cluster.caller(1)]).await?;
    let (first, id) = let_learner_in(&mut cluster).await?;
    let second = cluster.add_seat()?;
    cluster.start(second)?;
    let (number, peer) = place(&cluster, second);
    let leaving = id.to_string();
    let wish = ["replace", &leaving, "--seat", &number, "--peer", &peer];
    told(&cluster, &[1, 2, 3], &wish).await?;
    cluster.ready(second).await?;
    has_role(&cluster, second, Role::Learner).await?;
    has_role(&cluster, first, Role::Removed).await?;
    cluster.kill(first)?;
    let status = members_are(&cluster, "four members", |members| {
        members.len() == 4 && members.iter().all(|member| member.id != id)
    });
    let status = status.await?;
    promise!(voters(&status) == [1, 2, 3], "{status:?}");

    // A learner whose disk was lost takes its seat over, and is one again.
    let former = node(&cluster, second).await?.id;
    cluster.wipe(second)?;
    cluster.start(second)?;
    let status = members_are(&cluster, "the learner's successor", |members| {
        let holds = |member: &helve_proto::v1::Member| member.seat == second;
        members.len() == 4
            && members
                .iter()
                .any(|member| holds(member) && member.id != former)
    });
    let status = status.await?;
    promise!(voters(&status) == [1, 2, 3], "{status:?}");
    cluster.ready(second).await?;

    cluster.wipe(first)?;
    learns(&mut cluster, first, "false");
    cluster.start(first)?;
    let (number, peer) = place(&cluster, first);
    told(
        &cluster,
        &[1, 2, 3],
        &["replace", "3", "--seat", &number, "--peer", &peer],
    )
    .await?;
    let new = node(&cluster, first).await?.id;
    cluster.kill(3)?;
    let status = members_are(&cluster, "another third voter", |members| {
        members.len() == 4 && members.iter().all(|member| member.id != 3)
    });
    let status = status.await?;
    promise!(voters(&status) == [1, 2, new], "{status:?}");
    ledger.check(&cluster).await
}

#[tokio::test]
async fn a_learner_does_not_count_where_a_voter_would_leave() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let leader = cluster.leader().await?.seat;
    let [dead, living] = cluster.others(leader)[..] else {
        anyhow::bail!("three nodes have two followers");
    };
    let_learner_in(&mut cluster).await?;
    let (dead_id, living_id) = (
        node(&cluster, dead).await?.id,
        node(&cluster, living).await?.id,
    );
    cluster.kill(dead)?;
    let leader = cluster.leader().await?.seat;
    silent(&cluster, leader, dead_id).await?;
    // With the learner, two of three would answer.
    let number = living_id.to_string();
    let refused = run(&cluster, &[leader], &["remove", &number]).await?;
    let refused = said(&refused, NOT_NOW);
    promise!(refused.contains("1 of 2 voters"), "{refused}");
    Ok(())
}

#[tokio::test]
async fn a_node_with_the_flag_takes_no_place_of_a_voter() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let leader = cluster.leader().await?.seat;
    let seat = cluster.others(leader)[0];
    let id = node(&cluster, seat).await?.id;
    cluster.wipe(seat)?;
    learns(&mut cluster, seat, "true");
    cluster.start(seat)?;
    until(
        "the node to say why it is not let in",
        async || match node(&cluster, seat).await {
            Ok(status) if status.warning.contains("does not take its place") => Look::Done(()),
            other => Look::NotYet(format!("{other:?}")),
        },
    )
    .await?;
    let status = cluster.status(leader).await?;
    promise!(voters(&status).contains(&id), "{status:?}");
    cluster.wipe(seat)?;
    learns(&mut cluster, seat, "false");
    cluster.start(seat)?;
    cluster.ready(seat).await?;
    members_are(&cluster, "another voter in its seat", |members| {
        members.len() == 3 && members.iter().all(|member| member.voter && member.id != id)
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_learner_that_is_left_is_recovered_only_without_voters() -> Result<()> {
    let mut cluster = nodes(1).start().await?;
    let ledger = Ledger::new("carts");
    ledger.mint(&[cluster.caller(1)]).await?;
    let (seat, _) = let_learner_in(&mut cluster).await?;
    ledger.check(&cluster).await?;
    cluster.kill(seat)?;
    let directory = cluster.data_directory(seat);
    let directory = directory.to_str().context("a path of a test is UTF-8")?;
    let recover = ["recover", "--data-dir", directory, "--from-survivor"];
    let refused = said(&helve(&recover).await?, REFUSED);
    promise!(refused.contains("1 of 1 voters"), "{refused}");

    cluster.kill(1)?;
    let recovered = helve(&recover).await?;
    said(&recovered, 0);
    let report = String::from_utf8_lossy(&recovered.stdout).into_owned();
    promise!(report.contains("this node was a learner"), "{report}");
    learns(&mut cluster, seat, "false");
    cluster.start(seat)?;
    cluster.ready(seat).await?;
    has_role(&cluster, seat, Role::Leader).await?;
    ledger.check(&cluster).await
}
