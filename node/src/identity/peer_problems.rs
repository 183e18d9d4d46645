//! How its peers take a node: who refuses its messages, and who at the listed addresses is of
//! another cluster.
//!
//! A node whose messages are refused hears of no leader, and would otherwise say no more than that.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use helve_proto::peer::v1::Vote;

/// What is wrong between this node and its peers.
#[derive(Debug, Default)]
pub struct PeerProblems {
    /// By the member that refuses: what it says.
    refused_by: Mutex<BTreeMap<u64, String>>,
    /// By the seat that `--peers` gives them: their cluster.
    strangers: Mutex<BTreeMap<u64, String>>,
    rival: Mutex<Option<Rival>>,
}

/// Two leaders of one term: some nodes voted twice in it, so their disks were put back or lost in
/// between. This node, which follows one of the two, or is one of them, takes nothing from the
/// other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rival {
    /// The term.
    pub term: u64,
    /// The leader that this node voted for, or followed.
    pub own: u64,
    /// The leader whose messages it refuses.
    pub other: u64,
}

impl Rival {
    /// If the vote of a leader's message and the vote of the node that refused it name two leaders
    /// of one term.
    pub(crate) fn of(held: &Vote, sent: &Vote) -> Option<Self> {
        let are_two = held.committed
            && sent.committed
            && held.term == sent.term
            && held.node_id != sent.node_id;
        are_two.then_some(Self {
            term: held.term,
            own: held.node_id,
            other: sent.node_id,
        })
    }
}

impl PeerProblems {
    /// A member refused this node's message as not meant for it, or as from an unknown node.
    pub(crate) fn note_refusal(&self, member: u64, why: &str) {
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
    pub(crate) fn note_accepted(&self, member: u64) {
        if lock(&self.refused_by).remove(&member).is_some() {
            tracing::info!(member, "a peer takes this node's messages again");
        }
    }

    /// This node refused the messages of a second leader of a term.
    pub(crate) fn note_rival(&self, rival: Rival) {
        if lock(&self.rival).replace(rival) != Some(rival) {
            let Rival { term, own, other } = rival;
            tracing::error!(
                term,
                own,
                other,
                "a term has two leaders, this node's own and another: disks of voters were put back to an older state, or lost"
            );
        }
    }

    /// The second leader of this term, if it has one.
    #[must_use]
    pub fn rival(&self, term: u64) -> Option<Rival> {
        let rival = *lock(&self.rival);
        rival.filter(|rival| rival.term == term)
    }

    /// Who answers for a listed seat, but belongs to another cluster.
    pub(crate) fn note_foreign(&self, strangers: BTreeMap<u64, String>) {
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

fn lock<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_is_kept_until_the_peer_takes_a_message_or_leaves() {
        let peer_problems = PeerProblems::default();
        peer_problems.note_refusal(2, "this is node 2 of another cluster");
        let warnings = peer_problems.warnings(|id| id == 2);
        assert!(
            matches!(warnings.as_slice(), [one] if one.contains("node 2 refuses")),
            "{warnings:?}"
        );
        assert!(peer_problems.warnings(|_| false).is_empty());
        peer_problems.note_accepted(2);
        assert!(peer_problems.warnings(|_| true).is_empty());
    }

    #[test]
    fn two_leaders_are_rivals_only_if_both_were_elected_in_one_term() {
        let voted = |term, node_id, committed| Vote {
            term,
            node_id,
            committed,
        };
        let elected = |term, node_id| voted(term, node_id, true);
        let rival = Rival {
            term: 5,
            own: 2,
            other: 3,
        };
        assert_eq!(Rival::of(&elected(5, 2), &elected(5, 3)), Some(rival));
        assert_eq!(Rival::of(&elected(5, 2), &elected(5, 2)), None);
        assert_eq!(Rival::of(&elected(6, 2), &elected(5, 3)), None);
        // A vote that was lost is no leader.
        assert_eq!(Rival::of(&voted(5, 2, false), &elected(5, 3)), None);
        assert_eq!(Rival::of(&elected(5, 2), &voted(5, 3, false)), None);
    }

    #[test]
    fn a_rival_counts_in_its_own_term_only() {
        let peer_problems = PeerProblems::default();
        assert_eq!(peer_problems.rival(5), None);
        let rival = Rival {
            term: 5,
            own: 2,
            other: 3,
        };
        peer_problems.note_rival(rival);
        assert_eq!(peer_problems.rival(5), Some(rival));
        assert_eq!(peer_problems.rival(6), None);
    }

    #[test]
    fn strangers_are_named_while_they_answer() {
        let peer_problems = PeerProblems::default();
        peer_problems.note_foreign([(3, "other".to_owned())].into());
        let warnings = peer_problems.warnings(|_| true);
        assert!(
            matches!(warnings.as_slice(), [one] if one.contains("seat 3") && one.contains("other")),
            "{warnings:?}"
        );
        peer_problems.note_foreign(BTreeMap::new());
        assert!(peer_problems.warnings(|_| true).is_empty());
    }
}
