//! What an operator should type next.

use super::report::{Health, Node, Report};

/// Entries of lag from which a node is worth a look.
const LAG_ENTRIES: u64 = 10_000;

/// The next steps, the most urgent first; none if all is well.
pub(super) fn next(report: &Report) -> Vec<String> {
    let mut next = Vec::new();
    let answering = report
        .nodes
        .iter()
        .any(|node| node.health != Health::Unreachable);
    if !answering {
        next.push(
            "no node answers: check --endpoints, and start the nodes with `helve serve`".into(),
        );
        return next;
    }
    next.extend(
        report
            .nodes
            .iter()
            .filter(|node| node.health == Health::Unreachable)
            .map(start),
    );
    if report.nodes.iter().any(|node| node.role == "pristine") {
        next.push("a node waits for its peers: start every seat that --peers lists, and see `helve status` again".into());
    } else if !report.quorum {
        next.push(
            "a majority of the voters has to run and reach each other: then `helve status` again"
                .into(),
        );
    }
    next.extend(report.nodes.iter().filter_map(catch_up));
    next.extend(upgrade(report));
    next
}

fn start(node: &Node) -> String {
    let address = &node.client_address;
    match node.seat {
        0 => format!("start the node at {address}, or correct --endpoints"),
        seat => format!(
            "start node {} again: `helve serve --id {seat} --data-dir DIR ...`, or if it runs, check the way to {address}",
            node.id
        ),
    }
}

fn catch_up(node: &Node) -> Option<String> {
    let lag = node
        .lag_entries
        .filter(|lag| *lag >= LAG_ENTRIES && node.health != Health::Unreachable)?;
    Some(format!(
        "node {} lacks {lag} entries: if that does not shrink, look at its log and disk, and `helve status --endpoints {}`",
        node.id, node.client_address
    ))
}

/// While versions differ, the cluster stays at the level of the oldest.
fn upgrade(report: &Report) -> Option<String> {
    let levels = || report.nodes.iter().map(|node| node.feature_level);
    let newest = levels().max()?;
    let old = |node: &&Node| node.feature_level != 0 && node.feature_level < newest;
    let old: Vec<String> = report
        .nodes
        .iter()
        .filter(old)
        .map(|node| node.id.to_string())
        .collect();
    (!old.is_empty()).then(|| {
        format!(
            "an upgrade is under way: start a version that supports feature level {newest} on node {}, one node at a time",
            old.join(", ")
        )
    })
}
