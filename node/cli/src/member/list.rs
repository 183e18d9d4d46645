//! The members, as a table or as JSON.

use std::time::Duration;

use helve_command::{
    cluster::ClusterArgs,
    ending::{Cause, Caused, Ending},
    output::{count, harmless, table},
};
use helve_proto::v1::StatusReply;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::follow::Wish;
use crate::status;

/// Between two looks for a leader that knows of the change.
const PAUSE: Duration = Duration::from_millis(100);

/// What `helve member list` prints.
#[derive(Debug, Serialize)]
pub(super) struct Members {
    cluster_id: String,
    /// 0: unknown.
    leader_id: u64,
    /// A change is half done: two sets of voters must agree.
    joint: bool,
    /// The change that is under way; empty if none.
    change: String,
    members: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    id: u64,
    seat: u64,
    uuid: String,
    voter: bool,
    leader: bool,
    peer_address: String,
    client_address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    lag_entries: Option<u64>,
}

impl Members {
    fn new(reply: StatusReply, leader_id: u64) -> Self {
        let row = |member: helve_proto::v1::Member| Row {
            id: member.id,
            seat: member.seat,
            uuid: member.uuid,
            voter: member.voter,
            leader: member.id == leader_id,
            peer_address: member.peer_address,
            client_address: member.client_address,
            lag_entries: member.lag_entries,
        };
        Self {
            cluster_id: reply.cluster_id,
            leader_id,
            joint: reply.joint,
            change: reply.change,
            members: reply.members.into_iter().map(row).collect(),
        }
    }

    fn has(&self, id: u64) -> bool {
        self.members.iter().any(|member| member.id == id)
    }

    fn votes(&self, id: u64) -> bool {
        let mut voters = self.members.iter().filter(|member| member.voter);
        voters.any(|voter| voter.id == id)
    }
}

/// The members as the leader knows them, or as the node does that has applied the most.
///
/// # Errors
/// If no endpoint answers.
pub(super) async fn members(cluster: &ClusterArgs) -> Result<Members, Ending> {
    let replies = status::replies(cluster).await?;
    let leads = |reply: &StatusReply| {
        let node = reply.node.as_ref();
        node.filter(|node| node.leader_id == node.id && node.id != 0)
            .map_or(0, |node| node.term)
    };
    let applied = |reply: &StatusReply| reply.node.as_ref().map_or(0, |node| node.applied_index);
    let newest = replies
        .into_iter()
        .filter(|reply| !reply.members.is_empty())
        .max_by_key(|reply| (leads(reply), applied(reply)));
    let reply = newest.ok_or_else(|| {
        let message = "no member answers: run `helve status`";
        Ending::from(Caused::new(Cause::NoQuorum, message))
    })?;
    let leader_id = reply.node.as_ref().map_or(0, |node| node.leader_id);
    Ok(Members::new(reply, leader_id))
}

/// The members once a change is done. A leader that was taken out has to step down first.
///
/// # Errors
/// If no endpoint answers.
pub(super) async fn members_after(
    wish: &Wish,
    node_id: u64,
    cluster: &ClusterArgs,
) -> Result<Members, Ending> {
    let end = Instant::now() + cluster.timeout;
    loop {
        let members = members(cluster).await;
        let is_settled = members.as_ref().is_ok_and(|members| {
            let leaving = wish.leaving();
            let is_out = leaving.is_none_or(|id| !members.has(id));
            let is_in = leaving == Some(node_id) || members.has(node_id);
            let is_promoted = !matches!(wish, Wish::Promote(_)) || members.votes(node_id);
            is_out && is_in && is_promoted && members.has(members.leader_id)
        });
        if is_settled || Instant::now() >= end {
            return members;
        }
        sleep(PAUSE).await;
    }
}

/// The members for people.
pub(super) fn text(members: &Members) -> String {
    let columns = [
        "ID",
        "SEAT",
        "ROLE",
        "LAG",
        "PEER ADDRESS",
        "CLIENT ADDRESS",
    ];
    let mut table = table(&columns).leaving_out(&["PEER ADDRESS", "LAG"]);
    for member in &members.members {
        let role = match (member.leader, member.voter) {
            (true, _) => "leader",
            (false, true) => "voter",
            (false, false) => "learner",
        };
        table.add_row([
            member.id.to_string(),
            member.seat.to_string(),
            role.to_owned(),
            member.lag_entries.map_or("-".into(), count),
            member.peer_address.clone(),
            member.client_address.clone(),
        ]);
    }
    let mut page = table.trim_fmt();
    if !members.change.is_empty() {
        page.push_str("\nunder way: ");
        page.push_str(&harmless(&members.change));
    } else if members.joint {
        page.push_str("\nunder way: a change that the leader finishes");
    }
    page
}
