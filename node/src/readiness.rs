//! Whether a node should get requests; if not, why, and what to do.
//!
//! A reason names another node as the cause only if that node is: a node whose own log, vote or
//! identity keeps it from following says that, even though it looks to itself as if the others were
//! silent.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::{
    identity::{REMOVED, peer_problems::Rival},
    leader_contact::{Declined, Lacking, LeaderContact},
    limits::LAG_READY_MAX,
    membership::{
        bootstrap::{IF_MAJORITY_LOST, MAJORITY_SILENT},
        records::is_overrated,
    },
    quantity::count,
    raft::{
        Consensus,
        overview::{Overview, Role},
    },
};

/// A leader that hears of no majority for longer may have been replaced.
const MAJORITY_SILENCE_MAX: Duration = Duration::from_millis(1_500);

/// A node that no leader has answered for longer is cut off, or there is none: each node asks once
/// a second.
const LEADER_SILENCE_MAX: Duration = Duration::from_millis(2_500);

/// A node that has not applied for longer what a leader said is committed does not keep up.
const BEHIND_MAX: Duration = Duration::from_secs(3);

/// Whether this node may serve. Cheap to clone.
#[derive(Clone)]
pub struct Readiness {
    consensus: Consensus,
    contact: Arc<LeaderContact>,
    stopping: Arc<AtomicBool>,
}

impl Readiness {
    /// Looks at this node's consensus, and at what leaders answered it.
    #[must_use]
    pub fn new(consensus: Consensus, contact: Arc<LeaderContact>) -> Self {
        Self {
            consensus,
            contact,
            stopping: Arc::default(),
        }
    }

    /// From now on this node is not ready.
    pub fn stop_serving(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Whether this node answers calls at all.
    ///
    /// # Errors
    /// Why not: it is no member any more.
    pub fn serves(&self) -> Result<(), String> {
        let identity = self.consensus.identity();
        if identity.is_removed() {
            return Err(REMOVED.to_owned());
        }
        identity.put_back().map_or(Ok(()), Err)
    }

    /// Whether this node should get requests.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn now(&self) -> Result<(), String> {
        self.at(&self.consensus.overview())
    }

    /// Whether this node should get requests, as of this overview.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn at(&self, overview: &Overview) -> Result<(), String> {
        self.serves()?;
        if self.stopping.load(Ordering::Acquire) {
            return Err("this node is stopping".to_owned());
        }
        if let Some(why) = &overview.stopped {
            return Err(format!("consensus stopped here: {why}"));
        }
        self.may_be_a_member()?;
        let committed = self.committed(overview)?;
        let lag = committed.saturating_sub(overview.applied);
        let behind = self.contact.behind_for(overview.applied);
        if lag > LAG_READY_MAX || behind.is_some_and(|behind| behind > BEHIND_MAX) {
            return Err(lags(lag));
        }
        Ok(())
    }

    /// Whether this node takes part, in a cluster that has a name and knows the node's version.
    fn may_be_a_member(&self) -> Result<(), String> {
        let identity = self.consensus.identity();
        for waits_for in [identity.waits_for(), identity.acknowledged().waits_for()] {
            if !waits_for.is_empty() {
                return Err(waits_for.as_ref().clone());
            }
        }
        // Until then it could not tell another cluster's messages from its own.
        if identity.cluster_id().is_empty() {
            return Err("the cluster has no name yet: its leader gives it one".to_owned());
        }
        // The next node must not be upgraded yet: that could raise the level over this one.
        if is_overrated(&self.consensus) {
            return Err(
                "the membership has this node as a newer version: a leader is asked to correct that"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Up to where the log is committed, as a leader confirmed it a moment ago.
    fn committed(&self, overview: &Overview) -> Result<u64, String> {
        let identity = self.consensus.identity();
        let answered = self.contact.committed_within(LEADER_SILENCE_MAX);
        let follows_none = answered.is_none() && overview.role != Role::Leader;
        if let Some(rival) = identity.peer_problems().rival(overview.term)
            && (follows_none || overview.leader_id == 0)
        {
            return Err(two_leaders(identity.node_id(), rival));
        }
        if overview.leader_id == 0 {
            return Err(self.with_refusals(
                overview,
                format!(
                    "no leader is known: check that a majority of the nodes runs; {IF_MAJORITY_LOST}"
                ),
            ));
        }
        if overview
            .majority_silent_for
            .is_some_and(|silent| silent > MAJORITY_SILENCE_MAX)
        {
            return Err(
                self.with_refusals(overview, format!("{MAJORITY_SILENT}; {IF_MAJORITY_LOST}"))
            );
        }
        if let Some(lacking) = self.contact.lacking() {
            return Err(lacks(lacking));
        }
        match answered {
            Some(committed) => Ok(committed.max(overview.committed)),
            None if overview.role == Role::Leader => Ok(overview.committed),
            None => {
                let leader = overview.leader_id;
                let why = unanswered(leader, self.contact.declined(leader));
                Err(self.with_refusals(overview, why))
            }
        }
    }

    /// A reason, and which members refuse this node's messages, since they are not the ones to look
    /// at then.
    fn with_refusals(&self, overview: &Overview, why: String) -> String {
        let is_member = |id| overview.members.iter().any(|m| m.id == id);
        let refusals = self
            .consensus
            .identity()
            .peer_problems()
            .warnings(is_member);
        let reasons = std::iter::once(why).chain(refusals);
        reasons.collect::<Vec<_>>().join("; ")
    }
}

/// What a node says that cannot follow a term's leader, since it has another one of that term. `me`
/// is its id.
fn two_leaders(me: u64, rival: Rival) -> String {
    let Rival { term, own, other } = rival;
    let own = if own == me {
        format!("this node led in term {term}")
    } else {
        format!("this node followed node {own} in term {term}")
    };
    format!(
        "{own}, and node {other} was elected in the same term, by nodes whose disks were put back to an older state or lost: this node \
         cannot follow it; to keep what this node holds, stop the others, and make a new cluster of this node with `helve recover`; to \
         keep what they hold instead, start this node with an empty --data-dir"
    )
}

/// What a node says that has this many committed entries to apply.
fn lags(entries: u64) -> String {
    format!(
        "{} committed entries are not applied yet: if that does not shrink, look at this node's log and disk, and at its leader's",
        count(entries)
    )
}

/// What a node says whose leader lacks what was committed.
fn lacks(lacking: Lacking) -> String {
    let Lacking {
        committed, applied, ..
    } = lacking;
    format!(
        "the leader has nothing committed after entry {committed}, and this node has applied entry {applied}: it was elected by nodes \
         whose disks were put back to an older state or lost; stop the others, and make a new cluster of this node with `helve recover`"
    )
}

/// What a node says that has no answer from the node that should lead.
fn unanswered(leader: u64, declined: Option<Declined>) -> String {
    match declined {
        None => format!(
            "node {leader} should lead, but does not answer this node: check that it runs and can be reached; {IF_MAJORITY_LOST}"
        ),
        Some(Declined::NoMajority) => format!(
            "node {leader} leads, and a majority of the nodes does not answer it: check that a majority runs; {IF_MAJORITY_LOST}"
        ),
        Some(Declined::NotLeading(None)) => format!(
            "node {leader} led last, and says that it does not lead any more, and knows no leader: check that a majority of the nodes \
             runs; {IF_MAJORITY_LOST}"
        ),
        Some(Declined::NotLeading(Some(next))) => format!(
            "node {leader} led last, and says that node {next} leads now, of which this node has not heard: look at the log of node \
             {next}, and check that it reaches this node's peer address"
        ),
        Some(Declined::Refused(why)) => {
            format!("node {leader} should lead, and refuses this node's messages: {why}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_that_answers_is_not_called_silent() {
        let silent = "does not answer this node";
        let dead = unanswered(2, None);
        assert!(
            dead.contains(silent) && dead.contains("helve recover"),
            "{dead}"
        );
        for declined in [
            Declined::NoMajority,
            Declined::NotLeading(None),
            Declined::NotLeading(Some(3)),
            Declined::Refused("it was replaced".to_owned()),
        ] {
            let why = unanswered(2, Some(declined));
            assert!(why.contains("node 2") && !why.contains(silent), "{why}");
        }
        let refused = unanswered(2, Some(Declined::Refused("it was replaced".to_owned())));
        assert!(refused.ends_with("it was replaced"), "{refused}");
    }

    #[test]
    fn lag_of_a_node_is_told_in_millions() {
        assert!(lags(12_345_678).starts_with("12.35M committed entries"));
    }

    #[test]
    fn a_node_with_two_leaders_of_one_term_names_both_and_what_to_do() {
        let rival = Rival {
            term: 5,
            own: 2,
            other: 3,
        };
        let why = two_leaders(1, rival);
        let said = [
            "followed node 2 in term 5",
            "node 3",
            "helve recover",
            "--data-dir",
        ];
        assert!(said.iter().all(|part| why.contains(part)), "{why}");
        assert!(two_leaders(2, rival).contains("this node led in term 5"));
    }
}
