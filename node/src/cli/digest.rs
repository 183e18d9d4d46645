//! `helve digest`: whether all nodes hold the same rows.

mod verdict;

use std::{collections::BTreeMap, time::Duration};

use anyhow::anyhow;
use data_encoding::HEXLOWER;
use futures::future::join_all;
use helve_proto::v1::{
    StateDigestReply, StateDigestRequest, cluster_service_client::ClusterServiceClient,
};
use serde::Serialize;
use tokio::time::{Instant, sleep, timeout};

use self::verdict::{Verdict, Views, judge};
use super::{
    cluster::{ClusterArgs, request, transport},
    ending::{Ending, Outcome},
    output::{OutputArgs, count, table},
    status,
};

/// Between two rounds of questions, while writes go on.
const PAUSE: Duration = Duration::from_millis(50);

/// What a person is shown of a digest.
const DIGEST_SHOWN: usize = 16;

/// Compare what all nodes hold: every replicated row of every node, at the same entry of the log
///
/// Each node hashes all its rows in one view, without holding anything up. Nodes that have applied the same entries must come to the
/// same digest. While writes go on it asks again until all were seen at the same entry; a large state takes a longer --timeout.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve digest
  helve digest --endpoints 127.0.0.1:7400 --timeout 60s --output json

Exit status: 0 all nodes hold the same rows, 1 a node holds others, 3 a node does not answer, 6 they were never seen at
the same entry; others as `helve --help` lists them.")]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Serialize)]
struct Report {
    /// All nodes were seen at one entry, and hold the same rows there.
    equal: bool,
    nodes: Vec<Node>,
    /// What to do next.
    next: Vec<String>,
}

/// One node, as it answered last, or at the entry at which it differs.
#[derive(Debug, Serialize)]
struct Node {
    id: u64,
    client_address: String,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    view: Option<View>,
    /// Why it did not answer.
    #[serde(skip_serializing_if = "String::is_empty")]
    warning: String,
}

/// All rows of a node as of one entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct View {
    applied_index: u64,
    rows: u64,
    /// SHA-256, in hexadecimal digits.
    digest: String,
}

/// Runs the command.
///
/// # Errors
/// See [`Ending`].
pub(crate) async fn run(args: &Args) -> Outcome {
    let members = status::member_addresses(&args.cluster).await?;
    let deadline = Instant::now() + args.cluster.timeout;
    let mut views = Views::default();
    loop {
        let answers = ask_all(&args.cluster, &members).await;
        for (id, answer) in &answers {
            if let Ok(view) = answer {
                views.entry(*id).or_default().push(view.clone());
            }
        }
        let verdict = judge(&views, members.len());
        let is_over = Instant::now() + PAUSE >= deadline;
        if matches!(verdict, Verdict::Undecided) && !is_over {
            sleep(PAUSE).await;
            continue;
        }
        let report = report(&members, answers, &verdict);
        args.output.print(&report, text)?;
        return ending(&verdict, &report);
    }
}

fn ending(verdict: &Verdict, report: &Report) -> Outcome {
    match verdict {
        Verdict::Equal(_) => Ok(()),
        Verdict::Differ(_) => Err(Ending::Absent(anyhow!("the nodes hold different rows"))),
        Verdict::Undecided => {
            let error = anyhow!("not all nodes were seen at the same entry");
            let is_silent = report.nodes.iter().any(|node| !node.warning.is_empty());
            Err(if is_silent {
                Ending::Unanswered(error)
            } else {
                Ending::NotNow(error)
            })
        }
    }
}

async fn ask_all(
    cluster: &ClusterArgs,
    members: &BTreeMap<u64, String>,
) -> BTreeMap<u64, Result<View, String>> {
    let asked = members
        .iter()
        .map(|(id, address)| async move { (*id, ask(cluster, address).await) });
    join_all(asked).await.into_iter().collect()
}

async fn ask(cluster: &ClusterArgs, address: &str) -> Result<View, String> {
    let channel = cluster
        .channel(address)
        .map_err(|error| format!("{error:#}"))?;
    let mut client = ClusterServiceClient::new(channel);
    let asked = client.state_digest(request(StateDigestRequest {}, cluster.timeout));
    match timeout(cluster.timeout, asked).await {
        Ok(Ok(reply)) => Ok(view(reply.get_ref())),
        Ok(Err(status)) => Err(transport(&status)),
        Err(_) => Err("no answer within --timeout".into()),
    }
}

fn view(reply: &StateDigestReply) -> View {
    View {
        applied_index: reply.applied_index,
        rows: reply.rows,
        digest: HEXLOWER.encode(&reply.digest),
    }
}

fn report(
    members: &BTreeMap<u64, String>,
    answers: BTreeMap<u64, Result<View, String>>,
    verdict: &Verdict,
) -> Report {
    let decided = match verdict {
        Verdict::Equal(views) | Verdict::Differ(views) => Some(views),
        Verdict::Undecided => None,
    };
    let nodes = answers.into_iter().map(|(id, answer)| {
        let (last, warning) = match answer {
            Ok(view) => (Some(view), String::new()),
            Err(why) => (None, why),
        };
        let decisive = decided.and_then(|views| views.get(&id).cloned());
        Node {
            id,
            client_address: members.get(&id).cloned().unwrap_or_default(),
            view: decisive.or(last),
            warning,
        }
    });
    let nodes: Vec<_> = nodes.collect();
    Report {
        equal: matches!(verdict, Verdict::Equal(_)),
        next: next(verdict, &nodes),
        nodes,
    }
}

/// What to do.
fn next(verdict: &Verdict, nodes: &[Node]) -> Vec<String> {
    let silent = nodes.iter().filter(|node| !node.warning.is_empty());
    let silent: Vec<_> = silent
        .map(|node| {
            format!(
                "node {} did not answer: start it, or look at `helve status`",
                node.id
            )
        })
        .collect();
    match verdict {
        Verdict::Equal(_) => Vec::new(),
        Verdict::Undecided if silent.is_empty() => vec![
            "writes went on all the time: pause them, or ask again with a longer --timeout".into(),
        ],
        Verdict::Undecided => silent,
        Verdict::Differ(views) => {
            let Some(wrong) = verdict::minority(views) else {
                return vec![
                    "no majority of the nodes agrees: stop writing, keep a copy of every data directory, and report it"
                        .into(),
                ];
            };
            let advice = |id: &u64| {
                format!(
                    "node {id} holds other rows than the majority: stop it, keep a copy of its data directory to report it, \
                     empty the directory and start the node again; it gets everything from the others"
                )
            };
            wrong.iter().map(advice).chain(silent).collect()
        }
    }
}

/// The report for people.
fn text(report: &Report) -> String {
    let mut table = table(&["ID", "APPLIED", "ROWS", "DIGEST", "ADDRESS"]);
    for node in &report.nodes {
        let said = |field: fn(&View) -> String| node.view.as_ref().map_or("-".into(), field);
        let digest = said(|view| view.digest.chars().take(DIGEST_SHOWN).collect());
        table.add_row([
            node.id.to_string(),
            said(|view| view.applied_index.to_string()),
            said(|view| count(view.rows)),
            digest,
            node.client_address.clone(),
        ]);
    }
    let mut page = table.trim_fmt();
    for node in report.nodes.iter().filter(|node| !node.warning.is_empty()) {
        page.push_str(&format!("\n{}: {}", node.client_address, node.warning));
    }
    for next in &report.next {
        page.push_str("\nnext: ");
        page.push_str(next);
    }
    page
}
