//! What an operator should type next.

use super::report::{Health, Node, Remedy, Report};

/// Entries of lag from which a node is worth a look.
const LAG_ENTRIES: u64 = 10_000;

/// The next steps, the most urgent first; none if all is well.
pub(super) fn next(report: &Report) -> Vec<String> {
    let mut next = Vec::new();
    let answering = report
        .nodes
        .iter()
        .any(|node| node.health != Health::Unreachable);
    // What is wrong with the command comes first, once, however many nodes it is wrong for.
    for node in &report.nodes {
        if let Some(Remedy::Command(remedy)) = &node.remedy
            && !next.contains(remedy)
        {
            next.push(remedy.clone());
        }
    }
    let is_down = |node: &&Node| matches!(node.remedy, Some(Remedy::Node));
    let down = report.nodes.iter().filter(is_down);
    if !answering {
        if next.is_empty() {
            next.push(
                "no node answers: start one with `helve dev`, or several with `helve serve`, or correct --endpoints".into(),
            );
        }
        return next;
    }
    next.extend(down.map(start));
    next.extend(report.nodes.iter().filter_map(let_in));
    let waits = report.nodes.iter().any(|node| node.role == "pristine");
    if !report.quorum && !waits {
        next.push(
            "a majority of the voters has to run and reach each other: then `helve status` again"
                .into(),
        );
    }
    next.extend(report.nodes.iter().filter_map(catch_up));
    next.extend(upgrade(report));
    if report.change.is_empty() {
        next.extend(report.nodes.iter().filter_map(promote));
    }
    if report.joint {
        next.push(
            "a change of members is half done, and the leader finishes it: if it stays so, a majority of the old and of the new voters \
             has to run; `helve member list` shows it"
                .into(),
        );
    }
    next
}

/// A node that is no member: what it says that it waits for, which names the next command.
fn let_in(node: &Node) -> Option<String> {
    let outside = matches!(node.role, "pristine" | "removed");
    outside.then(|| {
        format!(
            "the node at {}, seat {}: {}",
            node.client_address, node.seat, node.warning
        )
    })
}

/// A learner stays one until it is said otherwise.
fn promote(node: &Node) -> Option<String> {
    (node.role == "learner" && !node.voter && node.id != 0).then(|| {
        format!(
            "node {} is a learner: `helve member add --seat {} --peer {}` makes it a voter, `helve member remove {}` takes it out",
            node.id, node.seat, node.peer_address, node.id
        )
    })
}

fn start(node: &Node) -> String {
    let address = &node.client_address;
    match node.seat {
        0 => format!("start the node at {address}, or correct --endpoints"),
        seat => {
            let id = node.id;
            format!(
                "start node {id} again: `helve serve --id {seat} --data-dir DIR ...`, or if it runs, check the way to {address}; \
                 if its disk is lost, the same with an empty DIR; if the machine is, `helve member replace {id} --seat SEAT --peer HOST:PORT` \
                 or `helve member remove {id}`"
            )
        }
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
