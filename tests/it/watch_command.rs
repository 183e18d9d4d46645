//! `helve watch` over an outage that is longer than its `--timeout`.

use std::{
    fs,
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result};
use helve_client::{ClusterBuilder, KeyOptions, StateTool as _, Ttl};
use helve_tests::wait::{Look, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::NamedTempFile;

use super::{binary, nodes};

/// Shorter than any outage here.
const TIMEOUT: &str = "2s";

/// A watch under way, with what it prints and says.
struct Watching {
    child: Child,
    printed: NamedTempFile,
    said: NamedTempFile,
}

impl Watching {
    fn start(endpoints: &str) -> Result<Self> {
        let (printed, said) = (NamedTempFile::new()?, NamedTempFile::new()?);
        let child = Command::new(binary())
            .args([
                "watch",
                "keys",
                "--endpoints",
                endpoints,
                "--timeout",
                TIMEOUT,
            ])
            .stdin(Stdio::null())
            .stdout(printed.reopen()?)
            .stderr(said.reopen()?)
            .spawn()?;
        Ok(Self {
            child,
            printed,
            said,
        })
    }

    /// Waits until a text is in a file of the watch, which must run on meanwhile.
    async fn has(&mut self, what: &str, text: &str) -> Result<()> {
        until(what, async || {
            let files = [&self.printed, &self.said].map(|file| fs::read_to_string(file.path()));
            let all = files.map(Result::unwrap_or_default).concat();
            match self.child.try_wait() {
                Ok(None) if all.contains(text) => Look::Done(Ok(())),
                Ok(None) => Look::NotYet(all),
                ended => Look::Done(Err(anyhow::anyhow!("the watch ended, {ended:?}: {all}"))),
            }
        })
        .await?
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_command_outlives_an_outage_beyond_its_timeout() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    cluster.all_ready().await?;
    let endpoints = cluster.endpoints().join(",");
    let keys = ClusterBuilder::new(cluster.endpoints()).build()?;
    let keys = keys.keys(KeyOptions::shared());
    let mut watching = Watching::start(&endpoints)?;
    // What is written before it watches is not printed.
    until("the command watches", async || {
        let stored = keys.store_record("before", &json!(1), Ttl::Never).await;
        let page = fs::read_to_string(watching.printed.path()).unwrap_or_default();
        match stored {
            Ok(_) if page.contains("before") => Look::Done(()),
            stored => Look::NotYet(format!("{stored:?}")),
        }
    })
    .await?;
    // The node that is left has no majority, and remembers the changes.
    for seat in [1, 2] {
        cluster.kill(seat)?;
    }
    watching
        .has("the outage to be reported", "the watch goes on")
        .await?;
    for seat in [1, 2] {
        cluster.start(seat)?;
    }
    cluster.all_ready().await?;
    keys.store_record("after", &json!(2), Ttl::Never).await?;
    watching.has("the change after the outage", "after").await?;
    let pid = i32::try_from(watching.child.id())?;
    kill_process(Pid::from_raw(pid).context("process 0")?, Signal::TERM)?;
    let status = until("the watch to stop", async || {
        match watching.child.try_wait() {
            Ok(None) => Look::NotYet("it runs".to_owned()),
            ended => Look::Done(ended),
        }
    })
    .await??;
    assert_eq!(status.and_then(|status| status.code()), Some(0));
    Ok(())
}
