//! `helve digest`: whether all nodes hold the same rows.

mod verdict;

use std::{collections::BTreeMap, time::Duration};

use anyhow::anyhow;
use data_encoding::HEXLOWER;
use futures::future::join_all;
use helve_command::{
    cluster::{ClusterArgs, request},
    ending::{Cause, Ending, Outcome},
    output::{OutputArgs, count, harmless, table},
};
use helve_proto::{
    Reason,
    v1::{StateDigestReply, StateDigestRequest, cluster_service_client::ClusterServiceClient},
};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use self::verdict::{Verdict, Views, judge};
use super::{
    diagnosis::{self, Finding},
    status,
};

/// Between two rounds of questions, while writes go on.
const PAUSE: Duration = Duration::from_millis(50);

/// What a person is shown of a digest.
const DIGEST_SHOWN: usize = 16;

/// Compare what all nodes hold: every replicated row of every node, at the same entry of the log
///
/// Each node hashes all its rows in one view, which blocks no call. Nodes that have applied the
/// same entries must have the same digest. While writes continue, the command asks again until it
/// has seen all nodes at the same entry. A large state needs a longer --timeout.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve digest
  helve digest --endpoints 127.0.0.1:7400 --timeout 60s --output json

Exit status: 0 all nodes hold the same rows, 1 a node holds other rows, 2 the endpoints are of several clusters, 3 a node does not
answer, 6 the nodes were never seen at the same entry; others as `helve --help` lists them.")]
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
    /// Why it did not answer, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
    /// The same in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    warning: String,
    #[serde(skip)]
    why: Option<Finding>,
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
            let silent = report.nodes.iter().filter_map(|node| node.why.as_ref());
            Err(match silent.min_by_key(|why| may_pass(why.cause)) {
                None => Ending::NotNow(error),
                Some(why) if may_pass(why.cause) => Ending::Unanswered(error),
                Some(why) => why.caused(0).into(),
            })
        }
    }
}

/// Whether the same command may do later. What a node answers that lets the caller in may.
fn may_pass(cause: Cause) -> bool {
    match cause {
        Cause::Told(reason) => reason != Reason::Denied,
        cause => cause.may_pass(),
    }
}

async fn ask_all(
    cluster: &ClusterArgs,
    members: &BTreeMap<u64, String>,
) -> BTreeMap<u64, Result<View, Finding>> {
    let asked = members
        .iter()
        .map(|(id, address)| async move { (*id, ask(cluster, address).await) });
    join_all(asked).await.into_iter().collect()
}

async fn ask(cluster: &ClusterArgs, address: &str) -> Result<View, Finding> {
    let asked = request(StateDigestRequest {}, cluster.timeout);
    let reply = diagnosis::reply(cluster, address, async |channel| {
        ClusterServiceClient::new(channel).state_digest(asked).await
    });
    Ok(view(&reply.await?))
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
    answers: BTreeMap<u64, Result<View, Finding>>,
    verdict: &Verdict,
) -> Report {
    let decided = match verdict {
        Verdict::Equal(views) | Verdict::Differ(views) => Some(views),
        Verdict::Undecided => None,
    };
    let nodes = answers.into_iter().map(|(id, answer)| {
        let decisive = decided.and_then(|views| views.get(&id).cloned());
        let (last, why) = match answer {
            Ok(view) => (Some(view), None),
            Err(why) => (None, Some(why)),
        };
        Node {
            id,
            client_address: members.get(&id).cloned().unwrap_or_default(),
            view: decisive.or(last),
            cause: why.as_ref().map(|why| why.cause.word()),
            warning: why.as_ref().map_or_else(String::new, warning),
            why,
        }
    });
    let nodes: Vec<_> = nodes.collect();
    Report {
        equal: matches!(verdict, Verdict::Equal(_)),
        next: next(verdict, &nodes),
        nodes,
    }
}

/// What is wrong with a node that gives no usable answer.
fn warning(why: &Finding) -> String {
    match why.cause {
        // In the node's own words.
        Cause::Told(_) => format!("{}: {}", why.endpoint, why.next),
        _ => why.problem.clone(),
    }
}

/// What to do about it.
fn remedy(why: &Finding) -> &str {
    match why.cause {
        Cause::Told(_) => "run `helve status`",
        _ if why.is_of_node() => "start it, or run `helve status`",
        _ => &why.next,
    }
}

/// What to do.
fn next(verdict: &Verdict, nodes: &[Node]) -> Vec<String> {
    let silent = nodes.iter().filter_map(|node| {
        let why = node.why.as_ref()?;
        Some(format!("node {} gave no digest: {}", node.id, remedy(why)))
    });
    let silent: Vec<_> = silent.collect();
    match verdict {
        Verdict::Equal(_) => Vec::new(),
        Verdict::Undecided if silent.is_empty() => vec![
            "writes continued all the time: pause them, or run this again with a longer --timeout"
                .into(),
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
                    "node {id} holds other rows than the majority: stop it, keep a copy of its data directory for a report, empty the \
                     directory and start the node again; it gets everything from the others"
                )
            };
            wrong.iter().map(advice).chain(silent).collect()
        }
    }
}

/// The report for people.
fn text(report: &Report) -> String {
    let columns = ["ID", "APPLIED", "ROWS", "DIGEST", "ADDRESS"];
    let mut table = table(&columns).leaving_out(&["ROWS", "APPLIED"]);
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
        page.push_str(&format!("\n{}", harmless(&node.warning)));
    }
    for next in &report.next {
        page.push_str("\nnext: ");
        page.push_str(&harmless(next));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::tests::{Then, flags, port};

    #[tokio::test]
    async fn node_whose_port_is_taken_by_another_server_is_not_to_be_started() {
        let address = port(b"SSH-2.0-OpenSSH_9.2p1\r\n", Then::Holds).await;
        let members = BTreeMap::from([(1, address.clone())]);
        let answers = ask_all(&flags(&address), &members).await;
        let report = report(&members, answers, &Verdict::Undecided);
        let page = text(&report);
        let ending = ending(&Verdict::Undecided, &report);
        assert!(matches!(ending, Err(Ending::Refused(_))), "{ending:?}");
        assert_eq!(report.nodes[0].cause.as_deref(), Some("not_helve"));
        assert!(
            page.contains("an SSH server") && !page.contains("start it"),
            "{page}"
        );
    }
}
