//! `helve backup --follow` beside a cluster, and whether its archive brings back what nodes hold.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
};

use anyhow::{Context as _, Result, anyhow, ensure};
use data_encoding::HEXLOWER;
use helve_node::backup::{PlainHttp, place::Place};
use helve_proto::v1::StateDigestRequest;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::NamedTempFile;

use crate::{
    cluster::Cluster,
    promise,
    wait::{Look, until},
};

/// How often rows are compared at most where a new backup leaves a gap. The command keeps nothing
/// from being purged, so nodes may be ahead of it.
const COMPARISONS_MAX: usize = 5;

/// A `helve backup --follow` under way. Dropping it kills it.
#[derive(Debug)]
pub struct Following {
    binary: PathBuf,
    to: PathBuf,
    environment: Vec<(String, String)>,
    child: Child,
    printed: NamedTempFile,
    said: NamedTempFile,
}

impl Following {
    /// Starts it, with short segments.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn start(binary: &Path, endpoints: &str, to: &Path, more: &[&str]) -> Result<Self> {
        Self::start_with(&[], binary, endpoints, to, more)
    }

    /// Starts it with these variables in its environment, such as where a bucket is.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn start_with(
        environment: &[(&str, &str)],
        binary: &Path,
        endpoints: &str,
        to: &Path,
        more: &[&str],
    ) -> Result<Self> {
        let (printed, said) = (NamedTempFile::new()?, NamedTempFile::new()?);
        let child = Command::new(binary)
            .arg("backup")
            .arg(to)
            .args(["--follow", "--endpoints", endpoints])
            .args(["--segment-every", "100ms", "--output", "json"])
            .args(more)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(printed.reopen()?)
            .stderr(said.reopen()?)
            .spawn()?;
        Ok(Self {
            binary: binary.to_owned(),
            to: to.to_owned(),
            environment: environment
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            child,
            printed,
            said,
        })
    }

    /// Starts it, and waits for its backup: what is in that is not archived.
    ///
    /// # Errors
    ///
    /// If it ends, or no backup comes in time.
    pub async fn begin(binary: &Path, endpoints: &str, to: &Path) -> Result<Self> {
        let mut following = Self::start(binary, endpoints, to, &[])?;
        following.archives(0).await?;
        Ok(following)
    }

    /// What it has printed and said.
    #[must_use]
    pub fn pages(&self) -> String {
        let files = [&self.printed, &self.said].map(|file| fs::read_to_string(file.path()));
        files.map(Result::unwrap_or_default).concat()
    }

    /// What `helve backup list` says of the place.
    ///
    /// # Errors
    ///
    /// If it fails.
    pub async fn listed(&self) -> Result<Value> {
        let output = self.helve(&["backup", "list", text(&self.to)?]).await?;
        ensure!(output.status.success(), "{output:?}");
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// The last entry of the archive; 0 without one.
    ///
    /// # Errors
    ///
    /// If the place cannot be listed.
    pub async fn archived(&self) -> Result<u64> {
        let listed = self.listed().await?;
        Ok(greatest(&listed["log"], "last"))
    }

    /// Waits until the archive, or a backup, has this revision. The command must run on meanwhile.
    ///
    /// # Errors
    ///
    /// If it ends, or does not come so far in time.
    pub async fn archives(&mut self, revision: u64) -> Result<()> {
        until("the archive to reach a revision", async || {
            let ended = self.child.try_wait();
            if !matches!(ended, Ok(None)) {
                let why = anyhow!("the command ended, {ended:?}: {}", self.pages());
                return Look::Done(Err(why));
            }
            // A new backup may hold it, and no entry follow.
            match self.listed().await.map(|listed| newest(&listed)) {
                Ok(last) if last >= revision => Look::Done(Ok(())),
                Ok(last) => Look::NotYet(format!("it has {last} of {revision}: {}", self.pages())),
                Err(error) => Look::NotYet(error.to_string()),
            }
        })
        .await?
    }

    /// The term of the last entry of the archive, or of the backup that it begins behind. A node
    /// must run: it says which cluster it is of.
    ///
    /// # Errors
    ///
    /// If there is no backup of the cluster, or the place cannot be read.
    pub async fn term(&self, cluster: &Cluster) -> Result<u64> {
        let seat = *cluster.running().first().context("no node runs")?;
        let cluster_id = cluster.status(seat).await?.cluster_id;
        let place = Place::open(&self.to, PlainHttp::Refused)?;
        let tip = place.tip(&cluster_id).await?;
        Ok(tip.context("there is no backup of it")?.last.term)
    }

    /// Compares what a node holds with what a restore to its last entry brings back. Nothing may write
    /// meanwhile but the cluster itself.
    ///
    /// # Errors
    ///
    /// [`promise::Broken`] if they differ; else whatever kept them from being compared.
    pub async fn brings_back(&mut self, cluster: &Cluster) -> Result<()> {
        let seat = *cluster.running().first().context("no node runs")?;
        let caller = cluster.caller(seat);
        let mut comparisons = 1;
        let (digest, output) = loop {
            let digest = until("a digest", async || {
                Look::of(caller.state_digest(StateDigestRequest {}).await)
            })
            .await?;
            let revision = digest.applied_index;
            self.archives(revision).await?;
            let output = self.restored(revision).await?;
            let is_final = output.status.success() || comparisons == COMPARISONS_MAX;
            if is_final || !is_passed_over(&self.listed().await?, revision) {
                break (digest, output);
            }
            comparisons += 1;
        };
        ensure!(output.status.success(), "{output:?}");
        let restored: Value = serde_json::from_slice(&output.stdout)?;
        promise!(
            restored["digest"] == HEXLOWER.encode(&digest.digest),
            "node {seat} and the archive hold different rows at the same entry: {digest:?}, {restored}"
        );
        Ok(())
    }

    /// Restores this revision to a directory of its own.
    async fn restored(&self, revision: u64) -> Result<Output> {
        let directory = tempfile::tempdir()?;
        let data = directory.path().join("data");
        let (from, to) = (text(&self.to)?, text(&data)?);
        let revision = revision.to_string();
        let to_revision = ["--to-revision", revision.as_str()];
        let restore = [&["restore", from, "--data-dir", to][..], &to_revision];
        self.helve(&restore.concat()).await
    }

    /// Sends a signal, and waits for the end.
    ///
    /// # Errors
    ///
    /// If it does not end.
    pub async fn end(&mut self, signal: Signal) -> Result<ExitStatus> {
        if signal != Signal::KILL {
            self.catches(signal).await?;
        }
        let pid = i32::try_from(self.child.id())?;
        kill_process(Pid::from_raw(pid).context("process 0")?, signal)?;
        self.ended().await
    }

    /// Waits until it catches a signal, or has ended: one that comes earlier ends it by itself.
    async fn catches(&mut self, signal: Signal) -> Result<()> {
        let path = format!("/proc/{}/status", self.child.id());
        until("the command to listen for signals", async || {
            let status = fs::read_to_string(&path).unwrap_or_default();
            let caught = status
                .lines()
                .find_map(|line| line.strip_prefix("SigCgt:"))
                .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
            let is_caught = caught.is_some_and(|mask| mask >> (signal.as_raw() - 1) & 1 == 1);
            match is_caught || self.has_ended() {
                true => Look::Done(()),
                false => Look::NotYet(format!("it catches {caught:x?}")),
            }
        })
        .await
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for the end.
    ///
    /// # Errors
    ///
    /// If it does not end.
    pub async fn ended(&mut self) -> Result<ExitStatus> {
        until("the command to end", async || match self.child.try_wait() {
            Ok(None) => Look::NotYet("it runs".to_owned()),
            ended => Look::Done(ended),
        })
        .await??
        .context("it has ended")
    }

    async fn helve(&self, arguments: &[&str]) -> Result<Output> {
        // As new as the newest node of a run that upgrades them.
        let newest = (helve_machine::limits::FEATURE_LEVEL + 1).to_string();
        let command = tokio::process::Command::new(&self.binary)
            .env("HELVE_FEATURE_LEVEL", newest)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .args(arguments)
            .args(["--output", "json"])
            .kill_on_drop(true)
            .output();
        Ok(command.await?)
    }
}

/// The newest revision that a listed archive or backup has; 0 without one.
fn newest(listed: &Value) -> u64 {
    greatest(&listed["log"], "last").max(greatest(&listed["backups"], "revision"))
}

/// Whether this revision may be in a gap of the archive: a backup is newer, and no point in time
/// between it and the entries before it can be restored.
fn is_passed_over(listed: &Value, revision: u64) -> bool {
    greatest(&listed["backups"], "revision") > revision
}

fn greatest(all: &Value, field: &str) -> u64 {
    let all = all.as_array().into_iter().flatten();
    let all = all.filter_map(|it| it[field].as_u64());
    all.max().unwrap_or_default()
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path of a test is UTF-8")
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn revision_before_a_newer_backup_may_be_in_a_gap() {
        let listed = json!({
            "backups": [{"revision": 7}, {"revision": 20}],
            "log": [{"last": 12}, {"last": null}],
        });
        assert_eq!(newest(&listed), 20);
        assert!(is_passed_over(&listed, 19));
        assert!(!is_passed_over(&listed, 20));
        assert!(!is_passed_over(&json!({}), 0));
    }
}
