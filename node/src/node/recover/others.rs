//! What the other nodes of the former cluster hold, as far as they answer.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use helve_proto::peer::v1::{Acknowledged, HelloReply, LogId};

use super::{RecoverError, Stopped};
use crate::{identity::Identity, membership::hello};

/// A node that answers, and holds what the one that is to be recovered lacks.
#[derive(Debug)]
pub struct Newer {
    pub(super) uuid: String,
    node_id: u64,
    address: String,
    held: LogId,
    own: LogId,
}

impl fmt::Display for Newer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            node_id,
            address,
            held,
            own,
            ..
        } = self;
        write!(
            formatter,
            "node {node_id} at {address} answers, and holds entry {} of term {}, which is newer than this node's last one, entry {} of \
             term {}: stop that node, and recover it instead",
            held.index, held.term, own.index, own.term
        )
    }
}

/// Asks the members that the stopped node knows, and these peers.
pub(super) async fn ask(
    stopped: &Stopped,
    identity: &Identity,
    peers: &BTreeMap<u64, String>,
) -> Vec<HelloReply> {
    let addresses: BTreeSet<String> = stopped
        .others()
        .map(|(_, node, _)| node.peer_address.clone())
        .chain(peers.values().cloned())
        .filter(|address| !address.is_empty())
        .collect();
    hello::who_answers(identity, addresses).await
}

/// Refuses while the stopped node and those that answer are a majority.
pub(super) fn check_lost(stopped: &Stopped, replies: &[HelloReply]) -> Result<(), RecoverError> {
    let answering: BTreeSet<&str> = replies.iter().map(|reply| reply.uuid.as_str()).collect();
    let voters = stopped.others().filter(|(_, _, votes)| *votes);
    let voters: Vec<_> = voters.collect();
    let there = voters
        .iter()
        .filter(|(_, node, _)| answering.contains(node.uuid.as_str()));
    let there: Vec<String> = there
        .map(|(id, node, _)| format!("node {id} at {}", node.peer_address))
        .collect();
    let own = usize::from(stopped.voted());
    let (count, all) = (there.len() + own, voters.len() + own);
    if !voters.is_empty() && count * 2 > all {
        return Err(RecoverError::MajorityAnswers(count, all, there.join(", ")));
    }
    Ok(())
}

/// The node that holds the newest entry, if that is not the stopped one.
pub(super) fn newest(stopped: &Stopped, replies: &[HelloReply]) -> Option<Newer> {
    let own = stopped.holding.last;
    let newer = stopped.others().filter_map(|(node_id, node, _)| {
        let is_it = |reply: &&HelloReply| {
            reply.uuid == node.uuid && reply.cluster_id == stopped.known.cluster_id
        };
        let held = holds(replies.iter().find(is_it)?)?;
        (order(&held) > order(&own)).then(|| Newer {
            uuid: node.uuid.clone(),
            node_id,
            address: node.peer_address.clone(),
            held,
            own,
        })
    });
    newer.max_by_key(|newer| order(&newer.held))
}

/// The newest entry that this run of a node began with, or has acknowledged since.
fn holds(reply: &HelloReply) -> Option<LogId> {
    let testimony = reply.testimony.as_ref()?;
    let is_own = |told: &&Acknowledged| told.uuid == reply.uuid && told.run == testimony.run;
    let acknowledged = testimony.acknowledged.iter().filter(is_own);
    let positions = acknowledged.filter_map(|told| told.position);
    let entries = positions
        .chain(testimony.began)
        .filter_map(|position| position.log_id);
    entries.max_by_key(order)
}

/// As in an election, a later term counts more than a higher index: the entries of an earlier term
/// that are beyond it were replaced, and never committed.
fn order(id: &LogId) -> (u64, u64) {
    (id.term, id.index)
}

/// What a node is known to have held that a log lacks which ends with `last`; `None` if it lacks
/// nothing.
pub(super) fn beyond(last: LogId, held: LogId, node: &str) -> Option<String> {
    if order(&held) <= order(&last) {
        return None;
    }
    let known = format!("which node {node} is known to have held");
    Some(if held.term == last.term {
        let from = last.index + 1;
        format!("entries {from} to {}, {known}", held.index)
    } else {
        format!(
            "the entries of term {} up to entry {}, {known}: recover that node instead, if its disk is left",
            held.term, held.index
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_held_is_lost_by_term_first_then_by_index() {
        let id = |term, index| LogId { term, index };
        let lost = |held| beyond(id(3, 90), held, "2");
        for kept in [id(3, 90), id(3, 1), id(2, 90), id(2, 100)] {
            assert_eq!(lost(kept), None, "{kept:?}");
        }
        let same_term = lost(id(3, 95)).unwrap();
        assert!(same_term.starts_with("entries 91 to 95"), "{same_term}");
        for later in [id(4, 80), id(4, 90), id(4, 95)] {
            let said = lost(later).unwrap();
            assert!(said.contains("term 4 up to entry"), "{said}");
            assert!(said.contains("recover that node instead"), "{said}");
        }
    }
}
