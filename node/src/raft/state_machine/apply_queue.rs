//! Committed entries on their way to the thread that applies them.
//!
//! What is committed while that thread works is applied next, in one write. Where nobody waits, as on a follower, entries linger for
//! others, for in a larger write a row that lives shortly is never written, as most outcomes of calls. A read that needs them ends that.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tokio::sync::watch;

use super::rows::Chunk;
use crate::limits::APPLY_LINGER;

/// The way to the thread.
#[derive(Debug)]
pub(in crate::raft) struct ApplyQueue {
    waiting: Mutex<Waiting>,
    /// Told to the thread: there is more to do, or it is to be done now.
    changed: Condvar,
    stage: watch::Sender<Stage>,
}

/// How the queue stands with those who fill it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    /// There is room.
    Open,
    /// So much waits that no more may.
    Full,
    /// Nothing is taken any more, and why.
    Ended(String),
}

#[derive(Debug, Default)]
struct Waiting {
    chunk: Chunk,
    /// Somebody waits for this entry, and those before it.
    wanted: u64,
    /// The last entry that is applied.
    applied: u64,
    is_closed: bool,
}

impl Waiting {
    fn is_urgent(&self) -> bool {
        self.chunk.is_full() || self.chunk.is_awaited() || self.wanted > self.applied
    }
}

impl ApplyQueue {
    pub(super) fn new(applied: u64) -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                applied,
                ..Waiting::default()
            }),
            changed: Condvar::new(),
            stage: watch::Sender::new(Stage::Open),
        }
    }

    /// Adds entries, once there is room.
    ///
    /// # Errors
    /// Why nothing is applied any more.
    pub(super) async fn push(&self, chunk: Chunk) -> Result<(), String> {
        let mut stage = self.stage.subscribe();
        let room = stage.wait_for(|stage| *stage != Stage::Full);
        // The sender is here: there is one.
        drop(room.await);
        let mut waiting = self.lock();
        if let Stage::Ended(why) = &*self.stage.borrow() {
            return Err(why.clone());
        }
        waiting.chunk.append(chunk);
        if waiting.chunk.is_full() {
            self.set_stage(Stage::Full);
        }
        drop(waiting);
        self.changed.notify_one();
        Ok(())
    }

    /// Ends the lingering of this entry, and of those before it, whether they have come already or not.
    pub(in crate::raft) fn want(&self, index: u64) {
        let mut waiting = self.lock();
        if index > waiting.wanted {
            waiting.wanted = index;
            drop(waiting);
            self.changed.notify_one();
        }
    }

    /// Waits for entries that are to be applied in one write; `None` once the queue is closed.
    pub(super) fn next(&self) -> Option<Chunk> {
        let mut waiting = self.lock();
        while waiting.chunk.is_empty() && !waiting.is_closed {
            waiting = self
                .changed
                .wait(waiting)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let until = Instant::now() + APPLY_LINGER;
        while !waiting.is_urgent() && !waiting.is_closed {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(waiting, left);
            (waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        if waiting.is_closed {
            return None;
        }
        self.set_stage(Stage::Open);
        Some(std::mem::take(&mut waiting.chunk))
    }

    /// The thread has applied entries up to this one.
    pub(super) fn note_applied(&self, index: u64) {
        self.lock().applied = index;
    }

    /// Ends the thread, without what still waits.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// The thread has ended.
    pub(super) fn end(&self, why: String) {
        self.set_stage(Stage::Ended(why));
        // Whoever waits for what is left hears that it never came.
        self.lock().chunk = Chunk::default();
    }

    /// Waits until nothing is applied any more, and says why.
    pub(in crate::raft) async fn ended(&self) -> String {
        let mut stage = self.stage.subscribe();
        let ended = stage.wait_for(|stage| matches!(stage, Stage::Ended(_)));
        match ended.await.as_deref() {
            Ok(Stage::Ended(why)) => why.clone(),
            _ => "the queue is gone".to_owned(),
        }
    }

    /// The first end stays.
    fn set_stage(&self, next: Stage) {
        self.stage.send_if_modified(|stage| {
            let is_new = *stage != next && !matches!(stage, Stage::Ended(_));
            if is_new {
                *stage = next;
            }
            is_new
        });
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use helve_proto::peer::v1::LogId;

    use super::*;
    use crate::{
        limits::APPLY_ENTRIES_MAX,
        raft::{
            codec,
            types::{Entry, Payload},
        },
    };

    fn entries(indexes: impl IntoIterator<Item = u64>) -> Chunk {
        let mut chunk = Chunk::default();
        for index in indexes {
            let log_id = codec::log_id_from_proto(&LogId { term: 1, index });
            let payload = Payload::Blank;
            let entry = Entry { log_id, payload };
            chunk.push(entry, None);
        }
        chunk
    }

    fn last(chunk: Option<Chunk>) -> Option<u64> {
        Some(chunk?.last?.index)
    }

    #[tokio::test]
    async fn what_came_meanwhile_is_taken_together_and_at_once_if_it_is_wanted() {
        let queue = ApplyQueue::new(0);
        queue.push(entries([1, 2])).await.unwrap();
        assert!(!queue.lock().is_urgent());
        queue.push(entries([3])).await.unwrap();
        assert_eq!(last(queue.next()), Some(3));
        queue.note_applied(3);
        queue.push(entries([4])).await.unwrap();
        queue.want(3);
        assert!(!queue.lock().is_urgent(), "3 is applied");
        queue.want(5);
        assert!(queue.lock().is_urgent(), "5 may come any time");
        assert_eq!(last(queue.next()), Some(4));
        queue.note_applied(4);
        queue.push(entries([5])).await.unwrap();
        assert!(queue.lock().is_urgent());
        assert_eq!(last(queue.next()), Some(5));
        queue.note_applied(5);
        assert!(!queue.lock().is_urgent());
    }

    #[tokio::test]
    async fn no_more_is_taken_than_is_applied_in_one_write() {
        let queue = ApplyQueue::new(0);
        let full = APPLY_ENTRIES_MAX as u64;
        queue.push(entries(1..=full)).await.unwrap();
        assert!(queue.lock().is_urgent());
        let mut more = std::pin::pin!(queue.push(entries([full + 1])));
        assert!(more.as_mut().now_or_never().is_none());
        assert_eq!(last(queue.next()), Some(full));
        more.await.unwrap();
        assert_eq!(last(queue.next()), Some(full + 1));
    }

    #[tokio::test]
    async fn once_the_thread_has_ended_nothing_is_taken_and_everybody_hears_why() {
        let queue = ApplyQueue::new(0);
        queue
            .push(entries(1..=APPLY_ENTRIES_MAX as u64))
            .await
            .unwrap();
        let mut more = std::pin::pin!(queue.push(entries([5000])));
        assert!(more.as_mut().now_or_never().is_none());
        queue.end("the disk is gone".to_owned());
        queue.end("the apply thread stopped".to_owned());
        assert_eq!(more.await.unwrap_err(), "the disk is gone");
        assert_eq!(queue.ended().await, "the disk is gone");
        assert!(queue.lock().chunk.is_empty());
        queue.close();
        assert_eq!(last(queue.next()), None);
    }
}
