//! How its peers take a node: who refuses its messages, and who at the listed addresses is of another cluster.
//!
//! A node whose messages are refused hears of no leader, and would otherwise say no more than that.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// What is wrong between this node and its peers.
#[derive(Debug, Default)]
pub struct Reception {
    /// By the member that refuses: what it says.
    refused_by: Mutex<BTreeMap<u64, String>>,
    /// By the seat that `--peers` gives them: their cluster.
    strangers: Mutex<BTreeMap<u64, String>>,
}

impl Reception {
    /// A member refused this node's message as not meant for it, or as from nobody it knows.
    pub(super) fn note_refusal(&self, member: u64, why: &str) {
        let former = lock(&self.refused_by).insert(member, why.to_owned());
        if former.as_deref() != Some(why) {
            tracing::warn!(
                member,
                why,
                "a peer refuses this node's messages: check --peers and --data-dir on both"
            );
        }
    }

    /// The last message to this member was refused.
    #[must_use]
    pub fn is_refused_by(&self, member: u64) -> bool {
        lock(&self.refused_by).contains_key(&member)
    }

    /// A member took this node's message.
    pub(super) fn note_accepted(&self, member: u64) {
        if lock(&self.refused_by).remove(&member).is_some() {
            tracing::info!(member, "a peer takes this node's messages again");
        }
    }

    /// Who answers for a listed seat, but belongs to another cluster.
    pub(super) fn note_strangers(&self, strangers: BTreeMap<u64, String>) {
        let mut known = lock(&self.strangers);
        for (seat, cluster) in &strangers {
            if known.get(seat) != Some(cluster) {
                tracing::warn!(
                    seat,
                    cluster,
                    "a listed peer belongs to another cluster: correct --peers or --data-dir there"
                );
            }
        }
        *known = strangers;
    }

    /// What an operator should look at; `is_member` tells who still counts.
    pub fn warnings(&self, is_member: impl Fn(u64) -> bool) -> Vec<String> {
        let strangers = lock(&self.strangers)
            .iter()
            .map(|(seat, cluster)| {
                format!(
                    "seat {seat} of --peers answers for cluster {cluster}: correct --peers or --data-dir there"
                )
            })
            .collect::<Vec<_>>();
        let refusals = lock(&self.refused_by)
            .iter()
            .filter(|(member, _)| is_member(**member))
            .map(|(member, why)| format!("node {member} refuses this node's messages: {why}"))
            .collect::<Vec<_>>();
        [strangers, refusals].concat()
    }
}

fn lock(table: &Mutex<BTreeMap<u64, String>>) -> MutexGuard<'_, BTreeMap<u64, String>> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_stands_until_the_peer_takes_a_message_or_is_no_member() {
        let reception = Reception::default();
        reception.note_refusal(2, "this is node 2 of another cluster");
        let warnings = reception.warnings(|id| id == 2);
        assert!(
            matches!(warnings.as_slice(), [one] if one.contains("node 2 refuses")),
            "{warnings:?}"
        );
        assert!(reception.warnings(|_| false).is_empty());
        reception.note_accepted(2);
        assert!(reception.warnings(|_| true).is_empty());
    }

    #[test]
    fn strangers_are_named_while_they_answer() {
        let reception = Reception::default();
        reception.note_strangers([(3, "other".to_owned())].into());
        let warnings = reception.warnings(|_| true);
        assert!(
            matches!(warnings.as_slice(), [one] if one.contains("seat 3") && one.contains("other")),
            "{warnings:?}"
        );
        reception.note_strangers(BTreeMap::new());
        assert!(reception.warnings(|_| true).is_empty());
    }
}
