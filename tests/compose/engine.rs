//! The Docker engine and the compose commands that are here, and how they are run.

use std::{
    env,
    process::{Output, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use tokio::{process::Command, time::timeout};

/// How long a command may take. Far beyond what is ever needed: it ends a command that hangs, and asserts no speed.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(180);

/// A compose command.
#[derive(Debug, Clone)]
pub(crate) struct Compose {
    /// The program, and what comes before all its arguments.
    words: &'static [&'static str],
    version: String,
}

/// An engine that answers.
#[derive(Debug)]
pub(crate) struct Engine {
    /// At least one.
    pub(crate) composes: Vec<Compose>,
}

impl Engine {
    /// Looks for an engine on this machine, and for compose.
    ///
    /// # Errors
    /// What is missing.
    pub(crate) async fn find() -> Result<Self> {
        ensure!(
            cfg!(target_os = "linux"),
            "containers are Linux, and the binary that was built here is not"
        );
        let remote = env::var("DOCKER_HOST").is_ok_and(|host| !host.starts_with("unix://"));
        ensure!(!remote, "DOCKER_HOST names an engine that may be elsewhere");
        docker(&["version", "--format", "{{.Server.Version}}"])
            .await
            .context("no Docker engine answers")?;
        let mut composes = Vec::new();
        for words in [&["docker-compose"] as &[_], &["docker", "compose"]] {
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).args(["version", "--short"]);
            let Ok(version) = printed(command).await else {
                continue;
            };
            let version = version.trim_start_matches('v').to_owned();
            // The standalone command may be the same as the plug-in.
            if !composes
                .iter()
                .any(|known: &Compose| known.version == version)
            {
                composes.push(Compose { words, version });
            }
        }
        ensure!(
            !composes.is_empty(),
            "neither `docker compose` nor `docker-compose` is installed"
        );
        Ok(Self { composes })
    }

    /// Whether compose v2, or a later one, is among the commands.
    pub(crate) fn has_v2(&self) -> bool {
        self.composes.iter().any(|compose| !compose.is_v1())
    }
}

impl Compose {
    /// The command, without arguments.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(self.words[0]);
        command.args(&self.words[1..]);
        command
    }

    /// As it is typed, with its version.
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.words.join(" "), self.version)
    }

    fn is_v1(&self) -> bool {
        self.version.starts_with("1.")
    }
}

/// Runs `docker`, and returns what it printed.
///
/// # Errors
/// If it fails: with what it said.
pub(crate) async fn docker(arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("docker");
    command.args(arguments);
    printed(command).await
}

/// Runs a command, and returns what it printed, without white space at the ends.
///
/// # Errors
/// If it fails, with what it said, or does not end.
pub(crate) async fn printed(command: Command) -> Result<String> {
    let what = format!("{:?}", command.as_std());
    let output = run(command).await?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{what}: {}: {}", output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs a command that may fail.
///
/// # Errors
/// If it cannot be started, or does not end.
pub(crate) async fn run(mut command: Command) -> Result<Output> {
    let what = format!("{:?}", command.as_std());
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(COMMAND_TIMEOUT, command.output()).await;
    let output = output.with_context(|| format!("{what} did not end in {COMMAND_TIMEOUT:?}"))?;
    output.with_context(|| format!("{what} could not be started"))
}
