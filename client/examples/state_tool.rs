//! Keeps an agent's state in files, then on a cluster: the same code on both.
//!
//! ```console
//! $ helve dev
//! $ cargo run --package helve-client --example state_tool -- 127.0.0.1:7400
//! ```

use std::{error::Error, io::Write, sync::Arc};

use helve_client::{ClusterBuilder, KeyOptions, StateTool};
use helve_state::{FileTool, StateToolExt as _, ToolOptions, Versions};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let endpoints: Vec<String> = std::env::args().skip(1).collect();
    run(&endpoints, &mut std::io::stdout()).await
}

/// Runs on files and against the cluster at these endpoints, and says what it does.
pub(crate) async fn run(endpoints: &[String], out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let files = FileTool::open(directory.path(), ToolOptions::new())?;
    work("files", Arc::new(files), out).await?;

    let client = ClusterBuilder::new(endpoints).build()?;
    work(
        "cluster",
        Arc::new(client.keys(KeyOptions::new("ada"))),
        out,
    )
    .await
}

/// What an agent does, whatever keeps its keys.
async fn work(
    name: &str,
    tool: Arc<dyn StateTool>,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    tool.delete("examples/steps").await?;
    let next = |steps: Option<Value>| json!(steps.and_then(|n| n.as_u64()).unwrap_or(0) + 1);
    for _ in 0..3 {
        tool.update("examples/steps", next).await?;
    }
    let steps = tool.retrieve("examples/steps").await?.unwrap_or_default();
    writeln!(out, "{name}: {steps} steps")?;

    let versions = Versions::new(Arc::clone(&tool), "example-agent")?;
    versions.save(&json!({"plan": "first"})).await?;
    versions.save(&json!({"plan": "second"})).await?;
    let latest = versions.latest().await?.ok_or("no version was kept")?;
    writeln!(out, "{name}: the latest version is {}", latest.record.value)?;

    let promises = tool.promises();
    writeln!(
        out,
        "{name}: durable {}, exactly once {}",
        promises.durable, promises.exactly_once
    )?;
    Ok(())
}
