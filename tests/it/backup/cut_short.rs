//! Backups whose node dies in the middle, and restores that are killed.

use std::{fs, os::unix::process::ExitStatusExt as _};

use anyhow::Result;
use helve_node::failpoint::Failpoint;
use helve_tests::{
    failpoints::{arm, disarm},
    ledger::Ledger,
    promise,
};
use rustix::process::Signal;

use super::{
    super::{failpoints::three_nodes, nodes},
    MINTS, back_up, mint, refusal, report, restore, verify,
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
