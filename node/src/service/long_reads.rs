//! Turns of reads of many rows: one fewer than there are processors, so that such reads leave one to all other calls.

use std::{
    num::NonZero,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::available_parallelism,
};

use tokio::{
    sync::oneshot::{self, error::RecvError},
    time::{Instant, timeout_at},
};

use super::failure::Failure;
use crate::{
    bounds::{self, Shared},
    fair_queue::FairQueue,
};

/// The turns of one node.
#[derive(Debug)]
pub(super) struct LongReads {
    turns: Arc<Turns>,
    all: usize,
    /// Reads whose turn did not come in time.
    refused: AtomicU64,
}

#[derive(Debug)]
struct Turns(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Only while no read waits.
    free: usize,
    /// By tenant, and each weighs the same.
    waiting: FairQueue<String, oneshot::Sender<Turn>>,
}

/// A turn. Dropped, by its read or on its way to one that has gone, it is the next one's.
#[derive(Debug)]
pub(super) struct Turn(Arc<Turns>);

impl Default for LongReads {
    fn default() -> Self {
        let processors = available_parallelism().map_or(1, NonZero::get);
        Self::of(processors.saturating_sub(1).max(1))
    }
}

impl LongReads {
    fn of(all: usize) -> Self {
        let state = State {
            free: all,
            waiting: FairQueue::new(1),
        };
        Self {
            turns: Arc::new(Turns(Mutex::new(state))),
            all,
            refused: AtomicU64::new(0),
        }
    }

    /// Waits for a turn until the deadline, as [`turn`](Self::turn) does.
    pub(super) async fn turn_by(&self, tenant: &str, deadline: Instant) -> Result<Turn, Failure> {
        let Ok(turn) = timeout_at(deadline, self.turn(tenant)).await else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(Failure::Overloaded(bounds::LONG_READS));
        };
        turn.map_err(|_| Failure::Stopping("it is shutting down".into()))
    }

    /// Waits for a turn. Tenants have them one after another, and the reads of one in the order of arrival.
    pub(super) async fn turn(&self, tenant: &str) -> Result<Turn, RecvError> {
        let (sender, turn) = oneshot::channel();
        {
            let mut state = self.turns.lock();
            if state.free > 0 {
                state.free -= 1;
                return Ok(Turn(Arc::clone(&self.turns)));
            }
            state.waiting.push(tenant, 1, sender);
            // A turn may last: reads that gave up meanwhile must not fill the queue.
            state.waiting.sweep(|waiter| !waiter.is_closed());
        }
        turn.await
    }

    /// How many reads wait, gone or not.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.turns.lock().waiting.len()
    }

    /// How many turns are taken, how many there are, and how many did not come in time.
    pub(super) fn fullness(&self) -> Shared {
        Shared {
            used: self.all - self.turns.lock().free,
            limit: self.all,
            refused: self.refused.load(Ordering::Relaxed),
        }
    }
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The read whose turn is next; if none waits, the turn is free.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        let next = self.waiting.take(1, 1, |waiter| !waiter.is_closed()).pop();
        self.free += usize::from(next.is_none());
        next
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let next = self.0.lock().next();
        if let Some(next) = next {
            // If that read has just gone, the turn comes back, and is dropped again: not under the lock.
            let _ = next.send(Self(Arc::clone(&self.0)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn turns_that_are_taken_or_late_are_counted() {
        let reads = LongReads::of(1);
        let fullness = || {
            let Shared { used, refused, .. } = reads.fullness();
            (used, refused)
        };
        let deadline = Instant::now() + Duration::from_secs(1);
        let turn = reads.turn_by("acme", deadline).await.unwrap();
        assert_eq!(fullness(), (1, 0));
        let late = reads.turn_by("acme", deadline).await;
        assert!(matches!(late, Err(Failure::Overloaded("long-reads"))));
        assert_eq!(fullness(), (1, 1));
        drop(turn);
        assert_eq!(fullness(), (0, 1));
    }

    #[tokio::test]
    async fn read_waits_for_one_turn_of_a_tenant_with_many() {
        let reads = LongReads::of(1);
        let mut turn = reads.turn("greedy").await.unwrap();
        let mut waiting: Vec<_> = ["greedy", "greedy", "greedy", "honest", "greedy"]
            .into_iter()
            .map(|tenant| (tenant, Box::pin(reads.turn(tenant))))
            .collect();
        for (_, read) in &mut waiting {
            assert!(read.now_or_never().is_none(), "the turn is taken");
        }
        let mut order = Vec::new();
        while !waiting.is_empty() {
            drop(turn);
            let mut had = Vec::new();
            for (at, (_, read)) in waiting.iter_mut().enumerate() {
                had.extend(read.now_or_never().map(|turn| (at, turn.unwrap())));
            }
            assert_eq!(had.len(), 1, "one turn is one read's");
            let (at, next) = had.remove(0);
            order.push(waiting.remove(at).0);
            turn = next;
        }
        assert_eq!(order, ["greedy", "honest", "greedy", "greedy", "greedy"]);
    }

    #[tokio::test]
    async fn little_is_left_of_reads_that_give_up_during_a_turn() {
        let reads = LongReads::of(1);
        let turn = reads.turn("acme").await.unwrap();
        let mut waits = Box::pin(reads.turn("acme"));
        assert!((&mut waits).now_or_never().is_none());
        for _ in 0..10_000 {
            let gone = reads.turn("acme").now_or_never();
            assert!(gone.is_none(), "the turn is taken");
        }
        let left = reads.waiting();
        assert!(left < 1_000, "{left}");
        drop(turn);
        assert!(waits.now_or_never().is_some());
    }

    #[tokio::test]
    async fn turn_of_a_read_that_has_gone_is_the_next_ones() {
        let reads = LongReads::of(1);
        let turn = reads.turn("acme").await.unwrap();
        let mut gone = Box::pin(reads.turn("acme"));
        let mut unread = Box::pin(reads.turn("acme"));
        let mut next = Box::pin(reads.turn("acme"));
        for read in [&mut gone, &mut unread, &mut next] {
            assert!(read.now_or_never().is_none());
        }
        // The one goes while it waits, the other once it has the turn.
        drop(gone);
        drop(turn);
        drop(unread);
        let turn = next.now_or_never().unwrap().unwrap();
        assert_eq!(reads.fullness().used, 1);
        drop(turn);
        assert_eq!(reads.fullness().used, 0);
    }
}
