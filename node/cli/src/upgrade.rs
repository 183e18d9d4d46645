//! `helve upgrade`: the last step of a rolling upgrade, by an operator's command.

mod args;
mod report;

use std::time::Duration;

use anyhow::anyhow;
use helve_client::v1::Unit;
use helve_command::{
    cluster::{ClusterArgs, ending_of_change, request},
    ending::{Cause, Caused, Ending, Outcome, said},
    output::{self, OutputArgs},
};
use helve_proto::v1::{
    SetUpgradeHoldRequest, cluster_service_client::ClusterServiceClient,
    set_upgrade_hold_request::Target,
};
use tokio::time::{Instant, sleep};

pub(crate) use self::args::Command;
use self::{
    args::{FinishArgs, HoldArgs},
    report::{Node, Report, text},
};
use super::status::members::members;

/// Between two looks whether the level has risen.
const LOOK_PAUSE: Duration = Duration::from_millis(200);

/// Runs a command.
///
/// # Errors
/// See [`Ending`].
pub(crate) async fn run(command: &Command) -> Outcome {
    match command {
        Command::Status(args) => {
            let report = Report::new(&members(&args.cluster).await?);
            args.output.print(&report, text)
        }
        Command::Hold(args) => hold(args).await,
        Command::Finish(args) => finish(args).await,
    }
}

async fn hold(args: &HoldArgs) -> Outcome {
    let before = Report::new(&members(&args.cluster).await?);
    if before.nodes.iter().all(|node| node.hold_revision.is_none()) {
        return Err(Ending::NotNow(anyhow!(
            "no member's version can hold the feature level: run `helve upgrade hold` again once the first node runs the new version; \
             until the last one does, the level cannot rise"
        )));
    }
    let asked = before.nodes.iter().filter(|node| node.can_be_asked());
    let mut failed = Vec::new();
    for node in asked {
        let hold = set(&args.cluster, node, Target::Hold(Unit {})).await;
        failed.extend(hold.err().map(|ending| (node.id, ending)));
    }
    let after = Report::new(&members(&args.cluster).await?);
    let silent = after.nodes.iter().filter(|node| node.silent.is_some());
    let mut without: Vec<String> = silent
        .map(|node| format!("node {} does not answer", node.id))
        .collect();
    if !after.held {
        let first = failed.into_iter().next().map(|(_, ending)| ending);
        return Err(first.unwrap_or_else(|| {
            Ending::NotNow(anyhow!(
                "the hold was ended in between: look at `helve upgrade status`, and decide again"
            ))
        }));
    }
    let refusals = failed.iter();
    without.extend(refusals.map(|(id, ending)| format!("node {id}: {}", said(&**ending.error()))));
    args.output.print(&after, text)?;
    if without.is_empty() {
        return Ok(());
    }
    let message = format!(
        "the feature level is held, but not by every member ({}): run `helve upgrade hold` again",
        without.join("; ")
    );
    Err(Ending::Absent(Caused::new(Cause::Partial, message).into()))
}

async fn finish(args: &FinishArgs) -> Outcome {
    let end = Instant::now() + args.cluster.timeout;
    let before = Report::new(&members(&args.cluster).await?);
    let obstacles = before.obstacles();
    if !obstacles.is_empty() {
        return Err(Ending::NotNow(anyhow!(
            "the feature level stays {}: {}; then run `helve upgrade finish` again",
            before.feature_level,
            obstacles.join("; ")
        )));
    }
    for node in before.nodes.iter().filter(|node| node.held_level.is_some()) {
        progress(&args.output, &format!("node {}: ending the hold", node.id));
        set(&args.cluster, node, Target::Release(Unit {})).await?;
    }
    progress(
        &args.output,
        &format!("waiting for feature level {}", before.newest_level),
    );
    loop {
        // A node that gives no answer now may give one a moment later.
        if let Ok(members) = members(&args.cluster).await {
            let report = Report::new(&members);
            let is_there = |node: &Node| node.applied_level >= before.newest_level;
            if !report.held && report.nodes.iter().all(is_there) {
                return args.output.print(&report, text);
            }
        }
        if Instant::now() + LOOK_PAUSE >= end {
            return Err(Ending::Unknown(anyhow!(
                "the hold is ended on every member, and the feature level was not seen to reach {} on every node within --timeout: the \
                 leader raises it; see `helve upgrade status`",
                before.newest_level
            )));
        }
        sleep(LOOK_PAUSE).await;
    }
}

/// Says a step to people.
fn progress(output: &OutputArgs, step: &str) {
    if !output.is_json() {
        output::say(format_args!("{step}"));
    }
}

/// Has one member hold the level, or end that, if nothing was changed since it was looked at.
async fn set(cluster: &ClusterArgs, node: &Node, target: Target) -> Outcome {
    let channel = cluster.channel(&node.client_address);
    let mut client = ClusterServiceClient::new(channel.map_err(Ending::Refused)?);
    let message = SetUpgradeHoldRequest {
        target: Some(target),
        if_revision: node.hold_revision,
    };
    let set = client
        .set_upgrade_hold(request(message, cluster.timeout))
        .await;
    set.map_err(|status| ending_of_change(&status))?;
    Ok(())
}
