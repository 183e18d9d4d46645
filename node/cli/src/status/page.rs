//! The report for people: a table that fits a terminal, and below it what does not fit a table.

use std::time::Duration;

use helve_command::{
    duration::display_ms,
    output::{bytes, count, harmless, table},
};
use helve_node::{
    cluster_report::{Health, Node, Report, Said, Sealed},
    stamp::SKEW_MAX,
};

/// As much of a key's id as is shown.
const KEY_CHARS: usize = 8;

/// A column: its name, and what a node shows in it.
struct Column(&'static str, fn(&Node) -> String);

const COLUMNS: [Column; 8] = [
    Column("ID", |node| known(node.id)),
    Column("SEAT", |node| known(node.seat)),
    Column("ROLE", |node| node.role.to_owned()),
    Column("TERM", |node| said(node, |said| count(said.term))),
    Column("LOG", |node| said(node, |said| count(said.last_log_index))),
    Column("APPLIED", |node| {
        said(node, |said| count(said.applied_index))
    }),
    Column("LAG", |node| node.lag_entries.map_or("-".into(), count)),
    Column("SIZE", |node| {
        said(node, |said| bytes(said.disk_used_bytes))
    }),
];

/// While versions differ.
const LEVEL: Column = Column("LEVEL", |node| known(node.feature_level.into()));

/// Where a node has keys, or values are sealed.
const SEALING: [Column; 2] = [
    Column("SEALED", |node| {
        said(node, |said| said.sealed.text().to_owned())
    }),
    Column("KEY", |node| said(node, |said| key(&said.held_key_id))),
];

const LAST: [Column; 2] = [
    Column("HEALTH", |node| health(node.health).to_owned()),
    Column("ADDRESS", |node| node.client_address.clone()),
];

/// Columns that a narrow terminal does without, the first one first. What they say is in JSON, too.
const OPTIONAL: [&str; 6] = ["SIZE", "LOG", "TERM", "KEY", "LEVEL", "SEALED"];

/// The page.
pub(super) fn text(report: &Report) -> String {
    let columns = columns(report);
    let names: Vec<&str> = columns.iter().map(|Column(name, _)| *name).collect();
    let mut table = table(&names).leaving_out(&OPTIONAL);
    for node in &report.nodes {
        table.add_row(columns.iter().map(|Column(_, show)| show(node)));
    }
    let mut page = table.trim_fmt();
    if report.feature_level != 0 {
        let is_held = report.nodes.iter().any(|node| node.held_level != 0);
        let held = if is_held { ", held" } else { "" };
        page.push_str(&format!("\nfeature level {}{held}", report.feature_level));
    }
    if let Some(time) = time(report) {
        page.push_str(&format!("\n{time}"));
    }
    for node in report.nodes.iter().filter(|node| !node.warning.is_empty()) {
        page.push_str(&format!("\n{}", harmless(&warning(node))));
    }
    for next in &report.next {
        page.push_str(&format!("\nnext: {}", harmless(next)));
    }
    page
}

/// Where the cluster's time is, if that is far from the wall clocks that a majority of the nodes agrees on.
fn time(report: &Report) -> Option<String> {
    let leader = report
        .nodes
        .iter()
        .find(|node| node.id == report.leader_id)?;
    let ahead_ms = leader.said.as_ref()?.walls_ahead_ms?;
    let distance = Duration::from_millis(ahead_ms.unsigned_abs());
    let (where_, how) = if ahead_ms > 0 {
        ("behind", "catches up by up to an hour a second")
    } else {
        ("ahead of", "runs at half speed until they meet")
    };
    (distance > SKEW_MAX).then(|| {
        let distance = display_ms(ahead_ms.unsigned_abs());
        format!("the cluster's time is {distance} {where_} the nodes' wall clocks, and {how}: you need to do nothing")
    })
}

/// Those that tell something of this cluster.
fn columns(report: &Report) -> Vec<&'static Column> {
    let is_sealing = |node: &Node| {
        let said = node.said.as_ref();
        said.is_some_and(|said| said.sealed != Sealed::No || !said.held_key_id.is_empty())
    };
    let levels = || report.nodes.iter().map(|node| node.feature_level);
    let mut levels_known = levels().filter(|level| *level != 0);
    let first = levels_known.next();
    let differ = levels_known.any(|level| Some(level) != first);
    let level = differ.then_some(&LEVEL);
    let sealing = report.nodes.iter().any(is_sealing).then_some(&SEALING);
    let sealing = sealing.into_iter().flatten();
    COLUMNS
        .iter()
        .chain(level)
        .chain(sealing)
        .chain(&LAST)
        .collect()
}

/// What a node warns of, or why it does not answer; who it is, unless that is said.
fn warning(node: &Node) -> String {
    if node.warning.contains(&node.client_address) {
        return node.warning.clone();
    }
    format!("{}: {}", node.client_address, node.warning)
}

fn known(number: u64) -> String {
    if number == 0 {
        "-".to_owned()
    } else {
        number.to_string()
    }
}

fn said(node: &Node, field: fn(&Said) -> String) -> String {
    node.said.as_ref().map_or("-".into(), field)
}

fn key(id: &str) -> String {
    match id.get(..KEY_CHARS) {
        Some(beginning) => beginning.to_owned(),
        None if id.is_empty() => "-".to_owned(),
        None => id.to_owned(),
    }
}

fn health(health: Health) -> &'static str {
    match health {
        Health::Ready => "ready",
        Health::NotReady => "not ready",
        Health::Unreachable => "unreachable",
    }
}
