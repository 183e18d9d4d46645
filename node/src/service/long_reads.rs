//! Turns of reads of many rows: one fewer than there are processors, so that such reads leave one to all other calls.

use std::{
    num::NonZero,
    sync::atomic::{AtomicU64, Ordering},
    thread::available_parallelism,
};

use tokio::{
    sync::{AcquireError, Semaphore, SemaphorePermit},
    time::{Instant, timeout_at},
};

use super::failure::Failure;
use crate::bounds::Shared;

/// The turns of one node.
#[derive(Debug)]
pub(super) struct LongReads {
    turns: Semaphore,
    all: usize,
    /// Reads whose turn did not come in time.
    refused: AtomicU64,
}

impl Default for LongReads {
    fn default() -> Self {
        let processors = available_parallelism().map_or(1, NonZero::get);
        Self::of(processors.saturating_sub(1).max(1))
    }
}

impl LongReads {
    fn of(all: usize) -> Self {
        Self {
            turns: Semaphore::new(all),
            all,
            refused: AtomicU64::new(0),
        }
    }

    /// Waits for a turn, in the order of arrival, until the deadline.
    pub(super) async fn turn_by(&self, deadline: Instant) -> Result<SemaphorePermit<'_>, Failure> {
        let Ok(turn) = timeout_at(deadline, self.turn()).await else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(Failure::Overloaded);
        };
        turn.map_err(|_| Failure::Stopping("it is shutting down".into()))
    }

    /// Waits for a turn, in the order of arrival.
    pub(super) async fn turn(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.turns.acquire().await
    }

    /// How many turns are taken, how many there are, and how many did not come in time.
    pub(super) fn fullness(&self) -> Shared {
        Shared {
            used: self.all - self.turns.available_permits(),
            limit: self.all,
            refused: self.refused.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn turns_that_are_taken_or_late_are_counted() {
        let reads = LongReads::of(1);
        let fullness = || {
            let Shared { used, refused, .. } = reads.fullness();
            (used, refused)
        };
        let deadline = Instant::now() + Duration::from_secs(1);
        let turn = reads.turn_by(deadline).await.unwrap();
        assert_eq!(fullness(), (1, 0));
        let late = reads.turn_by(deadline).await;
        assert!(matches!(late, Err(Failure::Overloaded)));
        assert_eq!(fullness(), (1, 1));
        drop(turn);
        assert_eq!(fullness(), (0, 1));
    }
}
