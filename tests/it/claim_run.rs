//! `helve claim run`: signals, commands that are killed, and processes that a command leaves behind.

use std::{
    fs::{self, File},
    path::Path,
    process::{Child, ChildStdin, ExitStatus, Stdio},
};

use anyhow::{Context as _, Result};
use helve_tests::{
    cluster::Cluster,
    wait::{Look, until},
};
use rustix::process::{Pid, Signal, kill_process};

use super::{
    claim_command::{FATAL, cluster, command, run, said},
    command_line::{ABSENT, printed},
};

/// Whether the result is kept is not known.
const UNKNOWN: i32 = 5;

/// A `helve claim run` that may be running, in a directory. Its script reads what a test writes. Dropping it kills it.
struct Running<'a> {
    directory: &'a Path,
    child: Child,
}

impl<'a> Running<'a> {
    /// Starts it, and returns the script's standard input.
    fn start(cluster: &Cluster, directory: &'a Path, script: &str) -> Result<(Self, ChildStdin)> {
        // In files: a process that the script leaves behind holds them open.
        let mut child = command(cluster, directory, "k", &[], script)
            .stdin(Stdio::piped())
            .stdout(File::create(directory.join("stdout"))?)
            .stderr(File::create(directory.join("stderr"))?)
            .spawn()?;
        let stdin = child.stdin.take().context("it has standard input")?;
        Ok((Self { directory, child }, stdin))
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.directory.join(name)).unwrap_or_default()
    }

    /// Waits until a file holds a text.
    async fn has(&self, name: &str, text: &str) -> Result<()> {
        until(&format!("{name} to hold {text:?}"), async || {
            match self.read(name) {
                page if page.contains(text) => Look::Done(()),
                page => Look::NotYet(page),
            }
        })
        .await
    }

    fn terminate(&self) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.child.id())?).context("process 0")?;
        Ok(kill_process(pid, Signal::TERM)?)
    }

    async fn ended(&mut self) -> Result<ExitStatus> {
        let status = until("`helve claim run` to end", async || {
            match self.child.try_wait() {
                Ok(None) => Look::NotYet("it runs".to_owned()),
                Ok(Some(status)) => Look::Done(Ok(status)),
                Err(error) => Look::Done(Err(error)),
            }
        });
        Ok(status.await??)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // It has ended already, unless the test failed.
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_command_is_in_doubt_although_it_may_be_undone() -> Result<()> {
    let (cluster, directory) = (cluster().await?, tempfile::tempdir()?);
    let directory = directory.path();
    let script = "echo ran >> runs; kill -9 $$";
    let flags = ["--undone-on-failure", "--lease", "100ms"];
    let killed = run(&cluster, directory, "k", &flags, script)?;
    assert_eq!(killed.status.code(), Some(FATAL), "{killed:?}");
    let text = said(&killed);
    assert!(
        text.contains("signal: 9") && text.contains("ends with its lease"),
        "{text}"
    );
    let behind = until("the lease to end", async || {
        match run(&cluster, directory, "k", &flags, script) {
            Ok(output) if said(&output).contains("in flight") => Look::NotYet(said(&output)),
            behind => Look::Done(behind),
        }
    })
    .await??;
    assert_eq!(behind.status.code(), Some(ABSENT), "{behind:?}");
    assert!(said(&behind).contains("--may-repeat"), "{behind:?}");
    assert_eq!(fs::read_to_string(directory.join("runs"))?, "ran\n");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_is_passed_on_and_the_command_decides() -> Result<()> {
    let (cluster, directory) = (cluster().await?, tempfile::tempdir()?);
    let directory = directory.path();
    // It comes as early as it can.
    let script = |exit: &str| {
        format!("trap 'echo stopped; exit {exit}' TERM; kill -TERM $PPID; while :; do :; done")
    };
    let failed = run(&cluster, directory, "failed", &[], &script("7"))?;
    assert_eq!(failed.status.code(), Some(FATAL), "{failed:?}");
    assert!(said(&failed).contains("exit status: 7"), "{failed:?}");
    let kept = run(&cluster, directory, "kept", &[], &script("0"))?;
    assert_eq!(printed(&kept), "stopped");
    let again = run(&cluster, directory, "kept", &[], &script("0"))?;
    assert_eq!(printed(&again), "stopped");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_ends_the_tries_to_keep_a_result() -> Result<()> {
    let (mut cluster, directory) = (cluster().await?, tempfile::tempdir()?);
    let directory = directory.path();
    let script = "echo started; read line; echo done";
    let (mut running, stdin) = Running::start(&cluster, directory, script)?;
    running.has("stdout", "started").await?;
    cluster.kill(1)?;
    drop(stdin);
    running
        .has("stderr", "is tried until the lease ends")
        .await?;
    running.terminate()?;
    let status = running.ended().await?;
    let text = running.read("stderr");
    assert_eq!(status.code(), Some(UNKNOWN), "{text}");
    assert!(
        text.contains("SIGTERM stopped the tries") && text.contains("is not known"),
        "{text}"
    );
    assert_eq!(running.read("stdout"), "started\ndone\n");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_left_behind_is_not_waited_for() -> Result<()> {
    let (cluster, directory) = (cluster().await?, tempfile::tempdir()?);
    let directory = directory.path();
    // Standard input of a process in the background is another one, unless it is said.
    let script = "exec 3<&0; (read line <&3; echo over > late) & echo done";
    let (mut running, stdin) = Running::start(&cluster, directory, script)?;
    let status = running.ended().await?;
    let text = running.read("stderr");
    assert!(status.success(), "{status}: {text}");
    assert!(text.contains("holds its standard output open"), "{text}");
    assert_eq!(running.read("late"), "", "it has not ended");
    drop(stdin);
    running.has("late", "over").await?;
    assert_eq!(running.read("stdout"), "done\n");
    let again = run(&cluster, directory, "k", &[], script)?;
    assert_eq!(printed(&again), "done");
    Ok(())
}
