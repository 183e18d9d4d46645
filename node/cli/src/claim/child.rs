//! The command that `helve claim run` runs.

use std::{
    ffi::OsString,
    io::{self, Write as _},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use helve_command::{
    output::{self, OutputArgs},
    signals::{Signals, StopSignal},
};
use rustix::{
    io::{Errno, ioctl_fionread},
    process::{Pid, Signal, kill_process},
};
use tokio::{
    io::AsyncReadExt as _,
    process::{Child, ChildStdout, Command},
    time::{Instant, timeout_at},
};

/// Bytes of standard output that are kept: as many as a value has at most.
pub(super) const RESULT_BYTES_MAX: usize = 1 << 20;

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 8 << 10;

/// How long output is read after the command has ended, if a process that it started holds it open.
const HELD_OPEN: Duration = Duration::from_secs(1);

/// A command that ended.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) printed: Printed,
}

/// What a command wrote to standard output.
#[derive(Default)]
pub(super) struct Printed {
    /// The first bytes, up to [`RESULT_BYTES_MAX`].
    pub(super) kept: Vec<u8>,
    /// Bytes beyond.
    pub(super) cut: u64,
    /// Whether another process may still write to it.
    pub(super) is_held_open: bool,
}

impl Printed {
    /// Passes bytes on, but for a caller that reads JSON, and keeps them.
    fn take(&mut self, chunk: &[u8], output: &OutputArgs) -> io::Result<()> {
        if !output.is_json() {
            write(chunk)?;
        }
        let kept = chunk.len().min(RESULT_BYTES_MAX - self.kept.len());
        self.kept.extend_from_slice(&chunk[..kept]);
        self.cut += (chunk.len() - kept) as u64;
        Ok(())
    }
}

/// Starts a command with these variables beside those of this process. It shares standard input and standard error.
///
/// # Errors
/// If it cannot be started: then it did nothing.
pub(super) fn start(command: &[OsString], variables: &[(&str, String)]) -> io::Result<Child> {
    let (program, arguments) = command
        .split_first()
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    Command::new(program)
        .args(arguments)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdout(Stdio::piped())
        .spawn()
}

/// Waits for a command, and passes on what it prints, but for a caller that reads JSON. SIGTERM is passed on to it; a terminal sends
/// SIGINT to both. What a process that it started prints is read for [`HELD_OPEN`] after the command itself has ended.
///
/// # Errors
/// If it cannot be waited for, or its output cannot be read.
pub(super) async fn wait(
    mut child: Child,
    signals: &mut Signals,
    output: &OutputArgs,
) -> io::Result<Ended> {
    let mut stdout = child.stdout.take();
    let mut printed = Printed::default();
    let status = loop {
        tokio::select! {
            chunk = next(&mut stdout) => {
                let chunk = chunk?;
                if chunk.is_empty() {
                    stdout = None;
                }
                printed.take(&chunk, output)?;
            }
            status = child.wait() => break status?,
            signal = signals.recv() => pass_on(signal, child.id()),
        }
    };
    if let Some(stdout) = stdout {
        drain(stdout, &mut printed, output).await?;
    }
    Ok(Ended { status, printed })
}

/// Reads what an ended command left in its pipe, and what others add within [`HELD_OPEN`].
async fn drain(
    mut stdout: ChildStdout,
    printed: &mut Printed,
    output: &OutputArgs,
) -> io::Result<()> {
    let deadline = Instant::now() + HELD_OPEN;
    // The command wrote these itself, so they are read even if this process's own reader is slow.
    let mut left = ioctl_fionread(&stdout)?;
    while left > 0 || Instant::now() < deadline {
        let Ok(chunk) = timeout_at(deadline, read(&mut stdout)).await else {
            break;
        };
        let chunk = chunk?;
        if chunk.is_empty() {
            return Ok(());
        }
        printed.take(&chunk, output)?;
        left = left.saturating_sub(chunk.len() as u64);
    }
    printed.is_held_open = true;
    Ok(())
}

/// The next bytes; none at the end, and no answer behind it.
async fn next(stdout: &mut Option<ChildStdout>) -> io::Result<Vec<u8>> {
    match stdout {
        Some(stdout) => read(stdout).await,
        None => std::future::pending().await,
    }
}

/// The next bytes; none at the end.
async fn read(stdout: &mut ChildStdout) -> io::Result<Vec<u8>> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let length = stdout.read(&mut chunk).await?;
    chunk.truncate(length);
    Ok(chunk)
}

/// Writes bytes to standard output as they are.
///
/// # Errors
/// If it cannot be written. A reader that has gone is no error: the command goes on.
pub(super) fn write(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Passes SIGTERM on. Says on standard error if it cannot: the command runs on, and only waiting for it tells what became of it.
fn pass_on(signal: StopSignal, pid: Option<u32>) {
    let pid = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    let Some(pid) = pid.filter(|_| signal == StopSignal::Terminate) else {
        return;
    };
    if let Some(why) = not_passed_on(pid, kill_process(pid, Signal::TERM)) {
        output::say(format_args!("helve: {why}"));
    }
}

/// Why a process did not get SIGTERM, and the next step. `None` if it did, or has ended.
fn not_passed_on(pid: Pid, sent: rustix::io::Result<()>) -> Option<String> {
    match sent {
        Ok(()) | Err(Errno::SRCH) => None,
        Err(error) => {
            let (pid, error) = (pid.as_raw_nonzero(), io::Error::from(error));
            Some(format!(
                "SIGTERM cannot be passed on to the command, process {pid}: {error}: it runs on, and is waited for: \
                 stop it as a user that may"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_is_not_passed_on_is_told_and_ends_nothing() {
        let pid = Pid::from_raw(7).unwrap();
        assert_eq!(not_passed_on(pid, Ok(())), None);
        assert_eq!(not_passed_on(pid, Err(Errno::SRCH)), None);
        let told = not_passed_on(pid, Err(Errno::PERM)).unwrap();
        assert!(
            told.contains("process 7") && told.contains("not permitted"),
            "{told}"
        );
    }
}
