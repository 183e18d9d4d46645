//! The processes of the demo: started from this same binary, logged to files, and stopped by their own ids.

use std::{
    ffi::OsStr,
    fs::File,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
};

use anyhow::{Context as _, bail, ensure};
use rustix::process::Signal;
use tokio::process::{Child, Command};

use super::child;

/// How a process is started, each time alike.
#[derive(Debug, Clone)]
pub(super) struct Spec {
    /// For people and for the log file's name.
    pub(super) name: String,
    /// The arguments of this binary.
    pub(super) arguments: Vec<String>,
}

/// A process that this one started. If it is dropped, whatever the reason, the process is killed; and if this process dies itself.
#[derive(Debug)]
pub(super) struct Process {
    spec: Spec,
    log: PathBuf,
    child: Option<Child>,
}

impl Process {
    /// Starts it; its output is appended to `<dir>/<name>.log`.
    pub(super) fn start(spec: Spec, dir: &Path) -> anyhow::Result<Self> {
        let log = dir.join(format!("{}.log", spec.name));
        let mut process = Self {
            spec,
            log,
            child: None,
        };
        process.restart()?;
        Ok(process)
    }

    /// Starts it again after it was killed.
    pub(super) fn restart(&mut self) -> anyhow::Result<()> {
        ensure!(self.child.is_none(), "{} runs already", self.spec.name);
        let log = File::options().create(true).append(true).open(&self.log)?;
        let child = command(&self.spec.arguments)?
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", self.spec.name))?;
        self.child = Some(child);
        Ok(())
    }

    pub(super) fn name(&self) -> &str {
        &self.spec.name
    }

    /// Its process id, while it runs.
    pub(super) fn pid(&self) -> Option<u32> {
        self.child.as_ref()?.id()
    }

    /// Fails if it has ended by itself.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        if let Some(child) = &mut self.child
            && let Some(status) = child.try_wait()?
        {
            bail!(
                "{} ended by itself ({status}); its log is {}",
                self.spec.name,
                self.log.display()
            );
        }
        Ok(())
    }

    /// Kills it with SIGKILL, and waits until it is dead of that.
    pub(super) async fn kill(&mut self) -> anyhow::Result<ExitStatus> {
        use std::os::unix::process::ExitStatusExt;
        let mut child = self
            .child
            .take()
            .with_context(|| format!("{} does not run", self.spec.name))?;
        child.start_kill()?;
        let status = child.wait().await?;
        ensure!(
            status.signal() == Some(Signal::KILL.as_raw()),
            "{} was killed with SIGKILL, but ended with {status}",
            self.spec.name
        );
        Ok(status)
    }
}

/// Runs this binary to its end.
///
/// # Errors
/// If it cannot be started, or fails: with what it says on standard error.
pub(super) async fn run(arguments: &[String]) -> anyhow::Result<()> {
    let ended = command(arguments)?.output().await?;
    let said = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "{}", said.trim());
    Ok(())
}

/// This binary with these arguments, as a process that dies with this one.
fn command(arguments: &[String]) -> anyhow::Result<Command> {
    let binary = std::env::current_exe().context("this binary's own path is not known")?;
    let mut command = Command::new(binary);
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_stray(name)) {
        command.env_remove(name);
    }
    let (name, value) = child::variable();
    command
        .args(["demo", "--"])
        .args(arguments)
        .env(name, value)
        .stdin(Stdio::null())
        // A group of its own: Ctrl-C reaches this process alone, which then stops its children in order.
        .process_group(0)
        .kill_on_drop(true);
    Ok(command)
}

/// Whether a variable of this process's surroundings would set flags of its children that the demo decides.
fn is_stray(name: &OsStr) -> bool {
    const PASSED_ON: [&str; 3] = ["HELVE_PLANTED", "HELVE_LOG", "HELVE_LOG_FORMAT"];
    name.to_str()
        .is_some_and(|name| name.starts_with("HELVE_") && !PASSED_ON.contains(&name))
}

/// Loopback addresses with ports that are free now. They are held until all are known, so that no two are the same.
pub(super) fn free_addresses(count: usize) -> anyhow::Result<Vec<SocketAddr>> {
    let listeners: Vec<_> = (0..count)
        .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
        .collect::<Result<_, _>>()
        .context("no free loopback port")?;
    listeners
        .iter()
        .map(|listener| Ok(listener.local_addr()?))
        .collect()
}
