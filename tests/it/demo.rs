//! The demo, the demo on a cluster that cannot keep its promise, which must say so, and the demo that is stopped: nothing that it
//! started outlives it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use helve_tests::{
    cluster::slot,
    on_disk::files_with,
    wait::{Look, until},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStderr, Command},
};

use super::{binary, command_line::USAGE};

async fn demo(planted: Option<&str>) -> Result<Output> {
    let _slot = slot().await?;
    // One that fails keeps what it made.
    let directory = tempfile::tempdir()?;
    let mut command = Command::new(binary());
    command
        .args(["demo", "--output", "json"])
        .env_remove("HELVE_PLANTED")
        .env("TMPDIR", directory.path());
    if let Some(bug) = planted {
        command.env("HELVE_PLANTED", bug);
    }
    Ok(command.kill_on_drop(true).output().await?)
}

/// The figures: all that the demo prints on its standard output.
fn figures(output: &Output) -> Result<Value> {
    let said = || String::from_utf8_lossy(&output.stderr).into_owned();
    serde_json::from_slice(&output.stdout).with_context(said)
}

#[tokio::test]
async fn the_demo_loses_and_doubles_nothing() -> Result<()> {
    let output = demo(None).await?;
    let figures = figures(&output)?;
    assert!(output.status.success(), "{}: {figures}", output.status);
    assert_eq!(
        (&figures["lost"], &figures["doubled"]),
        (&0.into(), &0.into()),
        "{figures}"
    );
    for shown in ["flows", "values", "audit_lines"] {
        assert!(figures[shown].as_u64() > Some(0), "{figures}");
    }
    assert_eq!(figures["values_sealed"], figures["values"], "{figures}");
    Ok(())
}

#[tokio::test]
async fn the_demo_on_a_cluster_without_replay_fails() -> Result<()> {
    let output = demo(Some("replay-off")).await?;
    let figures = figures(&output)?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{figures}\n{said}");
    let wrong = figures["lost"].as_u64().unwrap_or_default()
        + figures["doubled"].as_u64().unwrap_or_default();
    assert!(wrong > 0, "it failed for another reason: {figures}");
    Ok(())
}

/// A demo that is watched.
struct Watched {
    demo: Child,
    said: Lines<BufReader<ChildStderr>>,
    directory: TempDir,
}

impl Watched {
    fn start(arguments: &[&str]) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let mut demo = Command::new(binary())
            .arg("demo")
            .args(arguments)
            .env_remove("HELVE_PLANTED")
            .env("TMPDIR", directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let said = demo.stderr.take().context("standard error is a pipe")?;
        Ok(Self {
            demo,
            said: BufReader::new(said).lines(),
            directory,
        })
    }

    /// Reads on until a line with this in it.
    async fn says(&mut self, what: &str) -> Result<String> {
        let mut all = String::new();
        while let Some(line) = self.said.next_line().await? {
            if line.contains(what) {
                return Ok(line);
            }
            all = all + &line + "\n";
        }
        anyhow::bail!("it never said `{what}`, but:\n{all}")
    }

    /// Reads the commands to try, one a line, up to the one with this in it.
    async fn invites(&mut self, last: &str) -> Result<Vec<String>> {
        let mut commands = Vec::new();
        while let Some(line) = self.said.next_line().await? {
            commands.push(line.trim().to_owned());
            if line.contains(last) {
                return Ok(commands);
            }
        }
        anyhow::bail!("it never invites to `{last}`, but to {commands:?}")
    }

    /// What it keeps under this name.
    fn place(&self, name: &str) -> Result<PathBuf> {
        let entry = fs::read_dir(self.directory.path())?.next();
        Ok(entry.context("no directory")??.path().join(name))
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = self.demo.id().and_then(|pid| pid.try_into().ok());
        let pid = pid.and_then(Pid::from_raw).context("the demo has ended")?;
        Ok(kill_process(pid, signal)?)
    }

    /// The processes that it started and that live: each writes its log below the demo's directory.
    fn started(&self) -> Result<Vec<u32>> {
        let writes_here = |pid: u32| {
            let log = fs::read_link(Path::new("/proc").join(pid.to_string()).join("fd/1"));
            log.is_ok_and(|log| log.starts_with(self.directory.path()))
        };
        let mut pids = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            pids.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
        }
        pids.retain(|pid| writes_here(*pid));
        Ok(pids)
    }

    async fn assert_nothing_is_left(&self) -> Result<()> {
        until(
            "all that the demo started to be gone",
            async || match self.started() {
                Ok(left) if left.is_empty() => Look::Done(()),
                left => Look::NotYet(format!("{left:?}")),
            },
        )
        .await
    }
}

/// Runs a command as a user copies it.
async fn copied(command: &str) -> Result<Output> {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).env_remove("HELVE_PLANTED");
    Ok(shell.kill_on_drop(true).output().await?)
}

#[tokio::test]
async fn kept_demo_answers_only_with_tls_and_a_token() -> Result<()> {
    let _slot = slot().await?;
    let mut watched = Watched::start(&["--keep", "--flows", "10"])?;
    watched.says("Left running until Ctrl-C").await?;
    let commands = watched.invites("node-3-audit.log").await?;
    for command in &commands {
        let output = copied(command).await?;
        assert!(output.status.success(), "{command}: {output:?}");
    }
    let of_records = commands.iter().find(|command| command.contains("list"));
    let (as_anyone, token) = of_records
        .and_then(|command| command.split_once(" --token-file "))
        .context("no command that bears a token")?;
    let refused = copied(as_anyone).await?;
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(USAGE), "{said}");
    assert!(said.contains("token"), "{said}");
    let (plain, _) = as_anyone.split_once(" --tls-ca ").context("no TLS")?;
    let unheard = copied(&format!("{plain} --token-file {token} --timeout 1s")).await?;
    let said = String::from_utf8_lossy(&unheard.stderr);
    assert_eq!(unheard.status.code(), Some(USAGE), "{said}");
    assert!(said.contains("--tls-ca"), "{said}");
    watched.signal(Signal::INT)?;
    watched.demo.wait().await?;
    Ok(())
}

#[tokio::test]
async fn no_disk_of_a_demo_holds_what_is_in_the_carts() -> Result<()> {
    const ITEM: &[u8] = b"\"sku\":\"honey\"";
    let _slot = slot().await?;
    let mut watched = Watched::start(&["--keep", "--flows", "10"])?;
    watched.says("Left running until Ctrl-C").await?;
    let ledger = fs::read(watched.place("ledger.jsonl")?)?;
    let is_sold = ledger.windows(ITEM.len()).any(|part| part == ITEM);
    assert!(is_sold, "no cart holds what is looked for");
    watched.signal(Signal::KILL)?;
    watched.demo.wait().await?;
    watched.assert_nothing_is_left().await?;
    for node in ["node-1", "node-2", "node-3"] {
        let found = files_with(&watched.place(node)?, ITEM)?;
        assert!(found.is_empty(), "{found:?}");
    }
    Ok(())
}

#[tokio::test]
async fn ctrl_c_ends_a_demo_that_was_left_running_and_all_that_it_started() -> Result<()> {
    let _slot = slot().await?;
    let mut watched = Watched::start(&["--keep", "--flows", "5"])?;
    watched.says("Left running until Ctrl-C").await?;
    let started = watched.started()?;
    ensure!(
        started.len() == 5,
        "not three nodes and two cart servers: {started:?}"
    );
    watched.signal(Signal::INT)?;
    let status = watched.demo.wait().await?;
    assert!(status.success(), "nothing was lost, but {status}");
    // It waited for their ends before its own.
    assert_eq!(watched.started()?, [0_u32; 0]);
    let left = fs::read_dir(watched.directory.path())?.count();
    assert_eq!(left, 0, "it keeps its directory");
    Ok(())
}

#[tokio::test]
async fn ctrl_c_in_the_middle_ends_a_demo_and_all_that_it_started() -> Result<()> {
    let _slot = slot().await?;
    let mut watched = Watched::start(&["--flows", "200"])?;
    watched.says("killed the leader").await?;
    ensure!(!watched.started()?.is_empty(), "nothing runs");
    watched.signal(Signal::INT)?;
    watched.says("logs, ledger and data are kept in").await?;
    let status = watched.demo.wait().await?;
    assert_eq!(status.code(), Some(4), "there is no verdict");
    assert_eq!(watched.started()?, [0_u32; 0]);
    Ok(())
}

#[tokio::test]
async fn what_a_demo_started_dies_with_it_even_if_it_is_killed() -> Result<()> {
    let _slot = slot().await?;
    let mut watched = Watched::start(&["--flows", "200"])?;
    watched.says("killed the leader").await?;
    ensure!(!watched.started()?.is_empty(), "nothing runs");
    watched.signal(Signal::KILL)?;
    watched.demo.wait().await?;
    watched.assert_nothing_is_left().await
}
