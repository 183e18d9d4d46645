//! Reads that may wait for the disk, on threads where that is allowed.
//!
//! A thread takes whatever waits, in one view: to wake a thread and to open a view costs more than
//! to fetch a row that the operating system holds in memory. The longer the queue, and the more
//! recent reads waited for the disk, the more threads; one that waits for a slow disk holds up no
//! other.
//!
//! Tenants take turns where reads wait, and reads of many rows never have all threads: what one
//! tenant has waiting delays the reads of another by a turn.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use super::ReadError;
use crate::{
    bounds::{self, Shared},
    fair_queue::FairQueue,
    keyed_places::{SharedPlace, SharedPlaces},
    limits::{
        DISK_READS_LONG_MAX, DISK_READS_MAX, DISK_READS_TOGETHER_MAX, DISK_READS_WAITING_MAX,
    },
    storage::{disk_waits::DiskWaits, state_db::StateDb, state_view::StateView},
};

/// How long a job takes, once its rows are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// This many reads, each of few rows.
    Few(usize),
    /// A read that may look at many, so that no other should wait behind it.
    Many,
}

/// Where reads wait for a thread. Clones share it.
#[derive(Clone)]
pub(super) struct DiskReads {
    state: Arc<StateDb>,
    places: SharedPlaces,
    queue: Arc<Mutex<Queue>>,
    waits: Arc<DiskWaits>,
}

/// Jobs by their tenants, each weighing its reads. Those of the node itself are a tenant's, too.
type Waiting = FairQueue<String, Pending>;

/// A job that waits.
struct Pending {
    reads: usize,
    job: Job,
    _place: SharedPlace,
}

struct Queue {
    quick: Waiting,
    /// Reads of these.
    quick_reads: usize,
    /// Of those that look at many rows.
    slow: Waiting,
    slow_reads: usize,
    threads: usize,
    /// Those of them that are at a query of many rows.
    long: usize,
    /// Whether the last thread that asked was given such a query.
    was_long: bool,
}

/// What a thread does next, in one view.
struct Next {
    is_long: bool,
    reads: usize,
    jobs: Vec<Job>,
}

/// What is done in a view.
pub(super) type Job = Box<dyn FnOnce(&StateView<'_>) + Send>;

impl DiskReads {
    pub(super) fn new(state: Arc<StateDb>) -> Self {
        Self {
            state,
            places: SharedPlaces::new(DISK_READS_WAITING_MAX),
            queue: Arc::new(Mutex::new(Queue::new())),
            waits: Arc::default(),
        }
    }

    /// How many reads of few rows a job should hold at most.
    pub(super) fn reads_together(&self) -> usize {
        self.waits.reads_together()
    }

    /// The result of a query in a view that is opened after this call.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        tenant: &str,
        extent: Extent,
        deadline: Instant,
        query: impl FnOnce(&StateView<'_>) -> T + Send + 'static,
    ) -> Result<T, ReadError> {
        let (reply, answer) = oneshot::channel();
        let job = move |view: &StateView<'_>| {
            if !reply.is_closed() {
                // A reader that has gone away wants no answer.
                let _ = reply.send(query(view));
            }
        };
        if !self.push(tenant, extent, Box::new(job)) {
            return Err(ReadError::Overloaded(bounds::DISK_READS));
        }
        let answered = timeout_at(deadline, answer).await;
        answered
            .map_err(|_| ReadError::Overloaded(bounds::DISK_READS))?
            .map_err(|_| ReadError::Stopping)
    }

    /// How many reads wait, how many may, and how often one was refused.
    pub(super) fn fullness(&self) -> Shared {
        Shared {
            used: self.places.used(),
            limit: DISK_READS_WAITING_MAX,
            refused: self.places.refused(),
        }
    }

    /// Has something done for a tenant in a view that is opened after this call, unless too much waits already, of all or of the tenant.
    pub(super) fn push(&self, tenant: &str, extent: Extent, job: Job) -> bool {
        let reads = match extent {
            Extent::Few(reads) => reads,
            Extent::Many => 1,
        };
        let Some(place) = self.places.take(tenant, reads) else {
            return false;
        };
        let pending = Pending {
            reads,
            job,
            _place: place,
        };
        let mut queue = lock(&self.queue);
        queue.push(tenant, extent, pending);
        if queue.wants_thread(self.reads_together()) {
            queue.threads += 1;
            let thread = Thread {
                reads: self.clone(),
                is_counted: true,
                is_long: false,
            };
            tokio::task::spawn_blocking(move || thread.work());
        }
        true
    }
}

impl Queue {
    fn new() -> Self {
        Self {
            quick: Waiting::new(DISK_READS_TOGETHER_MAX),
            quick_reads: 0,
            slow: Waiting::new(1),
            slow_reads: 0,
            threads: 0,
            long: 0,
            was_long: false,
        }
    }

    fn push(&mut self, tenant: &str, extent: Extent, pending: Pending) {
        let reads = pending.reads;
        let (queue, waiting) = match extent {
            Extent::Few(_) => (&mut self.quick, &mut self.quick_reads),
            Extent::Many => (&mut self.slow, &mut self.slow_reads),
        };
        queue.push(tenant, reads, pending);
        *waiting += reads;
    }

    /// What waits last would wait behind long queries, or behind too many short ones.
    fn wants_thread(&self, together: usize) -> bool {
        let quick = self.threads - self.long;
        let slow = self
            .slow_reads
            .min(DISK_READS_LONG_MAX.saturating_sub(self.long));
        let waiting = self.quick_reads + slow;
        let is_behind = waiting > (quick + 1) * (together - 1) / 2;
        self.threads < DISK_READS_MAX && waiting > 0 && (quick <= slow || is_behind)
    }

    /// One long query, or as many short ones as a thread takes together; `None` if there is none that it may take. The two kinds take
    /// turns, so that neither waits for all of the other.
    fn next(&mut self, together: usize) -> Option<Next> {
        let may_be_long = self.long < DISK_READS_LONG_MAX && !self.slow.is_empty();
        let is_long = may_be_long && (!self.was_long || self.quick.is_empty());
        let taken = if is_long {
            self.slow.take(1, usize::MAX, |_| true)
        } else {
            self.quick.take(usize::MAX, together, |_| true)
        };
        let reads: usize = taken.iter().map(|pending| pending.reads).sum();
        if is_long {
            self.slow_reads -= reads;
            self.long += 1;
        } else {
            self.quick_reads -= reads;
        }
        self.was_long = is_long;
        (!taken.is_empty()).then(|| Next {
            is_long,
            reads,
            jobs: taken.into_iter().map(|pending| pending.job).collect(),
        })
    }
}

/// One thread at work. However it ends, it is not counted any more.
struct Thread {
    reads: DiskReads,
    is_counted: bool,
    is_long: bool,
}

impl Thread {
    fn work(mut self) {
        while let Some(Next { reads, jobs, .. }) = self.next() {
            let run = |view: &StateView<'_>| jobs.into_iter().for_each(|job| job(view));
            if self.is_long {
                self.reads.state.read(run);
            } else {
                let waits = &self.reads.waits;
                waits.during(reads, || self.reads.state.read(run));
            }
        }
    }

    /// `None` if nothing waits that it may do: a later reader sees that this thread is gone.
    fn next(&mut self) -> Option<Next> {
        let mut queue = lock(&self.reads.queue);
        queue.long -= usize::from(std::mem::take(&mut self.is_long));
        let next = queue.next(self.reads.reads_together());
        if let Some(next) = &next {
            self.is_long = next.is_long;
        } else {
            queue.threads -= 1;
            self.is_counted = false;
        }
        next
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        let mut queue = lock(&self.reads.queue);
        queue.threads -= usize::from(self.is_counted);
        queue.long -= usize::from(self.is_long);
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    // No query runs under the lock, and a panic elsewhere under it leaves the content whole.
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
