//! When a leader last answered this node, and how far the log was committed then.
//!
//! Consensus names the leader of the last term that it heard of, which may be long gone: a node that is cut off, or has just started
//! from its disk, would name it for ever. Only an answer shows that there is a leader, and that this node reaches it.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Notes answers of leaders, this node's own among them.
#[derive(Debug, Default)]
pub struct LeaderContact(Mutex<Option<Answer>>);

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
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
    }

    /// Up to where a leader that answered within this time said that the log is committed; `None` if none did.
    #[must_use]
    pub fn committed_within(&self, limit: Duration) -> Option<u64> {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
}
