//! When a leader last answered this node, and how far the log was committed then.
//!
//! Consensus names the leader of the last term that it heard of, which may be long gone: a node
//! that is cut off, or has just started from its disk, would name it for ever. Only an answer shows
//! a leader, and that this node reaches it.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Notes answers of leaders, this node's own among them.
#[derive(Debug, Default)]
pub struct LeaderContact(Mutex<Answers>);

#[derive(Debug, Default)]
struct Answers {
    last: Option<Answer>,
    /// One up to whose index this node had not applied the log when it was last looked at.
    owed: Option<Answer>,
    lacking: Option<Lacking>,
    /// Which node answered otherwise than as a leader, and how.
    declined: Option<(u64, Declined)>,
}

/// A leader said that the log is committed up to an entry before the last one that this node had
/// applied when it asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lacking {
    /// The term that it leads.
    pub term: u64,
    /// The last entry that it said is committed.
    pub committed: u64,
    /// The last entry that this node had applied.
    pub applied: u64,
}

/// How a node that should lead answered, if not as a leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Declined {
    /// It does not lead; the node with this id does, if it knows one.
    NotLeading(Option<u64>),
    /// It leads, and could not confirm that with a majority.
    NoMajority,
    /// It refuses this node's messages, and says why.
    Refused(String),
}

#[derive(Debug, Clone, Copy)]
struct Answer {
    at: Instant,
    committed: u64,
}

impl LeaderContact {
    /// The leader of this term has just answered that the log is committed up to this index.
    pub fn note(&self, term: u64, committed: u64) {
        let answer = Answer {
            at: Instant::now(),
            committed,
        };
        let mut answers = self.answers();
        answers.last = Some(answer);
        answers.lacking = answers.lacking.filter(|lacking| lacking.term >= term);
        answers.declined = None;
        answers.owed.get_or_insert(answer);
    }

    /// A leader has answered that the log is committed up to an index, and this node had applied it
    /// further before it asked. So the leader lacks what was committed. Its answers are none from
    /// then on: what it writes later under the same indexes is something else.
    pub fn note_lacking(&self, lacking: Lacking) {
        let mut answers = self.answers();
        if answers
            .lacking
            .is_none_or(|known| known.term < lacking.term)
        {
            answers.lacking = Some(lacking);
        }
    }

    /// What the last leader that answered was found to lack.
    #[must_use]
    pub fn lacking(&self) -> Option<Lacking> {
        self.answers().lacking
    }

    /// The node with this id, which should lead, has answered so; `None` if it has not answered at
    /// all.
    pub fn note_declined(&self, node: u64, declined: Option<Declined>) {
        self.answers().declined = declined.map(|declined| (node, declined));
    }

    /// How the node with this id answered last, if it did, and not as a leader.
    #[must_use]
    pub fn declined(&self, node: u64) -> Option<Declined> {
        let declined = self.answers().declined.clone();
        declined.filter(|(id, _)| *id == node).map(|(_, how)| how)
    }

    /// How long ago a leader said that the log is committed beyond what this node has applied,
    /// which is up to `applied`; `None` if it has applied all that a leader said.
    #[must_use]
    pub fn behind_for(&self, applied: u64) -> Option<Duration> {
        let mut answers = self.answers();
        if answers.owed.is_some_and(|owed| owed.committed <= applied) {
            answers.owed = answers.last.filter(|last| last.committed > applied);
        }
        answers.owed.map(|owed| owed.at.elapsed())
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Up to where a leader that answered within this time said that the log is committed; `None`
    /// if none did.
    #[must_use]
    pub fn committed_within(&self, limit: Duration) -> Option<u64> {
        let last = self.answers().last;
        last.filter(|answer| answer.at.elapsed() <= limit)
            .map(|answer| answer.committed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_counts_only_from_its_answer_on_and_not_for_ever() {
        let contact = LeaderContact::default();
        assert_eq!(contact.committed_within(Duration::MAX), None);
        contact.note(1, 7);
        assert_eq!(contact.committed_within(Duration::MAX), Some(7));
        while contact.committed_within(Duration::from_millis(1)).is_some() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_leader_lacks_something_until_another_term_has_one_that_does_not() {
        let contact = LeaderContact::default();
        let lacking = |term| Lacking {
            term,
            committed: 7,
            applied: 9,
        };
        contact.note_lacking(lacking(4));
        assert_eq!(contact.lacking(), Some(lacking(4)));
        assert_eq!(contact.committed_within(Duration::MAX), None);
        // What it wrote since then is not what was committed there.
        contact.note(4, 12);
        assert_eq!(contact.lacking(), Some(lacking(4)));
        contact.note_lacking(lacking(5));
        contact.note_lacking(lacking(4));
        assert_eq!(contact.lacking(), Some(lacking(5)));
        contact.note(6, 9);
        assert_eq!(contact.lacking(), None);
    }

    #[test]
    fn a_node_declines_until_it_is_silent_or_a_leader_answers() {
        let contact = LeaderContact::default();
        assert_eq!(contact.declined(2), None);
        contact.note_declined(2, Some(Declined::NotLeading(Some(3))));
        assert_eq!(contact.declined(2), Some(Declined::NotLeading(Some(3))));
        assert_eq!(contact.declined(3), None);
        contact.note_declined(2, None);
        assert_eq!(contact.declined(2), None);
        contact.note_declined(2, Some(Declined::NoMajority));
        contact.note(4, 7);
        assert_eq!(contact.declined(2), None);
    }

    #[test]
    fn a_node_is_behind_from_the_first_answer_that_it_has_not_applied() {
        let contact = LeaderContact::default();
        assert_eq!(contact.behind_for(0), None);
        contact.note(1, 7);
        let first = contact.behind_for(6).expect("entry 7 is missing");
        contact.note(1, 9);
        assert!(contact.behind_for(6).expect("entry 7 is still missing") >= first);
        // What the first answer asked for is there; now the newest one counts.
        assert!(contact.behind_for(8).is_some());
        assert_eq!(contact.behind_for(9), None);
        contact.note(1, 9);
        assert_eq!(contact.behind_for(9), None);
    }
}
