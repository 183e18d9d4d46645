//! How a process of the demo begins: on Linux it asks the kernel to kill it when the demo dies, then
//! becomes the command that the demo wants. The request outlives that step, so that no other
//! command of `helve` knows of the demo. Elsewhere only the demo's own end kills its processes.

use std::{
    convert::Infallible,
    env,
    ffi::{OsStr, OsString},
    os::unix::process::CommandExt as _,
    process::{self, Command},
};

use anyhow::Context as _;

/// The demo's process id, in the environment of what it starts, until that becomes its command.
const VARIABLE: &str = "HELVE_DEMO_PID";

/// Returns what the demo puts into the environment of a process that it starts.
pub(super) fn variable() -> (&'static str, String) {
    (VARIABLE, process::id().to_string())
}

/// Turns this process, which a demo has started, into `helve` with these arguments.
///
/// # Errors
/// If no demo started this process, the demo is dead already, or the kernel refuses.
pub(super) fn run(arguments: &[OsString]) -> anyhow::Result<Infallible> {
    let demo = env::var_os(VARIABLE).context("arguments after `--` are for the demo itself")?;
    die_with(&demo)?;
    let binary = env::current_exe().context("this binary's own path is not known")?;
    let failed = Command::new(&binary)
        .args(arguments)
        .env_remove(VARIABLE)
        .exec();
    Err(failed).with_context(|| format!("cannot run {}", binary.display()))
}

#[cfg(target_os = "linux")]
fn die_with(demo: &OsStr) -> anyhow::Result<()> {
    use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

    // The signal comes when the thread that started this process ends: the demo's first and only one.
    set_parent_process_death_signal(Some(Signal::KILL))
        .context("the kernel does not report the demo's death")?;
    let demo = demo.to_str().and_then(|pid| pid.parse().ok());
    let demo = demo.and_then(Pid::from_raw);
    let parent = getppid();
    anyhow::ensure!(
        parent == demo,
        "{VARIABLE} says that a demo started this process, but {parent:?} did: unset it"
    );
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn die_with(_: &OsStr) -> anyhow::Result<()> {
    Ok(())
}
