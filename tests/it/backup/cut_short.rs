//! Backups whose node dies in the middle, and restores that are killed.

use std::{fs, os::unix::process::ExitStatusExt as _};

use anyhow::{Context as _, Result};
use helve_node::failpoint::Failpoint;
use helve_tests::{
    archive::Following,
    failpoints::{arm, disarm},
    ledger::Ledger,
    promise,
    wait::{Look, until},
};
use rustix::process::Signal;

use super::{
    super::{binary, failpoints::three_nodes, nodes},
    MINTS, back_up, helve, mint, refusal, report, restore, text, verify,
};

/// Each step of a restore that is its own; the rest are those of a recovery.
const RESTORING: [Failpoint; 4] = [
    Failpoint::RestoreBegun,
    Failpoint::RestoreLaidOut,
    Failpoint::RecoveryNamed,
    Failpoint::RecoveryPurged,
];

/// The failpoints that only these tests arm.
pub(crate) const STEPS: [Failpoint; 3] = [
    Failpoint::BackupChunk,
    Failpoint::RestoreBegun,
    Failpoint::RestoreLaidOut,
];

/// What the command says of an archive whose new backup no node made at the first try.
const ONCE_MADE: &str = "once a node makes the new backup";

/// How often the backup is deleted, at most, until the node that makes none was the first to be
/// asked for another: mostly it is the first time.
const UNMADE_TURNS: usize = 5;

#[tokio::test]
async fn node_that_dies_or_fails_in_the_middle_leaves_no_backup() -> Result<()> {
    let mut cluster = three_nodes(&[]).await?;
    let ledger = Ledger::new("carts");
    mint(&ledger, &cluster, MINTS).await?;
    let directory = tempfile::tempdir()?;
    let (to, data) = (directory.path().join("to"), directory.path().join("data"));
    let point = Failpoint::BackupChunk.as_str();
    for action in ["error:3", "kill:3"] {
        arm(&cluster, 1, &format!("{point}={action}"))?;
        let cut = refusal(&back_up(&cluster, 1, &to).await?, 3)?;
        promise!(!cut.is_empty(), "{action}: nothing is said");
        let none = refusal(&restore(&to, &data, &[]).await?, 2)?;
        promise!(none.contains("holds no backup"), "{action}: {none}");
    }
    let died = cluster.node_mut(1).stopped().await?;
    promise!(died.signal() == Some(Signal::KILL.as_raw()), "{died}");
    disarm(&cluster, 1)?;
    cluster.start(1)?;
    cluster.all_ready().await?;
    report(&back_up(&cluster, 1, &to).await?)?;
    report(&verify(&to).await?)?;
    mint(&ledger, &cluster, MINTS).await?;
    ledger.check(&cluster).await
}

#[tokio::test(flavor = "multi_thread")]
async fn new_backup_of_an_archive_is_tried_until_a_node_makes_it() -> Result<()> {
    let mut cluster = three_nodes(&[]).await?;
    let ledger = Ledger::new("carts");
    mint(&ledger, &cluster, MINTS).await?;
    let directory = tempfile::tempdir()?;
    let to = directory.path().join("to");
    let endpoint = cluster.endpoints()[0].clone();
    let mut following = Following::begin(&binary(), &endpoint, &to).await?;
    let listed = following.listed().await?;
    let id = listed["backups"][0]["id"].as_str().context("no backup")?;
    // Of the only node that is asked each backup is cut, and then it dies.
    arm(&cluster, 1, "backup-chunk=kill")?;
    report(&helve(&["backup", "delete", text(&to)?, id]).await?)?;
    mint(&ledger, &cluster, 1).await?;
    until("the archive to wait", async || {
        let said = following.pages();
        if following.has_ended() || said.contains(ONCE_MADE) {
            Look::Done(())
        } else {
            Look::NotYet(said)
        }
    })
    .await?;
    promise!(!following.has_ended(), "it ended: {}", following.pages());
    cluster.node_mut(1).stopped().await?;
    disarm(&cluster, 1)?;
    cluster.start(1)?;
    cluster.all_ready().await?;
    mint(&ledger, &cluster, MINTS).await?;
    following.brings_back(&cluster).await?;
    let ended = following.end(Signal::TERM).await?;
    promise!(ended.code() == Some(0), "{ended}: {}", following.pages());
    let said = following.pages();
    promise!(said.matches("the archive waits").count() == 1, "{said}");
    ledger.check(&cluster).await
}

/// Waits for a backup of the archive other than this one, and until the command has said that it is
/// made: before, it still works at the place, and a deletion is refused.
async fn backup_other_than(following: &Following, gone: &str) -> Result<String> {
    until("another backup", async || {
        let (listed, said) = (following.listed().await, following.pages());
        let listed = match listed {
            Ok(listed) => listed,
            Err(error) => return Look::NotYet(format!("{error}: {said}")),
        };
        match listed["backups"][0]["id"].as_str() {
            Some(id) if id != gone && said.contains(id) => Look::Done(id.to_owned()),
            _ => Look::NotYet(format!("{listed}: {said}")),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn new_backup_of_an_archive_is_made_by_a_node_that_can() -> Result<()> {
    let mut cluster = three_nodes(&[]).await?;
    let ledger = Ledger::new("carts");
    mint(&ledger, &cluster, MINTS).await?;
    let directory = tempfile::tempdir()?;
    let to = directory.path().join("to");
    let endpoints = cluster.endpoints().join(",");
    let mut following = Following::begin(&binary(), &endpoints, &to).await?;
    let mut id = backup_other_than(&following, "").await?;
    // The first node is ready, and makes none. On a busy machine it may be unready when it is its
    // turn: then another one is asked first, and the command has nothing to wait for.
    let point = Failpoint::BackupChunk.as_str();
    arm(&cluster, 1, &format!("{point}=error"))?;
    for _ in 0..UNMADE_TURNS {
        cluster.all_ready().await?;
        report(&helve(&["backup", "delete", text(&to)?, &id]).await?)?;
        mint(&ledger, &cluster, 1).await?;
        id = backup_other_than(&following, &id).await?;
        if following.pages().contains(ONCE_MADE) {
            break;
        }
    }
    let said = following.pages();
    promise!(said.contains(ONCE_MADE), "{said}");
    disarm(&cluster, 1)?;
    mint(&ledger, &cluster, MINTS).await?;
    following.brings_back(&cluster).await?;
    let ended = following.end(Signal::TERM).await?;
    promise!(ended.code() == Some(0), "{ended}: {}", following.pages());
    ledger.check(&cluster).await
}

#[tokio::test]
async fn restore_that_is_killed_leaves_a_directory_that_no_node_starts_from() -> Result<()> {
    let mut cluster = nodes(1).start().await?;
    let ledger = Ledger::new("carts");
    mint(&ledger, &cluster, MINTS).await?;
    let directory = tempfile::tempdir()?;
    let to = directory.path().join("to");
    report(&back_up(&cluster, 1, &to).await?)?;
    cluster.kill(1)?;
    let data = cluster.data_directory(1);
    for step in RESTORING {
        cluster.empty(1)?;
        let script = format!("{}=kill", step.as_str());
        let output = restore(&to, &data, &["--failpoint", &script]).await?;
        let is_killed = output.status.signal() == Some(Signal::KILL.as_raw());
        promise!(is_killed, "{script}: {output:?}");
        cluster.start(1)?;
        let status = cluster.node_mut(1).stopped().await?;
        let log = cluster.node(1).log_tail();
        promise!(
            status.code() == Some(2) && log.contains("a restore into it was cut short"),
            "{script}: {status}: {log}"
        );
        let again = refusal(&restore(&to, &data, &[]).await?, 2)?;
        promise!(again.contains("not empty"), "{script}: {again}");
    }
    cluster.empty(1)?;
    promise!(fs::read_dir(&data)?.next().is_none(), "it is not empty");
    report(&restore(&to, &data, &[]).await?)?;
    cluster.start(1)?;
    cluster.ready(1).await?;
    ledger.check(&cluster).await
}

#[tokio::test(flavor = "multi_thread")]
async fn archive_whose_command_dies_at_a_segment_goes_on_without_it() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let ledger = Ledger::new("carts");
    let directory = tempfile::tempdir()?;
    let to = directory.path().join("to");
    let endpoint = cluster.endpoints().join(",");
    report(&back_up(&cluster, 1, &to).await?)?;
    // The first segment is whole, and the second one is not there yet.
    let script = format!("{}=kill:2", Failpoint::FileBeforeRename.as_str());
    let armed = ["--failpoint", script.as_str()];
    let mut following = Following::start(&binary(), &endpoint, &to, &armed)?;
    until("the command to die", async || {
        let minted = ledger.mint(&[cluster.caller(1)]).await;
        if minted.is_err() || following.has_ended() {
            Look::Done(minted)
        } else {
            Look::NotYet(format!("{} were minted", ledger.len()))
        }
    })
    .await??;
    let died = following.ended().await?;
    promise!(died.signal() == Some(Signal::KILL.as_raw()), "{died}");
    report(&verify(&to).await?)?;
    let mut following = Following::begin(&binary(), &endpoint, &to).await?;
    mint(&ledger, &cluster, MINTS).await?;
    following.brings_back(&cluster).await?;
    let ended = following.end(Signal::TERM).await?;
    promise!(ended.code() == Some(0), "{ended}: {}", following.pages());
    report(&verify(&to).await?)?;
    Ok(())
}
