//! The demo, and the demo on a cluster that cannot keep its promise: it must say so.

use std::process::Output;

use anyhow::{Context as _, Result};
use helve_tests::cluster::slot;
use serde_json::Value;
use tokio::process::Command;

use super::binary;

async fn demo(planted: Option<&str>) -> Result<Output> {
    let _slot = slot().await?;
    let mut command = Command::new(binary());
    command
        .args(["demo", "--output", "json"])
        .env_remove("HELVE_PLANTED");
    if let Some(bug) = planted {
        command.env("HELVE_PLANTED", bug);
    }
    Ok(command.kill_on_drop(true).output().await?)
}

/// The figures: all that the demo prints on its standard output.
fn figures(output: &Output) -> Result<Value> {
    let said = || String::from_utf8_lossy(&output.stderr).into_owned();
    serde_json::from_slice(&output.stdout).with_context(said)
}

#[tokio::test]
async fn the_demo_loses_and_doubles_nothing() -> Result<()> {
    let output = demo(None).await?;
    let figures = figures(&output)?;
    assert!(output.status.success(), "{}: {figures}", output.status);
    assert_eq!(
        (&figures["lost"], &figures["doubled"]),
        (&0.into(), &0.into()),
        "{figures}"
    );
    assert!(figures["flows"].as_u64() > Some(0), "{figures}");
    Ok(())
}

#[tokio::test]
async fn the_demo_on_a_cluster_without_replay_fails() -> Result<()> {
    let output = demo(Some("replay-off")).await?;
    let figures = figures(&output)?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{figures}\n{said}");
    let wrong = figures["lost"].as_u64().unwrap_or_default()
        + figures["doubled"].as_u64().unwrap_or_default();
    assert!(wrong > 0, "it failed for another reason: {figures}");
    Ok(())
}
