//! SIGTERM in the middle of a start: what is under way in the storage engine ends first, and the process ends well.

use std::{
    fs,
    net::TcpListener,
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
#[cfg(feature = "planted")]
use helve_node::failpoint::Failpoint;
use helve_tests::{
    address::{Listeners, next_loopback},
    wait::{Look, PATIENCE, block_until},
};
use rustix::process::{Pid, Signal, kill_process};

use super::{binary, command_json::free_ports};

/// Where a start is held, so that the signal certainly comes in the middle of it.
#[cfg(feature = "planted")]
pub(crate) const STEPS: [Failpoint; 1] = [Failpoint::StorageOpened];

/// The files of a node at which it is stopped: from none to both databases being open.
const FILES: std::ops::RangeInclusive<usize> = 0..=14;

/// A process that a test starts and stops, with the file of what it says.
struct Started {
    child: Child,
    log: tempfile::NamedTempFile,
}

impl Started {
    fn run(command: &mut Command) -> Result<Self> {
        let log = tempfile::NamedTempFile::new()?;
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(log.reopen()?).spawn()?;
        Ok(Self { child, log })
    }

    fn said(&self) -> Result<String> {
        Ok(fs::read_to_string(self.log.path())?)
    }

    /// Waits until this condition holds, or the process has ended.
    fn until(&mut self, what: &str, holds: impl Fn() -> bool) -> Result<()> {
        let child = &mut self.child;
        block_until(PATIENCE, what, || match child.try_wait() {
            Ok(None) if holds() => Look::Done(Ok(())),
            Ok(None) => Look::NotYet("it starts".to_owned()),
            ended => Look::Done(Err(anyhow::anyhow!("it ended: {ended:?}"))),
        })?
    }

    /// Sends SIGTERM, and says how the process ended.
    fn stop(mut self) -> Result<(std::process::ExitStatus, String)> {
        let pid = Pid::from_raw(i32::try_from(self.child.id())?).context("process 0")?;
        kill_process(pid, Signal::TERM)?;
        let child = &mut self.child;
        let status = block_until(PATIENCE, "the process to stop", || match child.try_wait() {
            Ok(None) => Look::NotYet("it runs".to_owned()),
            Ok(Some(status)) => Look::Done(Ok(status)),
            Err(error) => Look::Done(Err(error)),
        })??;
        let said = self.said()?;
        Ok((status, said))
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Number of files below a directory.
fn files(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let count = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => files(&entry.path()),
        _ => 1,
    };
    entries.filter_map(Result::ok).map(count).sum()
}

fn serve(data: &Path) -> Command {
    let own = Listeners::of_seat(next_loopback(), 1);
    let mut command = Command::new(binary());
    command
        .args(["serve", "--id", "1", "--data-dir"])
        .arg(data)
        .args(["--listen", &own.client.to_string()])
        .args(["--peer-listen", &own.peer.to_string()])
        .args(["--http-listen", &own.http.to_string()])
        .args(["--peers", &format!("1={}", own.peer)]);
    command
}

#[test]
fn node_stopped_at_any_step_of_its_start_ends_well() -> Result<()> {
    for count in FILES {
        let directory = tempfile::tempdir()?;
        let data = directory.path().join("data");
        let mut node = Started::run(&mut serve(&data))?;
        node.until("files of a node", || data.exists() && files(&data) >= count)?;
        let (status, said) = node.stop()?;
        ensure!(status.code() == Some(0), "{count} files: {status}: {said}");
        ensure!(!said.contains("panicked"), "{said}");
    }
    Ok(())
}

/// Before it listens for signals a process has nothing to clear away: the signal may end it.
#[test]
fn process_stopped_right_after_its_start_never_aborts() -> Result<()> {
    let port = free_ports()?.to_string();
    let servers: [&[&str]; 4] = [
        &["dev", "--port", &port],
        &["mcp", "--memory", "--listen", "127.0.0.1:0"],
        &["cart", "--listen", "127.0.0.1:0"],
        &["balancer", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:1"],
    ];
    for server in servers {
        let temporary = tempfile::tempdir()?;
        let mut command = Command::new(binary());
        command.args(server).env("TMPDIR", temporary.path());
        let (status, said) = Started::run(&mut command)?.stop()?;
        let is_terminated = status.signal() == Some(Signal::TERM.as_raw());
        ensure!(
            status.code() == Some(0) || is_terminated,
            "{server:?}: {status}: {said}"
        );
        let left = fs::read_dir(temporary.path())?.count();
        ensure!(left == 0, "{server:?} leaves its directory: {said}");
    }
    Ok(())
}

#[cfg(feature = "planted")]
#[test]
fn node_stopped_while_it_opens_its_storage_closes_it() -> Result<()> {
    let temporary = tempfile::tempdir()?;
    let hold = format!("{}=delay:2000", STEPS[0].as_str());
    let port = free_ports()?.to_string();
    let mut command = Command::new(binary());
    command
        .args(["dev", "--port", &port])
        .env("TMPDIR", temporary.path())
        .env("HELVE_FAILPOINT", hold);
    let mut dev = Started::run(&mut command)?;
    dev.until("the storage to be opened", || files(temporary.path()) > 0)?;
    let (status, said) = dev.stop()?;
    ensure!(status.code() == Some(0), "{status}: {said}");
    let steps = ["stopping before the start has ended", "stopped"];
    for step in steps {
        ensure!(said.contains(step), "`{step}` is missing: {said}");
    }
    let left = fs::read_dir(temporary.path())?.count();
    ensure!(left == 0, "the temporary directory is left: {said}");
    Ok(())
}

/// The issuer's server accepts a connection, and never answers.
#[test]
fn server_stopped_while_it_waits_for_token_keys_ends_at_once() -> Result<()> {
    let issuer = TcpListener::bind("127.0.0.1:0")?;
    issuer.set_nonblocking(true)?;
    let url = format!("https://{}/jwks", issuer.local_addr()?);
    let servers: [&[&str]; 2] = [&["mcp", "--memory"], &["cart"]];
    for server in servers {
        let mut command = Command::new(binary());
        command.args(server).args([
            "--token-jwks-url",
            &url,
            "--token-audience",
            "test",
            "--token-issuer",
            "https://id.example",
            "--listen",
            "127.0.0.1:0",
        ]);
        let server = Started::run(&mut command)?;
        // Held until the process has ended: a closed connection would end the wait, too.
        let asking = block_until(Duration::from_secs(60), "a request for keys", || {
            Look::of(issuer.accept())
        })?;
        let (status, said) = server.stop()?;
        drop(asking);
        ensure!(status.code() == Some(0), "{status}: {said}");
    }
    Ok(())
}
