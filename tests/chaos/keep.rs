//! What is kept of a run that failed: its plan, its findings, its history, and the logs of its nodes.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;
use helve_tests::{
    cluster::Cluster,
    history::{Event, History},
};
use serde_json::{Value, json};

use super::{outcome::Ran, plan::Plan};

/// Keeps it in a directory of its own, and answers which. A run that cannot be kept has still failed, so why not is only said.
pub(crate) fn keep(
    plan: &Plan,
    ran: &Ran,
    history: &History,
    cluster: &Cluster,
) -> Option<PathBuf> {
    let planted = plan.plant.as_deref().unwrap_or("unplanted");
    let name = format!("{}-{}-{planted}", plan.seed, plan.faults.join("+"));
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("chaos")
        .join(name);
    match write(&directory, plan, ran, history, cluster) {
        Ok(()) => Some(directory),
        Err(error) => {
            eprintln!("{} could not be kept: {error:#}", directory.display());
            None
        }
    }
}

fn write(
    directory: &Path,
    plan: &Plan,
    ran: &Ran,
    history: &History,
    cluster: &Cluster,
) -> Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    fs::create_dir_all(directory)?;
    let report = format!(
        "{plan}\n\nrepeat it with: {}\n\n{}\n",
        plan.command(),
        ran.reasons.join("\n")
    );
    fs::write(directory.join("report.txt"), report)?;
    let run = serde_json::to_string_pretty(ran)?;
    fs::write(directory.join("run.json"), run)?;
    let events: Vec<Value> = history.events().iter().map(event).collect();
    let events = serde_json::to_string_pretty(&events)?;
    fs::write(directory.join("history.json"), events)?;
    for seat in cluster.seats() {
        let log = cluster.log_file(seat);
        fs::copy(log, directory.join(format!("node-{seat}.log")))?;
    }
    Ok(())
}

fn event(event: &Event) -> Value {
    json!({
        "number": event.number,
        "client": event.client,
        "endpoints": &*event.endpoints,
        "invoked_ns": event.invoked_ns,
        "returned_ns": event.returned_ns,
        "request": format!("{:?}", event.request),
        "outcome": format!("{:?}", event.outcome),
    })
}
