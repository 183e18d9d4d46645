//! The way to the thread that applies, and when that writes the rows that it has worked out.
//!
//! Reads need written rows. Where there are none, a caller is answered as soon as a command is
//! applied: its entry is durable, and a crash replays it. Its rows are kept for a moment, and
//! written with those of the commands that follow. What every command changes is then written once,
//! and short-lived rows, such as most replay outcomes, never reach disk. Where there are reads,
//! rows are written first: a read that follows an answer finds them, and has no task to wake.

use std::{
    collections::VecDeque,
    io,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use helve_proto::command::v1::Outcome;
use tokio::sync::{oneshot, watch};

use super::chunk::Chunk;
use crate::limits::{APPLY_LINGER, APPLY_READ_LATELY};

/// Who waits for outcomes, one for each entry.
pub(super) type Done = oneshot::Sender<io::Result<Vec<Outcome>>>;

/// Entries to apply, and whom to tell. An empty chunk has what was applied before it written.
pub(super) struct Work {
    pub(super) chunk: Chunk,
    pub(super) done: Done,
}

/// Rows that wait to be written together with others.
pub(super) trait Linger {
    /// Whether they may: callers that wait for outcomes are told first then.
    fn may(&self) -> bool;

    /// Work whose rows can be written with those that wait; `None` once they are to be written.
    fn next(&mut self) -> Option<Work>;
}

/// The way to the thread.
pub(crate) struct ApplyQueue {
    waiting: Mutex<Waiting>,
    /// Told to the thread: there is something to do.
    changed: Condvar,
    /// Why nothing is applied any more.
    ended: watch::Sender<Option<String>>,
}

#[derive(Default)]
struct Waiting {
    work: VecDeque<Work>,
    /// Somebody reads rows as of this entry.
    wanted: u64,
    read_at: Option<Instant>,
    /// While the thread waits for more before it writes: up to where rows are written.
    behind: Option<u64>,
    is_closed: bool,
}

impl ApplyQueue {
    pub(super) fn new() -> Self {
        Self {
            waiting: Mutex::default(),
            changed: Condvar::new(),
            ended: watch::Sender::new(None),
        }
    }

    /// Hands over work. Consensus waits for each, so few wait here.
    ///
    /// # Errors
    /// Why nothing is applied any more.
    pub(super) fn push(&self, work: Work) -> io::Result<()> {
        let mut waiting = self.lock();
        if let Some(why) = &*self.ended.borrow() {
            return Err(io::Error::other(why.clone()));
        }
        waiting.work.push_back(work);
        drop(waiting);
        self.changed.notify_one();
        Ok(())
    }

    /// Somebody reads rows as of this entry: they are written at once, or as soon as it is applied, and so are others for a while.
    pub(crate) fn want(&self, index: u64) {
        let mut waiting = self.lock();
        waiting.read_at = Some(Instant::now());
        waiting.wanted = waiting.wanted.max(index);
        let is_waited_for = waiting.behind.is_some_and(|written| written < index);
        drop(waiting);
        if is_waited_for {
            self.changed.notify_one();
        }
    }

    /// Waits for work; `None` once the queue is closed.
    pub(super) fn next(&self) -> Option<Work> {
        let mut waiting = self.lock();
        loop {
            if waiting.is_closed {
                return None;
            }
            if let Some(work) = waiting.work.pop_front() {
                return Some(work);
            }
            let woken = self.changed.wait(waiting);
            waiting = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Rows that begin to wait now, where rows are written up to this entry.
    pub(super) fn linger(&self, written: u64) -> impl Linger {
        Lingering {
            queue: self,
            written,
            until: Instant::now() + APPLY_LINGER,
        }
    }

    /// `None` once somebody reads, it is time, or the queue is closed.
    fn next_to_join(&self, written: u64, until: Instant) -> Option<Work> {
        let mut waiting = self.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if waiting.is_closed || waiting.is_read(written) || left.is_zero() {
                return None;
            }
            if let Some(work) = waiting.work.pop_front() {
                return Some(work);
            }
            waiting.behind = Some(written);
            let woken = self.changed.wait_timeout(waiting, left);
            (waiting, _) = woken.unwrap_or_else(PoisonError::into_inner);
            waiting.behind = None;
        }
    }

    /// Ends the thread, once it has written what it applied.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// The thread has ended. The first reason stays, and a closed queue is none: the task that
    /// closed it has its own. Who waits for what is left hears it, too.
    pub(super) fn end(&self, why: String) {
        let mut waiting = self.lock();
        let first = self.ended.borrow().clone();
        if first.is_none() && !waiting.is_closed {
            self.ended.send_replace(Some(why.clone()));
        }
        let why = first.unwrap_or(why);
        for left in waiting.work.drain(..) {
            // The receiver is gone only when consensus has stopped.
            let _ = left.done.send(Err(io::Error::other(why.clone())));
        }
    }

    /// Waits until nothing is applied any more, and says why.
    pub(crate) async fn ended(&self) -> String {
        let mut ended = self.ended.subscribe();
        let why = ended.wait_for(Option::is_some).await;
        why.ok().and_then(|why| why.clone()).unwrap_or_default()
    }

    /// Nothing panics while it holds this lock; if it does nevertheless, the content is whole.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Lingering<'a> {
    queue: &'a ApplyQueue,
    written: u64,
    until: Instant,
}

impl Linger for Lingering<'_> {
    fn may(&self) -> bool {
        !self.queue.lock().is_read(self.written)
    }

    fn next(&mut self) -> Option<Work> {
        self.queue.next_to_join(self.written, self.until)
    }
}

impl Waiting {
    /// Somebody waits for rows that are not written, or may do so any moment.
    fn is_read(&self, written: u64) -> bool {
        let lately = |at: Instant| at.elapsed() < APPLY_READ_LATELY;
        self.wanted > written || self.read_at.is_some_and(lately)
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread, time::Duration};

    use super::*;

    fn work() -> (Work, oneshot::Receiver<io::Result<Vec<Outcome>>>) {
        let (done, outcomes) = oneshot::channel();
        let chunk = Chunk::default();
        (Work { chunk, done }, outcomes)
    }

    fn far() -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }

    /// As if the last read were long ago.
    fn forget_reads(queue: &ApplyQueue) {
        queue.lock().read_at = None;
    }

    #[test]
    fn rows_wait_for_others_until_somebody_reads_them_or_it_is_time() {
        let queue = ApplyQueue::new();
        queue.push(work().0).unwrap();
        queue.push(work().0).unwrap();
        queue.push(work().0).unwrap();
        assert!(queue.next().is_some());
        assert!(queue.next_to_join(4, far()).is_some());
        assert!(queue.next_to_join(4, Instant::now()).is_none(), "time");
        queue.want(5);
        forget_reads(&queue);
        assert!(queue.linger(5).may());
        assert!(!queue.linger(4).may());
        assert!(queue.next_to_join(4, far()).is_none(), "5 is read");
        assert!(queue.next_to_join(5, far()).is_some(), "5 is written");
        queue.want(5);
        assert!(!queue.linger(5).may(), "a read just came");
        assert!(queue.next_to_join(5, far()).is_none(), "a read just came");
    }

    #[test]
    fn a_read_ends_the_wait_of_rows_that_it_needs_and_of_no_others() {
        let queue = Arc::new(ApplyQueue::new());
        let waiter = Arc::clone(&queue);
        let waiting = thread::spawn(move || waiter.next_to_join(4, far()).is_none());
        while queue.lock().behind.is_none() {
            thread::yield_now();
        }
        queue.want(4);
        forget_reads(&queue);
        assert!(!waiting.is_finished());
        queue.want(5);
        assert!(waiting.join().unwrap());
    }

    #[tokio::test]
    async fn once_the_thread_has_ended_nothing_is_taken_and_everybody_hears_why() {
        let queue = ApplyQueue::new();
        let (left, outcomes) = work();
        queue.push(left).unwrap();
        queue.end("the disk is gone".to_owned());
        queue.end("the apply thread stopped".to_owned());
        let told = outcomes.await.unwrap().unwrap_err();
        assert_eq!(told.to_string(), "the disk is gone");
        let refused = queue.push(work().0).unwrap_err();
        assert_eq!(refused.to_string(), "the disk is gone");
        assert_eq!(queue.ended().await, "the disk is gone");
    }

    #[test]
    fn what_is_closed_hands_out_no_more_ends_the_wait_and_is_no_reason() {
        let queue = ApplyQueue::new();
        queue.push(work().0).unwrap();
        queue.close();
        assert!(queue.next_to_join(0, far()).is_none());
        assert!(queue.next().is_none());
        queue.end("the apply thread stopped".to_owned());
        assert_eq!(*queue.ended.borrow(), None);
    }
}
