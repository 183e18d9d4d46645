//! What each member of one cluster says, for commands that ask all of them.

use std::collections::BTreeMap;

use helve_command::ending::{Cause, Caused, Ending};
use helve_proto::v1::StatusReply;

use super::{Answer, ClusterArgs, answers, of_one_cluster, unanswered};

/// The members of a cluster.
#[derive(Debug)]
pub(crate) struct Members {
    /// The newest view of the cluster, of those that answered.
    pub(crate) newest: StatusReply,
    /// By the id of each member of that view: what it says, or why it does not answer.
    pub(crate) replies: BTreeMap<u64, Result<StatusReply, String>>,
}

/// Asks every member.
///
/// # Errors
/// If no endpoint answers, they are of several clusters, or none is a member of one.
pub(crate) async fn members(cluster: &ClusterArgs) -> Result<Members, Ending> {
    let answers = answers(cluster).await;
    if let Some(ending) = unanswered(&answers) {
        return Err(ending);
    }
    of_one_cluster(&answers)?;
    of(&answers).ok_or_else(|| {
        let outside = "no endpoint is a member of a cluster: run `helve status`";
        Caused::new(Cause::NoQuorum, outside).into()
    })
}

fn of(answers: &[Answer]) -> Option<Members> {
    let replies = || {
        answers
            .iter()
            .filter_map(|answer| answer.reply.as_ref().ok())
    };
    let applied = |reply: &&StatusReply| reply.node.as_ref().map(|node| node.applied_index);
    let views = replies().filter(|reply| !reply.members.is_empty());
    let newest = views.max_by_key(applied)?.clone();
    let of_member = |id: u64| {
        replies().find(|reply| {
            let node = reply.node.as_ref();
            node.is_some_and(|node| node.id == id)
        })
    };
    let why = |address: &str| {
        let silent = answers.iter().find(|answer| answer.endpoint == address);
        let finding = silent.and_then(|answer| answer.reply.as_ref().err());
        let problem = finding.map(|finding| finding.problem.clone());
        problem.unwrap_or_else(|| format!("{address} was not asked"))
    };
    let members = newest.members.iter().map(|member| {
        let reply = of_member(member.id).cloned();
        (member.id, reply.ok_or_else(|| why(&member.client_address)))
    });
    let replies = members.collect();
    Some(Members { newest, replies })
}
