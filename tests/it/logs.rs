//! What nodes log while nothing is wrong: operators are called for errors, and read warnings.

use std::{collections::BTreeMap, fs};

use anyhow::{Context as _, Result, ensure};
use helve_tests::{cluster::Cluster, ledger::Ledger, promise};
use serde_json::Value;

use super::nodes;
use crate::membership::{self, members_are, told};

/// How often the same warning may be in one node's log for a change of members.
const SAME_WARNINGS_MAX: usize = 3;

/// And warnings in all.
const WARNINGS_MAX: usize = 10;

/// The lines of a node's log, as level and message.
fn lines(cluster: &Cluster, seat: u64) -> Result<Vec<(String, String)>> {
    let text = fs::read_to_string(cluster.log_file(seat))?;
    // The node may be writing the last one.
    let (whole, _) = text.rsplit_once('\n').context("no whole line")?;
    let mut lines = Vec::new();
    for line in whole.lines().filter(|line| line.starts_with('{')) {
        let line: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        let field = |name: &str| line[name].as_str().map(str::to_owned);
        lines.push((
            field("level").context("a line without a level")?,
            field("message").unwrap_or_default(),
        ));
    }
    ensure!(!lines.is_empty(), "node {seat} logs nothing as JSON");
    Ok(lines)
}

fn of_level(cluster: &Cluster, seat: u64, level: &str) -> Result<Vec<String>> {
    let lines = lines(cluster, seat)?.into_iter();
    let of_level = lines.filter(|(found, _)| found == level);
    Ok(of_level.map(|(_, message)| message).collect())
}

fn no_errors(cluster: &Cluster, what: &str) -> Result<()> {
    for seat in cluster.seats() {
        let errors = of_level(cluster, seat, "ERROR")?;
        promise!(errors.is_empty(), "{what}: node {seat} logged {errors:?}");
    }
    Ok(())
}

fn no_storm(cluster: &Cluster, what: &str) -> Result<()> {
    for seat in cluster.seats() {
        let warnings = of_level(cluster, seat, "WARN")?;
        let mut counts = BTreeMap::<&String, usize>::new();
        for warning in &warnings {
            *counts.entry(warning).or_default() += 1;
        }
        let most = counts.values().max().copied().unwrap_or(0);
        promise!(
            most <= SAME_WARNINGS_MAX && warnings.len() <= WARNINGS_MAX,
            "{what}: node {seat} warned {} times: {counts:?}",
            warnings.len()
        );
    }
    Ok(())
}

async fn mint(ledger: &Ledger, cluster: &Cluster) -> Result<()> {
    let running = cluster.running().into_iter();
    let callers: Vec<_> = running.map(|seat| cluster.caller(seat)).collect();
    for _ in 0..10 {
        ledger.mint(&callers).await?;
    }
    Ok(())
}

#[tokio::test]
async fn nodes_stopped_and_started_in_turn_log_no_error() -> Result<()> {
    let mut cluster = nodes(3).with("HELVE_LOG_FORMAT", "json").start().await?;
    let ledger = Ledger::new("carts");
    for _ in 0..2 {
        for seat in cluster.seats() {
            mint(&ledger, &cluster).await?;
            cluster.node(seat).terminate()?;
            let status = cluster.node_mut(seat).stopped().await?;
            assert!(status.success(), "node {seat} stopped with {status}");
            mint(&ledger, &cluster).await?;
            cluster.start(seat)?;
            cluster.ready(seat).await?;
        }
    }
    ledger.check(&cluster).await?;
    no_errors(&cluster, "a roll")?;
    no_storm(&cluster, "a roll")
}

#[tokio::test]
async fn members_that_come_and_go_cause_no_error_and_few_warnings() -> Result<()> {
    let mut cluster = nodes(3).with("HELVE_LOG_FORMAT", "json").start().await?;
    let ledger = Ledger::new("carts");
    mint(&ledger, &cluster).await?;
    let seat = cluster.add_seat()?;
    cluster.start(seat)?;
    let added = membership::add(&cluster, seat).await?;
    cluster.ready(seat).await?;
    mint(&ledger, &cluster).await?;
    no_errors(&cluster, "a member added")?;
    no_storm(&cluster, "a member added")?;

    let leader = cluster.leader().await?.seat;
    let leaving = if leader == 3 { 2 } else { 3 };
    let id = membership::node(&cluster, leaving).await?.id.to_string();
    let others = cluster.others(leaving);
    told(&cluster, &others, &["remove", &id]).await?;
    members_are(&cluster, "three members", |members| members.len() == 3).await?;
    membership::has_role(&cluster, leaving, helve_proto::v1::Role::Removed).await?;
    mint_through(&ledger, &cluster, &others).await?;
    no_errors(&cluster, "a member removed")?;
    no_storm(&cluster, "a member removed")?;

    // The removed one comes back empty, and takes the place of the one that was added, which lives.
    cluster.kill(leaving)?;
    cluster.empty(leaving)?;
    cluster.start(leaving)?;
    let (number, peer) = membership::place(&cluster, leaving);
    let added = added.to_string();
    let wish = ["replace", &added, "--seat", &number, "--peer", &peer];
    told(&cluster, &others, &wish).await?;
    cluster.ready(leaving).await?;
    membership::has_role(&cluster, seat, helve_proto::v1::Role::Removed).await?;
    no_errors(&cluster, "a member replaced")?;
    no_storm(&cluster, "a member replaced")
}

async fn mint_through(ledger: &Ledger, cluster: &Cluster, seats: &[u64]) -> Result<()> {
    let callers: Vec<_> = seats.iter().map(|&seat| cluster.caller(seat)).collect();
    for _ in 0..10 {
        ledger.mint(&callers).await?;
    }
    Ok(())
}
