//! What of this node's own log is durable: what it acknowledges to itself while it leads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::position::Position;

/// The last entry of the newest append that is durable, since this process started; none before the
/// first one, and after a truncation. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flushed(Arc<Mutex<Newest>>);

#[derive(Debug, Default)]
struct Newest {
    /// Its term and index.
    last: Option<(u64, u64)>,
    truncations: u64,
}

impl Flushed {
    /// An append is about to be made. Its end is noted by what this returns, unless the log is
    /// truncated before.
    pub(crate) fn appending(&self, last: Option<(u64, u64)>) -> impl FnOnce() + Send + use<> {
        let (flushed, truncations) = (self.clone(), self.newest().truncations);
        move || {
            let mut newest = flushed.newest();
            if newest.truncations == truncations {
                newest.last = last.or(newest.last);
            }
        }
    }

    pub(crate) fn truncated(&self) {
        let mut newest = self.newest();
        newest.last = None;
        newest.truncations += 1;
    }

    fn newest(&self) -> MutexGuard<'_, Newest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the leader of this term holds durably of its own log, as far as that is known.
    pub(crate) fn as_leader(&self, term: u64) -> Position {
        let last = self.newest().last;
        Position { term, last }
    }
}
