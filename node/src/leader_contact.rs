//! When a leader last answered this node, and how far the log was committed then.
//!
//! Consensus names the leader of the last term that it heard of, which may be long gone: a node that is cut off, or has just started
//! from its disk, would name it for ever. Only an answer shows that there is a leader, and that this node reaches it.

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
    /// What the last leader said, and what this node had applied before it asked, if that is more.
    lacking: Option<(u64, u64)>,
}

#[derive(Debug, Clone, Copy)]
struct Answer {
    at: Instant,
    committed: u64,
}

impl LeaderContact {
    /// A leader has just answered that the log is committed up to this index.
    pub fn note(&self, committed: u64) {
        let answer = Answer {
            at: Instant::now(),
            committed,
        };
        let mut answers = self.answers();
        answers.last = Some(answer);
        answers.lacking = None;
        answers.owed.get_or_insert(answer);
    }

    /// A leader has answered that the log is committed up to an index, and this node had applied it further before it asked. So the leader
    /// lacks what was committed: until one answers otherwise, its answers are none.
    pub fn note_lacking(&self, committed: u64, applied: u64) {
        self.answers().lacking = Some((committed, applied));
    }

    /// What the last leader that answered lacks: up to where it said that the log is committed, and up to where this node has applied it.
    #[must_use]
    pub fn lacking(&self) -> Option<(u64, u64)> {
        self.answers().lacking
    }

    /// How long ago a leader said that the log is committed beyond what this node has applied, which is up to `applied`; `None` if it
    /// has applied all that a leader said.
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

    /// Up to where a leader that answered within this time said that the log is committed; `None` if none did.
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
        contact.note(7);
        assert_eq!(contact.committed_within(Duration::MAX), Some(7));
        while contact.committed_within(Duration::from_millis(1)).is_some() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_leader_lacks_something_until_one_answers_that_does_not() {
        let contact = LeaderContact::default();
        contact.note_lacking(7, 9);
        assert_eq!(contact.lacking(), Some((7, 9)));
        assert_eq!(contact.committed_within(Duration::MAX), None);
        contact.note(9);
        assert_eq!(contact.lacking(), None);
    }

    #[test]
    fn a_node_is_behind_from_the_first_answer_that_it_has_not_applied() {
        let contact = LeaderContact::default();
        assert_eq!(contact.behind_for(0), None);
        contact.note(7);
        let first = contact.behind_for(6).expect("entry 7 is missing");
        contact.note(9);
        assert!(contact.behind_for(6).expect("entry 7 is still missing") >= first);
        // What the first answer asked for is there; now the newest one counts.
        assert!(contact.behind_for(8).is_some());
        assert_eq!(contact.behind_for(9), None);
        contact.note(9);
        assert_eq!(contact.behind_for(9), None);
    }
}
