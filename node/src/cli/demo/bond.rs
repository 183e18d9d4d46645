//! The bond between the demo and what it starts: on Linux its processes die with it, however it dies. Elsewhere only its own end kills
//! them, in good order or by a panic.

use std::{env, ffi::OsStr, process};

/// The demo's process id, in the environment of what it starts.
const VARIABLE: &str = "HELVE_DEMO_PID";

/// What the demo puts into the environment of a process that it starts.
pub(super) fn variable() -> (&'static str, String) {
    (VARIABLE, process::id().to_string())
}

/// In a process that a demo has started, asks the kernel to kill it as soon as the demo is dead. In any other it does nothing.
///
/// # Errors
/// If the demo is dead already, or the kernel refuses.
pub(in crate::cli) fn keep() -> anyhow::Result<()> {
    env::var_os(VARIABLE).map_or(Ok(()), |demo| keep_to(&demo))
}

#[cfg(target_os = "linux")]
fn keep_to(demo: &OsStr) -> anyhow::Result<()> {
    use anyhow::Context as _;
    use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

    // The signal comes when the thread that started this process ends: the demo's first and only one.
    set_parent_process_death_signal(Some(Signal::KILL))
        .context("the kernel does not tell of the demo's death")?;
    let demo = demo.to_str().and_then(|pid| pid.parse().ok());
    let demo = demo.and_then(Pid::from_raw);
    let parent = getppid();
    anyhow::ensure!(
        parent == demo,
        "{VARIABLE} says that a demo started this, but {parent:?} did: unset it"
    );
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn keep_to(_: &OsStr) -> anyhow::Result<()> {
    Ok(())
}
