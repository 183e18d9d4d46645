//! `helve status`: what every node is doing, and what to type when something is wrong.

pub(crate) mod members;
mod page;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use helve_command::{
    cluster::{ClusterArgs, of_one_cluster, request},
    ending::{Cause, Caused, Ending, Outcome},
    output::OutputArgs,
};
use helve_node::cluster_report::{self, Remedy, Report, Silence};
use helve_proto::v1::{StatusReply, StatusRequest, cluster_service_client::ClusterServiceClient};

use super::diagnosis::{self, Finding};

/// What one node said to `helve status`, or why it did not.
type Answer = cluster_report::Answer<Finding>;

/// Show the state of every node, a line each, and the next command to type when something is wrong
///
/// Asks every endpoint, and then every other member that an endpoint knows. So one working endpoint
/// shows the whole cluster. Each node answers for itself, without a quorum. Nodes that do not
/// answer get a line too.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve status
  helve status --endpoints 127.0.0.1:7400,127.0.0.1:7410,127.0.0.1:7420
  helve status --output json | jq '.nodes[] | select(.role == \"leader\").id'
  helve status --exit-code && echo all nodes are ready

Columns: ID is the node's id for life, SEAT its place in --peers; TERM, LOG (last entry), APPLIED; LAG is the number of committed
entries that it has not applied; SIZE is bytes on disk. While versions differ, LEVEL is the newest feature level that each supports. If values
are sealed at rest, SEALED says so, as the node has applied it (yes, no, or partly while a change is carried out), and KEY is the
beginning of the newest data key that it holds. Below the table are the nodes' warnings, and why a node does not answer.

Exit status: 0 a leader is known, and a majority answers and takes part; 1 with --exit-code, not every node is ready; 2 no endpoint
can be asked with these flags, such as without a token or a CA, or with --exit-code, they are of several clusters; 3 no majority
answers; others as `helve --help` lists them.")]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,

    /// For scripts: exit with status 1 unless every node is ready
    #[arg(long, env = "HELVE_STATUS_EXIT_CODE")]
    exit_code: bool,
}

/// Runs the command.
///
/// # Errors
/// See [`Ending`].
pub(crate) async fn run(args: &Args) -> Outcome {
    let answers = answers(&args.cluster).await;
    let report = Report::new(&answers);
    args.output.print(&report, page::text)?;
    if args.exit_code {
        of_one_cluster(&answers)?;
    }
    if report.cause.is_none() {
        let unready = report.unready();
        if unready.is_empty() || !args.exit_code {
            return Ok(());
        }
        let message = format!("not every node is ready: {}", unready.join(", "));
        return Err(Ending::Absent(Caused::new(Cause::NotReady, message).into()));
    }
    Err(unanswered(&answers).unwrap_or_else(|| {
        let message = "no leader with a majority behind it answers";
        Caused::new(Cause::NoQuorum, message).into()
    }))
}

/// Where every member serves clients, by id.
///
/// # Errors
/// If no endpoint answers, or they are of several clusters.
pub(crate) async fn member_addresses(
    cluster: &ClusterArgs,
) -> Result<BTreeMap<u64, String>, Ending> {
    let answers = answers(cluster).await;
    if let Some(ending) = unanswered(&answers) {
        return Err(ending);
    }
    of_one_cluster(&answers)?;
    let members = Report::new(&answers).nodes.into_iter();
    let members = members.filter(|node| node.id != 0);
    let addresses: BTreeMap<_, _> = members.map(|node| (node.id, node.client_address)).collect();
    if addresses.is_empty() {
        let silent = "no endpoint is a member of a cluster: run `helve status`";
        return Err(Caused::new(Cause::NoQuorum, silent).into());
    }
    Ok(addresses)
}

/// Where the leader serves clients.
///
/// # Errors
/// If no endpoint knows a leader, or they are of several clusters.
pub(crate) async fn leader_address(cluster: &ClusterArgs) -> Result<String, Ending> {
    let answers = answers(cluster).await;
    if let Some(ending) = unanswered(&answers) {
        return Err(ending);
    }
    of_one_cluster(&answers)?;
    let report = Report::new(&answers);
    let leader = report
        .nodes
        .iter()
        .find(|node| node.id == report.leader_id && node.id != 0);
    let address = leader
        .map(|node| node.client_address.clone())
        .filter(|address| !address.is_empty());
    address.ok_or_else(|| {
        let message = "no endpoint knows a leader: run `helve status`";
        Caused::new(Cause::NoQuorum, message).into()
    })
}

/// Why no node answers at all; `None` if one does.
fn unanswered(answers: &[Answer]) -> Option<Ending> {
    let findings = answers.iter().map(|answer| answer.reply.as_ref().map(drop));
    let findings = findings.map(|reply| reply.map_err(Clone::clone)).collect();
    Some(diagnosis::worst(findings)?.into())
}

/// What every node says that answers, of the endpoints and of the members that they name.
///
/// # Errors
/// If none does, or they are of several clusters.
pub(crate) async fn replies(cluster: &ClusterArgs) -> Result<Vec<StatusReply>, Ending> {
    let answers = answers(cluster).await;
    if let Some(ending) = unanswered(&answers) {
        return Err(ending);
    }
    of_one_cluster(&answers)?;
    let replies = answers.into_iter().filter_map(|answer| answer.reply.ok());
    Ok(replies.collect())
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

async fn ask(cluster: &ClusterArgs, endpoint: &str) -> Result<StatusReply, Finding> {
    let asked = request(StatusRequest {}, cluster.timeout);
    diagnosis::reply(cluster, endpoint, async |channel| {
        ClusterServiceClient::new(channel).status(asked).await
    })
    .await
}

impl Silence for Finding {
    fn cause(&self) -> String {
        self.cause.word()
    }

    fn problem(&self) -> String {
        self.problem.clone()
    }

    fn remedy(&self) -> Remedy {
        if self.is_of_node() {
            Remedy::Node
        } else {
            Remedy::Command(self.next.clone())
        }
    }

    fn may_pass(&self) -> bool {
        self.cause.may_pass()
    }
}
