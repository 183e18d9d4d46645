//! One node: a `helve serve` process with a directory and a log file of its own.

use std::{
    env,
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::Read as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::wait::{Look, block_until, until};

/// How long a process may take to end once it was killed, or to stand still once it was frozen: the kernel sees to that, not the
/// process, but for a thread that it lets wait for a disk.
const KERNEL_LIMIT: Duration = Duration::from_secs(30);

/// How much of the log is printed when a test fails.
const LOG_TAIL_BYTES: usize = 8 * 1024;

/// The binary to test: the one that was built with the tests, unless `HELVE_BIN` names another.
#[must_use]
pub fn binary(built: &str) -> PathBuf {
    env::var_os("HELVE_BIN").map_or_else(|| PathBuf::from(built), PathBuf::from)
}

/// How to start a process: again and again, with the same arguments.
#[derive(Debug, Clone)]
pub struct Start {
    /// The binary.
    pub binary: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Variables besides the inherited ones. `HELVE_…` variables are not inherited.
    pub environment: Vec<(String, String)>,
}

impl Start {
    /// The command, ready to run.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(&self.arguments).stdin(Stdio::null());
        let inherited = env::vars_os().map(|(name, _)| name);
        for name in inherited.filter(|name| name.to_string_lossy().starts_with("HELVE_")) {
            command.env_remove(name);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// A process that may be running. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    start: Start,
    log: PathBuf,
    child: Option<Child>,
}

impl Process {
    /// Not running yet. What it says is appended to the file `log`.
    #[must_use]
    pub fn new(start: Start, log: PathBuf) -> Self {
        Self {
            start,
            log,
            child: None,
        }
    }

    /// Sets a variable in the environment of the next start.
    pub fn set(&mut self, name: &str, value: &str) {
        self.start
            .environment
            .push((name.to_owned(), value.to_owned()));
    }

    /// Gives a flag another value at the next start.
    ///
    /// # Errors
    ///
    /// If it had none.
    pub fn set_argument(&mut self, flag: &str, value: &str) -> Result<()> {
        let arguments = &mut self.start.arguments;
        let at = arguments.iter().position(|argument| argument == flag);
        let value_at = at.context("the process has no such flag")? + 1;
        *arguments
            .get_mut(value_at)
            .context("the flag has no value")? = value.into();
        Ok(())
    }

    /// The process id, while it was started and not stopped.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Runs it.
    ///
    /// # Errors
    ///
    /// If it runs already, or cannot be started.
    pub fn start(&mut self) -> Result<()> {
        ensure!(self.child.is_none(), "the process runs already");
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)?;
        let mut command = self.start.command();
        command.stdout(log.try_clone()?).stderr(log);
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", self.start.binary.display()))?;
        self.child = Some(child);
        Ok(())
    }

    /// Kills it with SIGKILL: the normal way for a node to stop in a test. Says how it ended: it may have stopped by itself before.
    ///
    /// # Errors
    ///
    /// If it does not run, or has not ended long after the signal.
    pub fn kill(&mut self) -> Result<ExitStatus> {
        let mut child = self.child.take().context("the process does not run")?;
        child.kill()?;
        ended_within(&mut child, KERNEL_LIMIT)
    }

    /// Sends SIGKILL, if it runs, and does not wait for its end. One that is dropped is waited for.
    pub(crate) fn strike(&mut self) {
        if let Some(child) = &mut self.child {
            // One that has ended already takes no signal.
            let _struck = child.kill();
        }
    }

    /// Asks it to stop with SIGTERM; [`Process::stopped`] waits until it has.
    ///
    /// # Errors
    ///
    /// If it does not run.
    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// Freezes it, as a long pause of the machine would.
    ///
    /// # Errors
    ///
    /// If it does not run, or does not stand still long after the signal.
    pub fn freeze(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        // Its threads stop one by one; only then is it frozen.
        let pid = self.pid().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let options = WaitOptions::UNTRACED | WaitOptions::NOHANG;
        block_until(KERNEL_LIMIT, "a process to stand still", || {
            match waitpid(pid, options) {
                Ok(None) => Look::NotYet(format!("process {pid:?} runs")),
                other => Look::Done(other.map(drop)),
            }
        })??;
        Ok(())
    }

    /// Lets a frozen process run on.
    ///
    /// # Errors
    ///
    /// If it does not run.
    pub fn thaw(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Waits until it has stopped by itself.
    ///
    /// # Errors
    ///
    /// If it does not run, or does not stop.
    pub async fn stopped(&mut self) -> Result<ExitStatus> {
        let mut child = self.child.take().context("the process does not run")?;
        let stopped = until("a process to stop", async || match child.try_wait() {
            Ok(Some(status)) => Look::Done(Ok(status)),
            Ok(None) => Look::NotYet(format!("process {} runs", child.id())),
            Err(error) => Look::Done(Err(error)),
        });
        match stopped.await {
            Ok(status) => Ok(status?),
            Err(error) => {
                self.child = Some(child);
                Err(error)
            }
        }
    }

    /// How it ended, if it has since it was started; it can then be started again.
    ///
    /// # Errors
    ///
    /// If the system does not say.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        let status = match &mut self.child {
            Some(child) => child.try_wait()?,
            None => None,
        };
        if status.is_some() {
            self.child = None;
        }
        Ok(status)
    }

    /// Fails, with the end of its log, if it has stopped although the test did not stop it.
    ///
    /// # Errors
    ///
    /// If it was started and runs no more.
    pub fn assert_running(&mut self) -> Result<()> {
        if let Some(child) = &mut self.child
            && let Some(status) = child.try_wait()?
        {
            bail!("the process stopped with {status}:\n{}", self.log_tail());
        }
        Ok(())
    }

    /// The end of what it has said.
    #[must_use]
    pub fn log_tail(&self) -> String {
        read_tail(&self.log).unwrap_or_else(|error| format!("{}: {error}", self.log.display()))
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let child = self.child.as_ref().context("the process does not run")?;
        let pid = Pid::from_raw(i32::try_from(child.id())?).context("process ids are positive")?;
        Ok(kill_process(pid, signal)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.child.is_some()
            && let Err(error) = self.kill()
        {
            eprintln!("cannot kill a process of the test: {error}");
        }
    }
}

/// Runs a program of the system's to its end, and kills it if that does not come.
///
/// # Errors
///
/// If it cannot be started, or does not end.
pub fn run_within(limit: Duration, command: &mut Command) -> Result<Output> {
    let program = command.get_program().to_owned();
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    // What these programs say fits into a pipe.
    if let Err(error) = ended_within(&mut child, limit) {
        child.kill()?;
        bail!("{} does not come to its end: {error}", program.display());
    }
    Ok(child.wait_with_output()?)
}

fn ended_within(child: &mut Child, limit: Duration) -> Result<ExitStatus> {
    let pid = child.id();
    let ended = block_until(limit, "a process to end", || match child.try_wait() {
        Ok(Some(status)) => Look::Done(Ok(status)),
        Ok(None) => {
            let state = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
            Look::NotYet(format!("process {pid} is in the kernel at `{state}`"))
        }
        Err(error) => Look::Done(Err(error)),
    });
    Ok(ended??)
}

fn read_tail(path: &Path) -> Result<String> {
    let skip = fs::metadata(path)?
        .len()
        .saturating_sub(LOG_TAIL_BYTES as u64);
    let mut file = File::open(path)?;
    std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(skip))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    Ok(String::from_utf8_lossy(&tail).into_owned())
}
