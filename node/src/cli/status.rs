//! `helve status`: what every node is doing, and what to type when something is wrong.

mod advice;
mod lags;
mod report;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::anyhow;
use futures::future::join_all;
use helve_proto::v1::{StatusReply, StatusRequest, cluster_service_client::ClusterServiceClient};

use self::report::Report;
use super::{
    cluster::{ClusterArgs, request},
    ending::{Ending, Outcome},
    output::OutputArgs,
};

/// Show what every node is doing: a line a node, and the next command to type when something is wrong
///
/// Asks every endpoint, and then every member that an endpoint knows and that was not asked yet, so one living endpoint shows the whole
/// cluster. Each node answers for itself, without a quorum. Nodes that do not answer get a line too.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve status
  helve status --endpoints 127.0.0.1:7400,127.0.0.1:7410,127.0.0.1:7420
  helve status --output json | jq '.nodes[] | select(.role == \"leader\").id'

Columns: ID is the node's id for life, SEAT its place in --peers; TERM, LOG (last entry), APPLIED; LAG is the number of entries that it
lacks, as the leader knows; SIZE is bytes on disk; LEVEL is the newest feature level that its version supports. The cluster's own level
stands below the table: the leader raises it once every node supports more. SEALED says whether values are sealed at rest, as the node
has applied it (yes, no, or under way while a change is carried out); KEY is the newest data key that it holds.

Exit status: 0 a leader is known and a majority answers, 2 bad usage, 3 no quorum answers.")]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// What one node said, or why it did not.
#[derive(Debug)]
struct Answer {
    endpoint: String,
    reply: Result<StatusReply, String>,
}

/// Runs the command.
///
/// # Errors
/// See [`Ending`].
pub(crate) async fn run(args: &Args) -> Outcome {
    let report = Report::new(&answers(&args.cluster).await);
    args.output.print(&report, report::text)?;
    if report.quorum {
        return Ok(());
    }
    Err(Ending::Unanswered(anyhow!(
        "no leader with a majority behind it answers"
    )))
}

/// Where every member serves clients, by id.
///
/// # Errors
/// If no endpoint answers.
pub(crate) async fn member_addresses(
    cluster: &ClusterArgs,
) -> Result<BTreeMap<u64, String>, Ending> {
    let report = Report::new(&answers(cluster).await);
    let members = report.nodes.into_iter().filter(|node| node.id != 0);
    let addresses: BTreeMap<_, _> = members.map(|node| (node.id, node.client_address)).collect();
    if addresses.is_empty() {
        let silent = anyhow!("no endpoint answers: check --endpoints, or look at `helve status`");
        return Err(Ending::Unanswered(silent));
    }
    Ok(addresses)
}

/// Where the leader serves clients.
///
/// # Errors
/// If no endpoint knows a leader.
pub(crate) async fn leader_address(cluster: &ClusterArgs) -> Result<String, Ending> {
    let answers = answers(cluster).await;
    let report = Report::new(&answers);
    let leader = report
        .nodes
        .iter()
        .find(|node| node.id == report.leader_id && node.id != 0);
    let address = leader
        .map(|node| node.client_address.clone())
        .filter(|address| !address.is_empty());
    address.ok_or_else(|| {
        Ending::Unanswered(anyhow!(
            "no endpoint knows a leader: look at `helve status`"
        ))
    })
}

/// What every node says that answers, of the endpoints and of the members that they name.
pub(crate) async fn replies(cluster: &ClusterArgs) -> Vec<StatusReply> {
    let answers = answers(cluster).await;
    answers
        .into_iter()
        .filter_map(|answer| answer.reply.ok())
        .collect()
}

/// Asks the endpoints, then the members that they name and that were not asked.
async fn answers(cluster: &ClusterArgs) -> Vec<Answer> {
    let mut answers = ask_all(cluster, cluster.endpoints.clone()).await;
    let replies = || {
        answers
            .iter()
            .filter_map(|answer| answer.reply.as_ref().ok())
    };
    let heard: BTreeSet<u64> = replies()
        .filter_map(|reply| reply.node.as_ref())
        .map(|node| node.id)
        .collect();
    let unheard: BTreeSet<String> = replies()
        .flat_map(|reply| &reply.members)
        .filter(|member| !heard.contains(&member.id) && !member.client_address.is_empty())
        .map(|member| member.client_address.clone())
        .filter(|address| !cluster.endpoints.contains(address))
        .collect();
    answers.extend(ask_all(cluster, unheard).await);
    answers
}

async fn ask_all(
    cluster: &ClusterArgs,
    endpoints: impl IntoIterator<Item = String>,
) -> Vec<Answer> {
    join_all(endpoints.into_iter().map(|endpoint| async {
        let reply = ask(cluster, &endpoint).await;
        Answer { endpoint, reply }
    }))
    .await
}

async fn ask(cluster: &ClusterArgs, endpoint: &str) -> Result<StatusReply, String> {
    let channel = cluster
        .channel(endpoint)
        .map_err(|error| format!("{error:#}"))?;
    let mut client = ClusterServiceClient::new(channel);
    let reply = tokio::time::timeout(
        cluster.timeout,
        client.status(request(StatusRequest {}, cluster.timeout)),
    )
    .await;
    match reply {
        Ok(Ok(reply)) => Ok(reply.into_inner()),
        Ok(Err(status)) => Err(reason(&status)),
        Err(_) => Err("no answer within --timeout".into()),
    }
}

/// What went wrong, down to the cause that an operator knows ("connection refused").
pub(crate) fn reason(status: &tonic::Status) -> String {
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(status);
    let mut text = status.message().to_owned();
    while let Some(error) = cause {
        text = error.to_string();
        cause = error.source();
    }
    text
}
