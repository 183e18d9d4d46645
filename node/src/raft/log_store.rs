//! The log, as openraft wants it: what it appends is readable at once and durable soon, and nothing waits for a disk on its runtime.
//!
//! Memory is ahead of the disk: truncations and purges count at once, and the [`LogWriter`] follows in the same order. So only what
//! memory says is in the log, and only entries that its tail has let go of, which are durable, are read from the disk.

use std::{
    fmt::Debug,
    io,
    ops::{Bound, Range, RangeBounds},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use futures::{
    Stream, StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use openraft::{
    LogState, OptionalSend, RaftLogReader,
    errors::LeaderChanged,
    storage::{IOFlushed, LeaderBoundedStreamError, RaftLogStorage},
};
use prost::Message;
use tokio::sync::oneshot;

use super::{
    codec,
    types::{Entry, LeaderId, LogId, TypeConfig, Vote},
};
use crate::storage::{
    error::StorageError,
    log_db::LogDb,
    log_tail::LogTail,
    log_writer::{Done, LogOp, LogStats, LogWriter},
};

/// Entries are read in pages of at most this many bytes, but of at least one entry.
const PAGE_BYTES_MAX: usize = 2 << 20;

/// How much of the log may be purged: what of the state is durable without it. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct PurgeGate(Arc<AtomicU64>);

impl PurgeGate {
    /// The state up to and including this entry is durable. Never goes back.
    pub fn advance(&self, index: u64) {
        self.0.fetch_max(index.saturating_add(1), Ordering::AcqRel);
    }

    fn permits(&self, index: u64) -> bool {
        index < self.0.load(Ordering::Acquire)
    }
}

/// The log of this node. Clones share it.
#[derive(Debug, Clone)]
pub struct LogStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    log: Arc<LogDb>,
    writer: LogWriter,
    gate: PurgeGate,
    memory: Mutex<Memory>,
}

/// The log as it is for everyone but the disk.
#[derive(Debug)]
struct Memory {
    tail: LogTail<Entry>,
    /// The last entry, or the last purged one if none is left.
    last: Option<LogId>,
    purged: Option<LogId>,
    vote: Option<Vote>,
    committed: Option<LogId>,
    /// Whoever read the disk across a truncation reads again.
    truncations: u64,
}

impl LogStore {
    /// Opens the log in a directory, or creates it. Its newest entries up to `tail_bytes` are kept in memory.
    ///
    /// # Errors
    /// If the log is damaged, or lost what was durable, or the disk fails: see [`StorageError`].
    pub fn open(
        path: &Path,
        group_id: u32,
        tail_bytes: usize,
        gate: PurgeGate,
    ) -> Result<Self, StorageError> {
        let (log, mut recovered) = LogDb::open(path, group_id, tail_bytes)?;
        let writer = LogWriter::start(Arc::clone(&log), &recovered)?;
        let end = recovered.last.map_or(0, |last| last.index + 1);
        let mut tail = LogTail::new(end - recovered.tail.len() as u64, tail_bytes);
        for (entry, bytes) in recovered.tail.drain(..) {
            tail.push(decode(entry)?, bytes, 0);
        }
        let memory = Memory {
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
            memory: Mutex::new(memory),
        })))
    }

    /// This node has neither voted nor been told anything.
    #[must_use]
    pub fn is_pristine(&self) -> bool {
        let memory = self.memory();
        memory.vote.is_none() && memory.last.is_none()
    }

    /// The last entry that was purged.
    #[must_use]
    pub fn purged(&self) -> Option<LogId> {
        self.memory().purged
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

    /// Counts of what was written.
    #[must_use]
    pub fn stats(&self) -> &LogStats {
        self.0.writer.stats()
    }

    /// Makes durable what was written, and ends writing. Blocks.
    pub fn stop(&self) {
        self.0.writer.stop();
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // Whoever panics with the lock leaves the content whole.
        self.0.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The beginning of a range: at most [`PAGE_BYTES_MAX`], but at least one entry if the log holds any of the range.
    async fn page(&self, range: Range<u64>) -> io::Result<Vec<Entry>> {
        loop {
            let (on_disk, seen) = {
                let memory = self.memory();
                let start = range.start.max(memory.start());
                let end = range.end.min(memory.tail.end());
                if start >= memory.tail.start() || start >= end {
                    return Ok(memory.tail.read(start..end, PAGE_BYTES_MAX));
                }
                (start..end.min(memory.tail.start()), memory.seen())
            };
            let log = Arc::clone(&self.0.log);
            let start = on_disk.start;
            let read = move || log.read(on_disk, PAGE_BYTES_MAX);
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
    /// The index of the log's first entry.
    fn start(&self) -> u64 {
        next_index(self.purged)
    }

    /// Differs once a read from the disk may have met what is no longer in the log.
    fn seen(&self) -> (u64, u64) {
        (self.truncations, self.start())
    }
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, io::Error> {
        let range = indexes(&range);
        loop {
            let before = self.memory().truncations;
            let entries = self.pages(range.clone()).try_concat().await?;
            if self.memory().truncations == before {
                return Ok(entries);
            }
        }
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        Ok(self.memory().vote)
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<Entry>, io::Error> {
        self.page(start..end).await
    }

    async fn entries_stream<RB>(
        &mut self,
        range: RB,
    ) -> impl Stream<Item = Result<Entry, io::Error>> + OptionalSend
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let pages = self.pages(indexes(&range));
        Box::pin(
            pages
                .map_ok(|page| stream::iter(page).map(Ok))
                .try_flatten(),
        )
    }

    async fn leader_bounded_stream<RB>(
        &mut self,
        leader: LeaderId,
        range: RB,
    ) -> impl Stream<Item = Result<Entry, LeaderBoundedStreamError<TypeConfig>>> + OptionalSend
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        // An error ends the stream: what the log holds then is another leader's.
        let state = (self.clone(), indexes(&range));
        one_by_one(stream::try_unfold(
            state,
            move |(log, mut range)| async move {
                log.check_leader(&leader)?;
                let page = log.page(range.clone()).await?;
                log.check_leader(&leader)?;
                let Some(last) = page.last() else {
                    return Ok(None);
                };
                range.start = last.log_id.index + 1;
                Ok(Some((page, (log, range))))
            },
        ))
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, io::Error> {
        let memory = self.memory();
        Ok(LogState {
            last_purged_log_id: memory.purged,
            last_log_id: memory.last,
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        let (done, synced) = signal();
        self.0.writer.send(LogOp::Vote {
            vote: codec::vote_to_proto(vote),
            done,
        })?;
        synced.await.map_err(|_| StorageError::Stopped)?;
        self.memory().vote = Some(*vote);
        Ok(())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        if let Some(log_id) = committed {
            self.memory().committed = committed;
            self.0.writer.committed(codec::log_id_to_proto(&log_id));
        }
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        Ok(self.memory().committed)
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: IOFlushed<TypeConfig>,
    ) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<Entry> = entries.into_iter().collect();
        let messages: Vec<_> = entries.iter().map(codec::entry_to_proto).collect();
        let sizes: Vec<_> = messages.iter().map(Message::encoded_len).collect();
        let done: Done = Box::new(|result| callback.io_completed(result));

        // One lock over all of it: nothing else comes between in memory that does not in the queue.
        let mut memory = self.memory();
        let mut last = memory.last;
        for entry in &entries {
            if last.is_some_and(|last| last.index + 1 != entry.log_id.index) {
                let gap = format!("entry {} does not follow {last:?}", entry.log_id.index);
                return Err(io::Error::new(io::ErrorKind::InvalidInput, gap));
            }
            last = Some(entry.log_id);
        }
        let position = self.0.writer.send(LogOp::Append {
            entries: messages,
            done,
        })?;
        if let (None, Some(first)) = (memory.last, entries.first()) {
            memory.tail.purge(first.log_id.index);
        }
        memory.last = last;
        for (entry, bytes) in entries.into_iter().zip(sizes) {
            memory.tail.push(entry, bytes, position);
        }
        let synced = *self.0.writer.synced().borrow();
        memory.tail.trim(synced);
        Ok(())
    }

    async fn truncate_after(&mut self, last_log_id: Option<LogId>) -> Result<(), io::Error> {
        let mut memory = self.memory();
        let end = next_index(last_log_id).max(memory.start());
        self.0.writer.send(LogOp::Truncate { end })?;
        memory.tail.truncate(end);
        memory.last = last_log_id.max(memory.purged);
        memory.truncations += 1;
        Ok(())
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), io::Error> {
        if !self.0.gate.permits(log_id.index) {
            let early = format!(
                "entry {} is needed: the state is not durable up to it",
                log_id.index
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, early));
        }
        let mut memory = self.memory();
        if log_id.index < memory.start() {
            return Ok(());
        }
        let upto = codec::log_id_to_proto(&log_id);
        self.0.writer.send(LogOp::Purge { upto })?;
        memory.tail.purge(log_id.index + 1);
        memory.purged = Some(log_id);
        if memory.last.is_none_or(|last| last.index <= log_id.index) {
            memory.last = Some(log_id);
        }
        Ok(())
    }
}

fn one_by_one<E: Send + 'static>(
    pages: impl Stream<Item = Result<Vec<Entry>, E>> + Send + 'static,
) -> BoxStream<'static, Result<Entry, E>> {
    pages
        .map_ok(|page| stream::iter(page.into_iter().map(Ok::<_, E>)))
        .try_flatten()
        .boxed()
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

fn decode(entry: helve_proto::peer::v1::LogEntry) -> Result<Entry, StorageError> {
    let index = entry.log_id.map_or(0, |log_id| log_id.index);
    codec::entry_from_proto(entry)
        .map_err(|e| StorageError::damaged(format!("log entry {index}"), e.to_string()))
}

fn next_index(log_id: Option<LogId>) -> u64 {
    log_id.map_or(0, |log_id| log_id.index + 1)
}

fn indexes(range: &impl RangeBounds<u64>) -> Range<u64> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(start) => start.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(end) => end.saturating_add(1),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => u64::MAX,
    };
    start..end
}
