//! Every command that may write, pointed at two clusters: none writes to the one that answers first.

use std::{process::Output, time::Duration};

use anyhow::{Context as _, Result};
use helve_tests::{
    process::Start,
    wait::{Look, until},
};
use tokio::{process::Command, time::timeout};

use super::samples::{self, Sample};
use crate::{binary, nodes};

/// Commands that only read, or that do the same at each endpoint.
const READERS: [&str; 16] = [
    "data-key status",
    "handle count",
    "handle get",
    "handle list",
    "healthcheck",
    "snapshot",
    "state batch-retrieve",
    "state exists",
    "state list",
    "state retrieve",
    "status",
    "tenant list",
    "tenant status",
    "token list",
    "watch",
    "digest",
];

/// A server that is not refused runs for ever.
const LIMIT: Duration = Duration::from_secs(60);

async fn run(sample: &Sample, endpoints: &str) -> Result<Output> {
    let mut arguments = sample.arguments.clone();
    if sample.name == "cart" {
        arguments.extend(["--listen", "127.0.0.1:0"].map(str::to_owned));
    }
    arguments.extend(["--endpoints", endpoints].map(str::to_owned));
    arguments.extend(sample.trailing.iter().cloned());
    let start = Start {
        binary: binary(),
        arguments: arguments.into_iter().map(Into::into).collect(),
        environment: Vec::new(),
    };
    let mut command = Command::from(start.command());
    let ended = timeout(LIMIT, command.kill_on_drop(true).output()).await;
    Ok(ended.with_context(|| format!("helve {} goes on", sample.name))??)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_that_writes_refuses_two_clusters() -> Result<()> {
    // Two tests that each hold one place and wait for another would wait for ever.
    let one = nodes(1).start().await?;
    let other = nodes(1).beside_others().start().await?;
    let mut ids = Vec::new();
    for cluster in [&one, &other] {
        let id = until("the cluster to have a name", async || {
            match cluster.caller(1).status().await {
                Ok(status) if !status.cluster_id.is_empty() => Look::Done(status.cluster_id),
                status => Look::NotYet(format!("{status:?}")),
            }
        });
        ids.push(id.await?);
    }
    // A node that does not answer hinders nothing, and hides nothing.
    let silent = "127.0.0.1:9".to_owned();
    let all = [one.endpoints(), vec![silent], other.endpoints()].concat();
    let directory = tempfile::tempdir()?;
    let samples = samples::all(directory.path())?.into_iter();
    let may_write = |sample: &Sample| {
        let group = sample.name.split(' ').next().unwrap_or_default();
        sample.calls_a_cluster
            && ![sample.name.as_str(), group]
                .iter()
                .any(|name| READERS.contains(name))
    };
    let mut tried = 0;
    for sample in samples.filter(may_write) {
        let output = run(&sample, &all.join(",")).await?;
        let said = String::from_utf8_lossy(&output.stderr);
        let name = &sample.name;
        assert_eq!(output.status.code(), Some(2), "{name}: {said}");
        assert!(said.contains("of several clusters"), "{name}: {said}");
        let (first, second) = (one.endpoints(), other.endpoints());
        for named in first.iter().chain(&second).chain(&ids) {
            assert!(said.contains(named.as_str()), "{name}: {said}");
        }
        tried += 1;
    }
    assert!(tried >= 20, "{tried} commands were tried");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn command_that_writes_ignores_endpoints_without_an_answer() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let all = [vec!["127.0.0.1:9".to_owned()], cluster.endpoints()].concat();
    let directory = tempfile::tempdir()?;
    let mut samples = samples::all(directory.path())?.into_iter();
    let mint = samples.find(|sample| sample.name == "handle mint");
    let output = run(&mint.context("handle mint")?, &all.join(",")).await?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    Ok(())
}
