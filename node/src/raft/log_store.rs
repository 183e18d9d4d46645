//! The log, as openraft wants it: what it appends is readable at once and durable soon, and nothing waits for a disk on its runtime.
//!
//! Memory is ahead of the disk: truncations and purges count at once, and the [`LogWriter`] follows in the same order. So only what
//! memory says is in the log, and only entries that its tail has let go of, which are durable, are read from the disk.

mod contract;

use std::{
    io,
    ops::Range,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
};

use futures::{Stream, stream};
use helve_proto::peer::v1 as proto;
use openraft::{
    errors::LeaderChanged,
    storage::{LeaderBoundedStreamError, RaftLogStorage as _},
};
use tokio::sync::oneshot;

use super::{
    codec,
    types::{Entry, LeaderId, LogId, TypeConfig, Vote},
};
use crate::{
    identity::acknowledged::{Flushed, Position},
    limits::{LOG_PAGE_BYTES_MAX, LOG_QUEUED_BYTES_MAX},
    storage::{
        disk_key::DiskKey,
        error::StorageError,
        log_db::LogDb,
        log_op::{Done, LogOp, LogStats},
        log_tail::LogTail,
        log_writer::LogWriter,
        purge_gate::PurgeGate,
    },
};

/// The log of this node. Clones share it.
#[derive(Debug, Clone)]
pub struct LogStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    log: Arc<LogDb>,
    writer: LogWriter,
    gate: PurgeGate,
    flushed: Flushed,
    memory: Mutex<Memory>,
}

/// The log as it is for everyone but the disk.
#[derive(Debug)]
struct Memory {
    /// The index of the log's first entry.
    start: u64,
    tail: LogTail<Entry>,
    /// The last entry, or the last purged one if none is left.
    last: Option<LogId>,
    purged: Option<LogId>,
    vote: Option<Vote>,
    committed: Option<LogId>,
    /// A reader of the disk across a truncation reads again.
    truncations: u64,
}

impl LogStore {
    /// Opens the log in a directory, or creates it. Its newest entries up to `tail_bytes` stay in memory. Entries are authenticated with
    /// nothing.
    ///
    /// # Errors
    /// If the log is damaged, or lost what was durable, or the disk fails: see [`StorageError`].
    pub fn open(
        path: &Path,
        group_id: u32,
        tail_bytes: usize,
        gate: PurgeGate,
    ) -> Result<Self, StorageError> {
        Self::open_under(path, group_id, tail_bytes, gate, None)
    }

    /// As [`open`](Self::open), with entries that must fit this key.
    ///
    /// # Errors
    /// As [`open`](Self::open), and if an entry does not fit.
    pub fn open_under(
        path: &Path,
        group_id: u32,
        tail_bytes: usize,
        gate: PurgeGate,
        key: Option<Arc<DiskKey>>,
    ) -> Result<Self, StorageError> {
        let (log, mut recovered) = LogDb::open_under(path, group_id, tail_bytes, key)?;
        let writer = LogWriter::start(Arc::clone(&log), &recovered)?;
        let end = recovered.last.map_or(0, |last| last.index + 1);
        let mut tail = LogTail::new(end - recovered.tail.len() as u64, tail_bytes);
        for (entry, bytes) in recovered.tail.drain(..) {
            tail.push(decode(entry)?, bytes, 0);
        }
        let memory = Memory {
            start: recovered.purged.map_or(0, |purged| purged.index + 1),
            tail,
            last: recovered.last.as_ref().map(codec::log_id_from_proto),
            purged: recovered.purged.as_ref().map(codec::log_id_from_proto),
            vote: recovered.vote.as_ref().map(codec::vote_from_proto),
            committed: recovered.committed.as_ref().map(codec::log_id_from_proto),
            truncations: 0,
        };
        Ok(Self(Arc::new(Inner {
            log,
            writer,
            gate,
            flushed: Flushed::default(),
            memory: Mutex::new(memory),
        })))
    }

    /// This node has neither voted nor been told anything.
    #[must_use]
    pub fn is_pristine(&self) -> bool {
        let memory = self.memory();
        memory.vote.is_none() && memory.last.is_none()
    }

    /// What this node holds by its log alone: the newest vote, and the last entry.
    #[must_use]
    pub fn position(&self) -> Position {
        let memory = self.memory();
        Position {
            term: memory.vote.as_ref().map_or(0, |vote| vote.leader_id.term),
            last: memory
                .last
                .as_ref()
                .map(|last| (last.leader_id.term, last.index)),
        }
    }

    /// The last entry, or the last purged one if none is left.
    #[must_use]
    pub fn last(&self) -> Option<proto::LogId> {
        self.memory().last.as_ref().map(codec::log_id_to_proto)
    }

    /// The last entry that is known to be committed; not always the last one that is.
    #[must_use]
    pub fn committed(&self) -> Option<u64> {
        self.memory().committed.map(|id| id.index)
    }

    /// What is durable of this log.
    pub(super) fn flushed(&self) -> Flushed {
        self.0.flushed.clone()
    }

    /// The last entry that was purged.
    #[must_use]
    pub fn purged(&self) -> Option<LogId> {
        self.memory().purged
    }

    /// Checks that the log goes on where the rows end, which hold entries up to `applied`. What is purged between would never be applied.
    ///
    /// # Errors
    /// [`StorageError::Damaged`] if entries between are gone.
    pub fn check_reaches(&self, applied: u64) -> Result<(), StorageError> {
        match self.purged() {
            Some(purged) if purged.index > applied => {
                let what = format!("the log up to entry {}", purged.index);
                let detail = format!("it is gone, and the rows hold entries up to {applied} only");
                Err(StorageError::damaged(what, detail))
            }
            _ => Ok(()),
        }
    }

    /// Waits until an entry of the log, and so all before it, is durable on this node.
    ///
    /// # Errors
    /// If the log writer stops first.
    pub async fn durable(&self, index: u64) -> Result<(), StorageError> {
        let Some(position) = self.memory().tail.position(index) else {
            return Ok(());
        };
        let mut synced = self.0.writer.synced();
        let reached = synced.wait_for(|synced| *synced >= position).await;
        reached.map(|_| ()).map_err(|_| StorageError::Stopped)
    }

    /// Waits until all that was written to the log before this call is durable, votes, truncations and purges included.
    ///
    /// # Errors
    /// If the log writer stops first.
    pub async fn barrier(&self) -> Result<(), StorageError> {
        let (done, synced) = signal();
        self.0.writer.send(LogOp::Barrier { done })?;
        synced.await.map_err(|_| StorageError::Stopped)
    }

    /// The beginning of what the log holds from this entry on, as the disk has it; empty at its end. Blocks.
    ///
    /// # Errors
    /// If an entry is missing or damaged, or the engine fails.
    pub fn stored(&self, from: u64) -> Result<Vec<proto::LogEntry>, StorageError> {
        let entries = self.0.log.read(from..u64::MAX, LOG_PAGE_BYTES_MAX)?;
        entries
            .into_iter()
            .map(|(entry, _)| Ok(codec::entry_to_proto(&decode(entry)?)))
            .collect()
    }

    /// Ends the log behind this entry, whose rows are durable, as if a snapshot of them had been
    /// installed.
    ///
    /// The next leader's term is above that of the entry. The log of a restored node is new and
    /// holds no vote: its first leader would take a term that entries have already, and count them
    /// as its own.
    ///
    /// # Errors
    /// If the disk fails.
    pub async fn end_behind(
        &mut self,
        last: &proto::LogId,
        node_id: u64,
    ) -> Result<(), StorageError> {
        let held = self.memory().vote;
        if held.is_none_or(|vote| vote.leader_id.term < last.term) {
            let saved = self.save_vote(&Vote::new(last.term, node_id)).await;
            saved.map_err(|source| of_log("write", source))?;
        }
        self.0.gate.advance(last.index);
        let purged = self.purge(codec::log_id_from_proto(last)).await;
        purged.map_err(|source| of_log("purge", source))?;
        self.barrier().await
    }

    /// The last entry that memory does not hold, so that reading it takes the disk; 0 if there is none.
    #[must_use]
    pub fn on_disk_only(&self) -> u64 {
        self.memory().tail.start().saturating_sub(1)
    }

    /// Counts of what was written.
    #[must_use]
    pub fn stats(&self) -> &LogStats {
        self.0.writer.stats()
    }

    /// More waits for the disk than should: nothing that can be refused should be added.
    #[must_use]
    pub fn is_overloaded(&self) -> bool {
        self.stats().queued_bytes.load(Ordering::Relaxed) > LOG_QUEUED_BYTES_MAX
    }

    /// Makes durable what was written, and ends writing. Blocks.
    pub fn stop(&self) {
        self.0.writer.stop();
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // A panic under the lock leaves the content whole.
        self.0.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The beginning of a range: at most [`LOG_PAGE_BYTES_MAX`], but at least one entry if the log holds any of the range.
    pub(super) async fn page(&self, range: Range<u64>) -> io::Result<Vec<Entry>> {
        loop {
            let (on_disk, seen) = {
                let memory = self.memory();
                let start = range.start.max(memory.start);
                let end = range.end.min(memory.tail.end());
                if start >= memory.tail.start() || start >= end {
                    return Ok(memory.tail.read(start..end, LOG_PAGE_BYTES_MAX));
                }
                (start..end.min(memory.tail.start()), memory.seen())
            };
            let log = Arc::clone(&self.0.log);
            let start = on_disk.start;
            let read = move || log.read(on_disk, LOG_PAGE_BYTES_MAX);
            let entries = tokio::task::spawn_blocking(read)
                .await
                .map_err(io::Error::other)??;
            if self.memory().seen() != seen {
                continue;
            }
            let found = entries
                .first()
                .and_then(|(entry, _)| entry.log_id)
                .map(|id| id.index);
            if found != Some(start) {
                let what = format!("log entry {start}");
                return Err(StorageError::damaged(what, "it is missing").into());
            }
            let entries = entries.into_iter().map(|(entry, _)| Ok(decode(entry)?));
            return entries.collect();
        }
    }

    fn pages(
        &self,
        range: Range<u64>,
    ) -> impl Stream<Item = io::Result<Vec<Entry>>> + Send + use<> {
        stream::try_unfold((self.clone(), range), |(log, mut range)| async move {
            let page = log.page(range.clone()).await?;
            let Some(last) = page.last() else {
                return Ok(None);
            };
            range.start = last.log_id.index + 1;
            Ok(Some((page, (log, range))))
        })
    }

    fn check_leader(&self, leader: &LeaderId) -> Result<(), LeaderBoundedStreamError<TypeConfig>> {
        let vote = self.memory().vote;
        if vote.is_some_and(|vote| vote.leader_id == *leader && vote.committed) {
            return Ok(());
        }
        Err(LeaderChanged::new(*leader, vote).into())
    }
}

impl Memory {
    /// Differs once a read from the disk may have met what is no longer in the log.
    fn seen(&self) -> (u64, u64) {
        (self.truncations, self.start)
    }
}

/// A callback, and what resolves once it was called.
fn signal() -> (Done, oneshot::Receiver<()>) {
    let (sender, receiver) = oneshot::channel();
    let done = move |_| {
        // The one who waits may have given up.
        let _ = sender.send(());
    };
    (Box::new(done), receiver)
}

fn of_log(action: &'static str, source: io::Error) -> StorageError {
    StorageError::Io {
        action,
        path: "the log".into(),
        source,
    }
}

fn decode(entry: proto::LogEntry) -> Result<Entry, StorageError> {
    let index = entry.log_id.map_or(0, |log_id| log_id.index);
    codec::entry_from_proto(entry)
        .map_err(|error| StorageError::unreadable(format!("log entry {index}"), &error))
}

#[cfg(test)]
mod tests;
