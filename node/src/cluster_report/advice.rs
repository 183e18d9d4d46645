//! What an operator should type next.

use super::{Health, Node, Remedy, Report};
use crate::{membership::bootstrap::IF_MAJORITY_LOST, quantity::count};

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
    next.extend(report.mixed.clone());
    next.extend(down.map(|node| start(node, report)));
    next.extend(find_data(report));
    let outside = report
        .nodes
        .iter()
        .filter(|node| !waits_for_members(node, report));
    next.extend(outside.filter_map(let_in));
    let has_members = report.nodes.iter().any(|node| node.voter);
    if !report.quorum && has_members && report.majority_is_left() {
        next.push(
            "start a majority of the voters, and make sure that they reach each other; then run `helve status` again"
                .into(),
        );
    }
    let is_left = |node: &&Node| node.voter && node.takes_part();
    let left: Vec<_> = report.nodes.iter().filter(is_left).collect();
    if !report.majority_takes_part() && !left.is_empty() {
        next.push(recover(&left));
    }
    next.extend(report.nodes.iter().filter_map(catch_up));
    next.extend(upgrade(report));
    if report.change.is_empty() && report.quorum {
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

/// Which of the nodes that are left is to be recovered: as in an election, the term of the last entry counts before its index. One of
/// an older version does not say that term.
fn recover(left: &[&Node]) -> String {
    let last = |node: &&&Node| {
        let said = node.said.as_ref();
        said.map_or((0, 0), |said| (said.last_log_term, said.last_log_index))
    };
    let newest = left.iter().max_by_key(last);
    let newest = newest.filter(|_| left.len() > 1 && left.iter().all(|node| last(&node).0 > 0));
    let Some(newest) = newest else {
        return IF_MAJORITY_LOST.into();
    };
    let (term, index) = last(&newest);
    format!(
        "if the disks of a majority are lost for good, stop all nodes that are left, and make a new cluster of node {}, seat {}, which has \
         the newest last entry of those that answer ({} of term {term}), with `helve recover --data-dir DIR`",
        newest.id,
        newest.seat,
        count(index)
    )
}

/// Members that run without their data, while there is no quorum in which others would take their seats over.
fn find_data(report: &Report) -> Option<String> {
    let gone = report
        .nodes
        .iter()
        .filter(|node| node.is_gone && node.voter);
    let gone: Vec<String> = gone
        .map(|node| format!("{} (seat {})", node.id, node.seat))
        .collect();
    (!report.quorum && !gone.is_empty()).then(|| {
        format!(
            "the directories with which these nodes were started hold no data: {}; if it is elsewhere, start them with that --data-dir",
            gone.join(", ")
        )
    })
}

/// Whether a node is outside because members are gone: then it says what is wrong with them.
fn waits_for_members(node: &Node, report: &Report) -> bool {
    let is_in_place = |gone: &Node| gone.is_gone && gone.client_address == node.client_address;
    !report.quorum && node.id == 0 && report.nodes.iter().any(is_in_place)
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
    let Node { id, .. } = node;
    (node.role == "learner" && !node.voter && *id != 0).then(|| {
        format!(
            "node {id} is a learner: it may stay one; `helve member promote {id}` makes it a voter, `helve member remove {id}` takes it out"
        )
    })
}

/// What else helps than starting the node again needs a majority.
fn start(node: &Node, report: &Report) -> String {
    let Node {
        id,
        seat,
        client_address: address,
        ..
    } = node;
    if *seat == 0 {
        return format!("start the node at {address}, or correct --endpoints");
    }
    let again = format!(
        "start node {id} again: `helve serve --id {seat} --data-dir DIR ...`, or if it runs, check the network to {address}"
    );
    if !report.quorum {
        return again;
    }
    format!(
        "{again}; if its disk is lost, the same with an empty DIR; if the machine is, `helve member replace {id} --seat SEAT \
         --peer HOST:PORT` or `helve member remove {id}`"
    )
}

fn catch_up(node: &Node) -> Option<String> {
    let lag = node
        .lag_entries
        .filter(|lag| *lag >= LAG_ENTRIES && node.health != Health::Unreachable)?;
    Some(format!(
        "node {} lacks {} entries: if that does not shrink, check its log and disk, and run `helve status --endpoints {}`",
        node.id,
        count(lag),
        node.client_address
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
    let is_held = report.nodes.iter().any(|node| node.held_level != 0);
    if old.is_empty() && is_held && newest > report.feature_level {
        return Some(format!(
            "the feature level is held: `helve upgrade status` says what {newest} forbids, and `helve upgrade finish` raises it"
        ));
    }
    (!old.is_empty()).then(|| {
        format!(
            "an upgrade is under way: start a version that supports feature level {newest} on node {}, one node at a time",
            old.join(", ")
        )
    })
}
