//! How far an upgrade is, and what its end forbids.

use helve_command::output::{harmless, table};
use helve_node::{LEVELS, Level};
use helve_proto::v1::{Member, StatusReply};
use serde::Serialize;

use crate::status::members::Members;

/// What `helve upgrade` prints.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// The cluster's level.
    pub(super) feature_level: u32,
    /// The newest level that a member supports: what the cluster's level becomes in the end.
    pub(super) newest_level: u32,
    /// A member holds the level.
    pub(super) held: bool,
    pub(super) nodes: Vec<Node>,
    /// The levels that finishing raises the cluster through; empty if it is at the newest.
    pub(super) finishing: Vec<Step>,
    /// What to do next.
    pub(super) next: Vec<String>,
}

/// One member.
#[derive(Debug, Serialize)]
pub(super) struct Node {
    pub(super) id: u64,
    pub(super) seat: u64,
    pub(super) client_address: String,
    /// Its version; empty if it does not answer.
    pub(super) version: String,
    /// The newest level that its version supports; of a member that does not answer, as the membership records it.
    pub(super) supports: u32,
    /// The level at which it holds the cluster; absent if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) held_level: Option<u32>,
    /// Changes of its hold so far; absent if its version does not know holds, or it does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hold_revision: Option<u64>,
    /// Why it does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) silent: Option<String>,
    /// The cluster's level, as it has applied the log; 0 if it does not answer.
    #[serde(skip)]
    pub(super) applied_level: u32,
}

/// A level that finishing raises the cluster to.
#[derive(Debug, Serialize)]
pub(super) struct Step {
    level: u32,
    /// What it brings.
    brings: String,
    /// Operations that are possible from it on.
    operations: Vec<String>,
    /// Which versions are shut out.
    forbids: String,
}

impl Report {
    pub(super) fn new(members: &Members) -> Self {
        let nodes: Vec<_> = members
            .newest
            .members
            .iter()
            .map(|member| node(member, members.replies.get(&member.id)))
            .collect();
        let feature_level = members.newest.feature_level;
        let newest_level = nodes.iter().map(|node| node.supports).max();
        let newest_level = newest_level.unwrap_or_default().max(feature_level);
        let mut report = Self {
            feature_level,
            newest_level,
            held: nodes.iter().any(|node| node.held_level.is_some()),
            nodes,
            finishing: (feature_level + 1..=newest_level).map(step).collect(),
            next: Vec::new(),
        };
        report.next = report.advice();
        report
    }

    /// Why the level cannot rise to the newest: a member that does not support it, or does not answer.
    pub(super) fn obstacles(&self) -> Vec<String> {
        self.nodes
            .iter()
            .filter_map(|node| {
                let (id, newest) = (node.id, self.newest_level);
                match &node.silent {
                    Some(why) => Some(format!("node {id} does not answer ({why}): start it")),
                    None => (node.supports < newest).then(|| {
                        format!(
                            "node {id} runs version {}, which supports feature level {}: start a version on it that supports {newest}",
                            node.version, node.supports
                        )
                    }),
                }
            })
            .collect()
    }

    fn advice(&self) -> Vec<String> {
        let mut next = self.obstacles();
        if next.is_empty() && self.held && self.newest_level > self.feature_level {
            next.push(format!(
                "`helve upgrade finish` raises the feature level to {}; until then every node can go back to the version before",
                self.newest_level
            ));
        }
        let others = self.nodes.iter().filter(|node| node.can_be_asked());
        let others: Vec<_> = others.map(|node| node.id.to_string()).collect();
        if self.held && !others.is_empty() {
            next.push(format!(
                "run `helve upgrade hold` again to have node {} hold the level too: it stays held if a node is lost",
                others.join(", ")
            ));
        }
        next
    }
}

impl Node {
    /// Whether it does not hold the level, and its version could.
    pub(super) fn can_be_asked(&self) -> bool {
        self.held_level.is_none() && self.hold_revision.is_some()
    }
}

fn node(member: &Member, reply: Option<&Result<StatusReply, String>>) -> Node {
    let unanswered = Node {
        id: member.id,
        seat: member.seat,
        client_address: member.client_address.clone(),
        version: String::new(),
        supports: member.feature_level,
        held_level: None,
        hold_revision: None,
        silent: None,
        applied_level: 0,
    };
    match reply {
        Some(Ok(reply)) => {
            let said = reply.node.clone().unwrap_or_default();
            Node {
                version: said.version,
                supports: said.feature_level,
                held_level: (said.held_level != 0).then_some(said.held_level),
                hold_revision: said.hold_revision,
                applied_level: reply.feature_level,
                ..unanswered
            }
        }
        Some(Err(why)) => Node {
            silent: Some(why.clone()),
            ..unanswered
        },
        None => Node {
            silent: Some("not asked".to_owned()),
            ..unanswered
        },
    }
}

fn step(level: u32) -> Step {
    let known = LEVELS.iter().find(|known| known.level == level);
    let operations = known.map_or(&[][..], |known: &Level| known.operations);
    let unknown = "not known to this version of helve: run the command of the newest version";
    Step {
        level,
        brings: known.map_or(unknown, |known| known.brought).to_owned(),
        operations: operations
            .iter()
            .map(|&operation| operation.to_owned())
            .collect(),
        forbids: format!(
            "versions that support feature level {} or less: they do not start on the data, join, recover a survivor or restore a backup",
            level - 1
        ),
    }
}

/// The report for people.
pub(super) fn text(report: &Report) -> String {
    let mut nodes = table(&["ID", "SEAT", "VERSION", "SUPPORTS", "HELD", "ADDRESS"]);
    for node in &report.nodes {
        let version = match node.version.as_str() {
            "" => "-",
            version => version,
        };
        nodes.add_row([
            node.id.to_string(),
            node.seat.to_string(),
            version.to_owned(),
            node.supports.to_string(),
            node.held_level.map_or("-".to_owned(), |l| l.to_string()),
            node.client_address.clone(),
        ]);
    }
    let held = if report.held { ", held" } else { "" };
    let mut lines = vec![
        nodes.trim_fmt(),
        format!("feature level {}{held}", report.feature_level),
    ];
    for step in &report.finishing {
        let operations = match &step.operations[..] {
            [] => String::new(),
            operations => format!(" ({})", operations.join(", ")),
        };
        let (level, brings) = (step.level, &step.brings);
        lines.push(format!("level {level} brings: {brings}{operations}"));
        lines.push(format!("level {level} forbids: {}", step.forbids));
    }
    let next = report.next.iter();
    lines.extend(next.map(|next| format!("next: {}", harmless(next))));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use helve_proto::v1::NodeStatus;

    use super::*;

    const NOW: u32 = 5;

    fn members(supports: [u32; 3], held: [u32; 3]) -> Members {
        let member = |id: u64| Member {
            id,
            seat: id,
            feature_level: NOW,
            ..Member::default()
        };
        let newest = StatusReply {
            members: (1..=3).map(member).collect(),
            feature_level: NOW,
            ..StatusReply::default()
        };
        let reply = |(id, (supports, held)): (u64, (u32, u32))| {
            let node = NodeStatus {
                id,
                version: format!("0.{supports}.0"),
                feature_level: supports,
                held_level: held,
                hold_revision: (supports > NOW).then_some(1),
                ..NodeStatus::default()
            };
            let reply = StatusReply {
                node: Some(node),
                ..newest.clone()
            };
            (id, Ok(reply))
        };
        let replies = (1..).zip(supports.into_iter().zip(held)).map(reply);
        Members {
            replies: replies.collect(),
            newest,
        }
    }

    #[test]
    fn old_member_is_named_with_its_version_and_level() {
        let report = Report::new(&members([6, 5, 6], [5, 0, 0]));
        assert!(report.held && report.newest_level == 6);
        let [obstacle] = &report.obstacles()[..] else {
            panic!("{:?}", report.obstacles())
        };
        for named in ["node 2", "version 0.5.0", "feature level 5", "supports 6"] {
            assert!(obstacle.contains(named), "{obstacle}");
        }
        let again = report
            .next
            .iter()
            .any(|next| next.contains("hold` again") && next.contains("node 3 "));
        assert!(again, "{:?}", report.next);
    }

    #[test]
    fn silent_member_keeps_the_upgrade_from_its_end() {
        let mut members = members([6, 6, 6], [5, 5, 5]);
        assert_eq!(Report::new(&members).obstacles(), [""; 0]);
        members.replies.insert(3, Err("no one listens".to_owned()));
        let obstacles = Report::new(&members).obstacles();
        assert_eq!(
            obstacles,
            ["node 3 does not answer (no one listens): start it"]
        );
    }

    #[test]
    fn what_finishing_forbids_is_said_for_each_level() {
        let page = text(&Report::new(&members([6, 6, 6], [5, 5, 5])));
        for said in [
            "feature level 5, held",
            "level 6 brings: claims; ",
            " (Claim)",
            "level 6 forbids: versions that support feature level 5 or less",
            "next: `helve upgrade finish` raises the feature level to 6",
        ] {
            assert!(page.contains(said), "{page}");
        }
        let page = text(&Report::new(&members([5, 5, 5], [0, 0, 0])));
        assert!(page.ends_with("feature level 5"), "{page}");
        let page = text(&Report::new(&members([999, 999, 999], [0, 0, 0])));
        assert!(
            page.contains("level 999 brings: not known to this version"),
            "{page}"
        );
    }
}
