//! Backups to a bucket that a signal stops.

use std::{path::Path, process::Stdio, time::Duration};

use anyhow::{Context as _, Result};
use helve_node::failpoint::Failpoint;
use helve_tests::{
    archive::Following,
    failpoints::arm,
    ledger::Ledger,
    promise,
    wait::{Look, until},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::{process::Command, time::timeout};

use super::{
    super::{binary, failpoints::three_nodes},
    MINTS,
    bucket::{Store, TO, environment, moto},
    mint,
};

/// How long a command may take to end once it is asked to.
const PATIENCE: Duration = Duration::from_secs(60);

async fn marked(store: &Store) -> Result<()> {
    until("the mark", async || match store.marks() {
        Ok(marks) if !marks.is_empty() => Look::Done(()),
        marks => Look::NotYet(format!("{marks:?}")),
    })
    .await
}

/// Runs a command that SIGHUP reaches, also where the tests were started by `nohup`.
fn listening_to_hangups() -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP");
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn backup_that_a_signal_stops_leaves_no_mark() -> Result<()> {
    let Some(moto) = moto() else {
        return Ok(());
    };
    let store = Store::start(&moto).await?;
    let cluster = three_nodes(&[]).await?;
    let ledger = Ledger::new("carts");
    mint(&ledger, &cluster, MINTS).await?;
    // Each backup is under way until its command is stopped, and keeps others from its node.
    let point = Failpoint::BackupChunk.as_str();
    for seat in cluster.seats() {
        arm(&cluster, seat, &format!("{point}=delay:60000"))?;
    }
    let endpoints = cluster.endpoints();
    let at = format!("http://{}", store.address);
    let to = Path::new(TO);
    let variables = environment(&at);
    let mut following = Following::start_with(&variables, &binary(), &endpoints[0], to, &[])?;
    marked(&store).await?;
    let ended = following.end(Signal::TERM).await?;
    promise!(ended.code() == Some(0), "{ended}: {}", following.pages());
    let marks = store.marks()?;
    promise!(marks.is_empty(), "{marks}: {}", following.pages());
    for (endpoint, signal, status) in [
        (&endpoints[1], Signal::HUP, 129),
        (&endpoints[2], Signal::INT, 130),
    ] {
        let command = listening_to_hangups()
            .arg(binary())
            .args(["backup", TO, "--endpoints", endpoint.as_str()])
            .args(["--output", "json"])
            .envs(environment(&at))
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        marked(&store).await?;
        let id = i32::try_from(command.id().context("it has ended")?)?;
        kill_process(Pid::from_raw(id).context("process 0")?, signal)?;
        let ended = timeout(PATIENCE, command.wait_with_output()).await??;
        promise!(ended.status.code() == Some(status), "{ended:?}");
        let told: Value = serde_json::from_slice(&ended.stdout)?;
        promise!(
            told["cause"] == "stopped" && told["exit_status"] == status,
            "{told}"
        );
        let why = told["error"].as_str().unwrap_or_default();
        promise!(why.contains("no backup is known to be made"), "{why}");
        let marks = store.marks()?;
        promise!(marks.is_empty(), "{marks}");
    }
    ledger.check(&cluster).await
}
