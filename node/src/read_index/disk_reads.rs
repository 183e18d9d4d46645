//! Reads that may wait for the disk, on threads where that is allowed.
//!
//! A thread takes whatever waits, in one view: to wake a thread and to open a view costs more than
//! to fetch a row that the operating system holds in memory. The longer the queue, and the more
//! recent reads waited for the disk, the more threads; one that waits for a slow disk holds up no
//! other.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use super::ReadError;
use crate::{
    limits::{DISK_READS_MAX, DISK_READS_WAITING_MAX},
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

impl Extent {
    fn reads(self) -> usize {
        match self {
            Self::Few(reads) => reads,
            Self::Many => 1,
        }
    }
}

/// Where reads wait for a thread. Clones share it.
#[derive(Clone)]
pub(super) struct DiskReads {
    state: Arc<StateDb>,
    queue: Arc<Mutex<Queue>>,
    waits: Arc<DiskWaits>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(Extent, Job)>,
    waiting_reads: usize,
    /// Those of them that look at many rows.
    waiting_long: usize,
    threads: usize,
    /// Those of them that are at a query of many rows.
    long: usize,
}

/// What is done in a view.
pub(super) type Job = Box<dyn FnOnce(&StateView<'_>) + Send>;

impl DiskReads {
    pub(super) fn new(state: Arc<StateDb>) -> Self {
        Self {
            state,
            queue: Arc::default(),
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
        if !self.push(extent, Box::new(job)) {
            return Err(ReadError::Overloaded);
        }
        let answered = timeout_at(deadline, answer).await;
        answered
            .map_err(|_| ReadError::Overloaded)?
            .map_err(|_| ReadError::Stopping)
    }

    /// Has something done in a view that is opened after this call, unless too much waits already.
    pub(super) fn push(&self, extent: Extent, job: Job) -> bool {
        let mut queue = lock(&self.queue);
        if queue.waiting_reads >= DISK_READS_WAITING_MAX {
            return false;
        }
        queue.waiting.push_back((extent, job));
        queue.waiting_reads += extent.reads();
        queue.waiting_long += usize::from(extent == Extent::Many);
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
    /// What waits last would wait behind long queries, or behind too many short ones.
    fn wants_thread(&self, together: usize) -> bool {
        let quick = self.threads - self.long;
        let is_behind = self.waiting_reads > (quick + 1) * (together - 1) / 2;
        self.threads < DISK_READS_MAX && (quick <= self.waiting_long || is_behind)
    }

    /// What one thread does next: one long query, or as many short ones as it takes together.
    fn next(&mut self, together: usize) -> Vec<(Extent, Job)> {
        let mut next = Vec::new();
        let mut reads = 0;
        while let Some((extent, _)) = self.waiting.front() {
            reads += extent.reads();
            let is_long = *extent == Extent::Many;
            if !next.is_empty() && (is_long || reads > together) {
                break;
            }
            next.extend(self.waiting.pop_front());
            if is_long {
                self.waiting_long -= 1;
                break;
            }
        }
        self.waiting_reads -= next.iter().map(|(extent, _)| extent.reads()).sum::<usize>();
        next
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
        while let Some(jobs) = self.next() {
            let reads = jobs.iter().map(|(extent, _)| extent.reads()).sum();
            let run = |view: &StateView<'_>| jobs.into_iter().for_each(|(_, job)| job(view));
            if self.is_long {
                self.reads.state.read(run);
            } else {
                let waits = &self.reads.waits;
                waits.during(reads, || self.reads.state.read(run));
            }
        }
    }

    /// `None` if nothing waits: a later reader sees that this thread is gone.
    fn next(&mut self) -> Option<Vec<(Extent, Job)>> {
        let mut queue = lock(&self.reads.queue);
        queue.long -= usize::from(std::mem::take(&mut self.is_long));
        let jobs = queue.next(self.reads.reads_together());
        if jobs.is_empty() {
            queue.threads -= 1;
            self.is_counted = false;
            return None;
        }
        self.is_long = jobs[0].0 == Extent::Many;
        queue.long += usize::from(self.is_long);
        Some(jobs)
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
mod tests {
    use std::{
        sync::{Barrier, mpsc},
        time::Duration,
    };

    use futures::future::try_join_all;
    use helve_machine::View;
    use helve_proto::peer::v1::LogId;
    use tempfile::TempDir;

    use super::*;
    use crate::{limits::DISK_READS_TOGETHER_MAX, storage::options::StateOptions};

    fn reads() -> (DiskReads, TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDb::open(directory.path(), StateOptions::default()).unwrap();
        (DiskReads::new(Arc::new(state)), directory)
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    /// A query that goes on until it is let go.
    fn long(reads: &DiskReads) -> (mpsc::Sender<()>, tokio::task::JoinHandle<()>) {
        let (go, wait) = mpsc::channel::<()>();
        let reads = reads.clone();
        let asked = tokio::spawn(async move {
            let query = move |_: &StateView<'_>| wait.recv().unwrap_or_default();
            reads.ask(Extent::Many, soon(), query).await.unwrap();
        });
        (go, asked)
    }

    #[tokio::test]
    async fn each_query_sees_what_was_written_before_it_was_asked() {
        let (reads, _directory) = reads();
        for index in 1..200_u64 {
            let value = index.to_be_bytes().to_vec();
            let row = ("cart".into(), Some(value.clone().into()));
            let log_id = LogId { term: 1, index };
            reads.state.write([row], &log_id, None).unwrap();
            let query = |view: &StateView<'_>| view.get(b"cart").unwrap();
            let found = reads.ask(Extent::Few(1), soon(), query).await.unwrap();
            assert_eq!(found, Some(value.into()));
        }
        assert!(lock(&reads.queue).waiting.is_empty());
    }

    #[tokio::test]
    async fn a_long_query_holds_up_no_other_until_all_threads_have_one() {
        let (reads, _directory) = reads();
        let mut under_way = Vec::new();
        for threads in 1..DISK_READS_MAX {
            under_way.push(long(&reads));
            let answer = reads
                .ask(Extent::Few(1), soon(), move |_| threads)
                .await
                .unwrap();
            assert_eq!(answer, threads);
        }
        under_way.push(long(&reads));
        while lock(&reads.queue).long < DISK_READS_MAX {
            tokio::task::yield_now().await;
        }
        let late = Instant::now() + Duration::from_millis(1);
        let refused = reads.ask(Extent::Few(1), late, |_| ()).await;
        assert!(matches!(refused, Err(ReadError::Overloaded)));
        for (go, asked) in under_way {
            go.send(()).unwrap();
            asked.await.unwrap();
        }
        reads.ask(Extent::Few(1), soon(), |_| ()).await.unwrap();
    }

    /// A disk: nothing is ever sent, so the thread that asks waits.
    fn slow() -> impl FnOnce(&StateView<'_>) + Send {
        let (never, wait) = mpsc::channel::<()>();
        move |_| {
            assert!(wait.recv_timeout(Duration::from_millis(1)).is_err());
            drop(never);
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn reads_wait_for_a_slow_disk_side_by_side_and_share_a_thread_once_it_is_quick() {
        let (reads, _directory) = reads();
        assert_eq!(reads.reads_together(), DISK_READS_TOGETHER_MAX);
        while reads.reads_together() > 1 {
            reads.ask(Extent::Few(1), soon(), slow()).await.unwrap();
        }
        let all = Arc::new(Barrier::new(DISK_READS_MAX));
        let met = (0..DISK_READS_MAX).map(|_| {
            let all = Arc::clone(&all);
            reads.ask(Extent::Few(1), soon(), move |_| all.wait())
        });
        try_join_all(met).await.unwrap();
        while reads.reads_together() < DISK_READS_TOGETHER_MAX {
            reads.ask(Extent::Few(1), soon(), |_| ()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn more_than_may_wait_is_refused() {
        let (reads, _directory) = reads();
        let waits = || (Extent::Few(1), Box::new(|_: &StateView<'_>| ()) as Job);
        *lock(&reads.queue) = Queue {
            waiting: std::iter::repeat_with(waits)
                .take(DISK_READS_WAITING_MAX)
                .collect(),
            waiting_reads: DISK_READS_WAITING_MAX,
            waiting_long: 0,
            threads: DISK_READS_MAX,
            long: DISK_READS_MAX,
        };
        let refused = reads.ask(Extent::Few(1), soon(), |_| ()).await;
        assert!(matches!(refused, Err(ReadError::Overloaded)));
    }
}
