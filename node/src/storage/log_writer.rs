//! The one thread that writes the log database.
//!
//! A task that writes to the log puts an operation into the queue and continues. The thread takes all that has gathered, writes it as
//! one batch with one sync, and then calls everyone back in order; while it syncs, the next group gathers. So the disk is always busy
//! with as many entries as there are, and no task waits for it that need not.
//!
//! Operations take effect in the order in which they were sent, in the database and after a crash alike: they share one write-ahead log.
//! Votes and entries force a sync; truncations and purges ride on the next one.
//!
//! What the disk could not sync is unknown, and asking again proves nothing, since a kernel may drop the pages that it failed to
//! write. So any failure ends the process.

use std::{
    process,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::Ordering,
        mpsc::{self, Receiver, Sender},
    },
    thread::{self, JoinHandle},
    time::Instant,
};

use helve_machine::planted::{self, Plant};
use helve_proto::peer::v1::{LogId, Vote};
use prost::Message;
use rocksdb::{WriteBatch, WriteOptions};
use tokio::sync::watch;

use super::{
    error::StorageError,
    log_db::{LogDb, Recovered},
    log_op::{Done, LogOp, LogStats},
    options::{LOG, META},
    synced_mark::SyncedMark,
};
use crate::{
    failpoint::{self, Failpoint},
    limits::{LOG_GROUP_BYTES_MAX, LOG_GROUP_OPS_MAX},
};

/// The way to the writer's thread. Dropping it writes what was sent, then stops the thread.
#[derive(Debug)]
pub struct LogWriter {
    queue: Mutex<Queue>,
    shared: Arc<Shared>,
    synced: watch::Receiver<u64>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Queue {
    /// `None` once stopped.
    sender: Option<Sender<LogOp>>,
    /// Operations sent so far.
    position: u64,
}

#[derive(Debug, Default)]
struct Shared {
    stats: LogStats,
    /// Known to be committed, and not yet written down.
    committed: Mutex<Option<LogId>>,
}

impl LogWriter {
    /// Starts the thread for a log that was just opened.
    ///
    /// # Errors
    /// If the synced mark cannot be opened, or the thread not started.
    pub fn start(log: Arc<LogDb>, recovered: &Recovered) -> Result<Self, StorageError> {
        let (sender, receiver) = mpsc::channel();
        let (synced, synced_receiver) = watch::channel(0);
        let shared = Arc::new(Shared::default());
        let writer = Writer {
            mark: log.open_mark()?,
            log,
            shared: Arc::clone(&shared),
            synced,
            position: 0,
            start: recovered.purged.map_or(0, |purged| purged.index + 1),
            end: recovered.last.map_or(0, |last| last.index + 1),
            unsynced: false,
            reclaimable: None,
        };
        let thread = thread::Builder::new().name("log-writer".to_owned());
        let thread = thread
            .spawn(move || writer.run(&receiver))
            .map_err(StorageError::io(
                "start the thread of",
                std::path::Path::new("log-writer"),
            ))?;
        Ok(Self {
            queue: Mutex::new(Queue {
                sender: Some(sender),
                position: 0,
            }),
            shared,
            synced: synced_receiver,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Puts an operation into the queue, and answers its position there: see [`LogWriter::synced`]. Never blocks.
    ///
    /// # Errors
    /// If the writer was stopped. The operation is dropped, and its callback not called.
    pub fn send(&self, op: LogOp) -> Result<u64, StorageError> {
        let bytes = op.bytes() as u64;
        let mut queue = lock(&self.queue);
        let sender = queue.sender.as_ref().ok_or(StorageError::Stopped)?;
        self.shared
            .stats
            .queued_bytes
            .fetch_add(bytes, Ordering::Relaxed);
        sender.send(op).map_err(|_| StorageError::Stopped)?;
        queue.position += 1;
        Ok(queue.position)
    }

    /// Remembers that entries up to this one are committed. It is written down with the next group, as soon as it is not ahead of the log.
    pub fn committed(&self, log_id: LogId) {
        *lock(&self.shared.committed) = Some(log_id);
    }

    /// The position up to which every operation is durable.
    #[must_use]
    pub fn synced(&self) -> watch::Receiver<u64> {
        self.synced.clone()
    }

    /// Counts of what was written.
    #[must_use]
    pub fn stats(&self) -> &LogStats {
        &self.shared.stats
    }

    /// Makes all that was sent durable, and ends the thread. Nothing can be sent afterwards. Blocks.
    pub fn stop(&self) {
        lock(&self.queue).sender = None;
        let Some(thread) = lock(&self.thread).take() else {
            return;
        };
        // A callback may be the last to let go of the writer: a thread cannot wait for itself.
        if thread.thread().id() != thread::current().id() && thread.join().is_err() {
            tracing::error!("the log writer panicked");
        }
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What the thread owns.
struct Writer {
    log: Arc<LogDb>,
    mark: SyncedMark,
    shared: Arc<Shared>,
    synced: watch::Sender<u64>,
    /// Operations received so far.
    position: u64,
    /// The log's first index, as written.
    start: u64,
    /// The index behind the log's last entry, as written.
    end: u64,
    /// Something was written that no sync has covered.
    unsynced: bool,
    /// Entries below were purged, but the purge is not durable yet, or their files are still there.
    reclaimable: Option<u64>,
}

/// Operations that become durable together.
#[derive(Default)]
struct Group {
    batch: WriteBatch,
    done: Vec<Done>,
    vote: Option<Vote>,
    entries: u64,
    bytes: usize,
    /// The lowest end of the log among the group's truncations.
    lowest_end: Option<u64>,
    wants_sync: bool,
}

impl Writer {
    fn run(mut self, receiver: &Receiver<LogOp>) {
        let _guard = AbortOnPanic;
        while let Ok(first) = receiver.recv() {
            let mut group = Group::default();
            let mut ops = 1;
            self.take(first, &mut group);
            while ops < LOG_GROUP_OPS_MAX && group.bytes < LOG_GROUP_BYTES_MAX {
                let Ok(op) = receiver.try_recv() else { break };
                self.take(op, &mut group);
                ops += 1;
            }
            self.finish(group);
        }
        // What was committed last helps the next start; entries need no sync here, each group had its own.
        self.finish(Group::default());
    }

    /// Adds an operation to the group.
    fn take(&mut self, op: LogOp, group: &mut Group) {
        self.position += 1;
        match op {
            LogOp::Append { entries, done } => {
                let family = self.log.family(LOG);
                for entry in entries {
                    let index = entry.log_id.map_or(self.end, |log_id| log_id.index);
                    let mut value = entry.encode_to_vec();
                    // As they were counted when they were sent: without tags.
                    group.bytes += value.len();
                    self.log.add_tag(&mut value);
                    group
                        .batch
                        .put_cf(&family, self.log.entry_key(index), &value);
                    group.entries += 1;
                    self.end = index + 1;
                }
                group.wait(done);
            }
            LogOp::Vote { vote, done } => {
                let value = vote.encode_to_vec();
                group
                    .batch
                    .put_cf(&self.log.family(META), self.log.vote_key(), value);
                group.vote = Some(vote);
                group.wait(done);
            }
            LogOp::Truncate { end } => {
                self.remove(end, self.end, group);
                self.end = self.end.min(end);
                group.lowest_end = Some(group.lowest_end.map_or(end, |lowest| lowest.min(end)));
            }
            LogOp::Purge { upto } => {
                failpoint::pass(Failpoint::PurgeBeforeWrite);
                let start = upto.index + 1;
                self.remove(self.start, start.min(self.end), group);
                let value = upto.encode_to_vec();
                group
                    .batch
                    .put_cf(&self.log.family(META), self.log.purged_key(), value);
                self.start = self.start.max(start);
                self.end = self.end.max(start);
                self.reclaimable = Some(self.start);
            }
            LogOp::Barrier { done } => group.wait(done),
        }
    }

    fn remove(&self, from: u64, to: u64, group: &mut Group) {
        if from < to {
            let (from, to) = (self.log.entry_key(from), self.log.entry_key(to));
            group.batch.delete_range_cf(&self.log.family(LOG), from, to);
        }
    }

    /// Writes the group, syncs it if need be, and calls back.
    fn finish(&mut self, mut group: Group) {
        self.write_committed(&mut group);
        if group.entries > 0 {
            failpoint::pass(Failpoint::LogBeforeWrite);
        }
        if let Err(error) = self.make_durable(&mut group) {
            // Never retried: see above.
            tracing::error!(%error, "the log cannot be written; this node stops at once");
            process::abort();
        }
        if group.entries > 0 {
            failpoint::pass(Failpoint::LogBeforeAck);
        }
        if self.reclaimable.is_some() {
            failpoint::pass(Failpoint::PurgeAfterWrite);
        }
        let stats = &self.shared.stats;
        stats.entries.fetch_add(group.entries, Ordering::Relaxed);
        stats.bytes.fetch_add(group.bytes as u64, Ordering::Relaxed);
        stats
            .queued_bytes
            .fetch_sub(group.bytes as u64, Ordering::Relaxed);
        if !self.unsynced {
            self.synced.send_replace(self.position);
        }
        for done in group.done {
            done(Ok(()));
        }
        self.reclaim();
    }

    fn make_durable(&mut self, group: &mut Group) -> Result<(), StorageError> {
        if let Some(end) = group.lowest_end {
            self.mark.lower(end)?;
        }
        let sync = group.wants_sync && !planted::is(Plant::SkipFsync);
        let batch = std::mem::take(&mut group.batch);
        let begun = Instant::now();
        if !batch.is_empty() {
            let mut options = WriteOptions::default();
            options.set_sync(sync);
            let written = self.log.db.write_opt(batch, &options);
            written.map_err(StorageError::engine("write the log"))?;
            self.unsynced = !group.wants_sync;
        } else if sync && self.unsynced {
            self.log
                .db
                .flush_wal(true)
                .map_err(StorageError::engine("sync the log"))?;
            self.unsynced = false;
        } else {
            return Ok(());
        }
        if sync {
            self.shared.stats.syncs.fetch_add(1, Ordering::Relaxed);
            self.shared.stats.sync_times.observe(begun.elapsed());
            self.mark.raise(self.end, group.vote.take())?;
        }
        Ok(())
    }

    /// A committed entry that the log does not hold yet must not be written down: a restart would look for it.
    fn write_committed(&self, group: &mut Group) {
        let mut committed = lock(&self.shared.committed);
        if committed.is_some_and(|log_id| log_id.index < self.end)
            && let Some(log_id) = committed.take()
        {
            let value = log_id.encode_to_vec();
            group
                .batch
                .put_cf(&self.log.family(META), self.log.committed_key(), value);
        }
    }

    /// Drops whole files of purged entries, once the purge is durable: files go at once, and must not go before the record of it.
    fn reclaim(&mut self) {
        if self.unsynced {
            return;
        }
        let Some(start) = self.reclaimable.take() else {
            return;
        };
        // The engine drops a file whose last key is the end of the range, too, so the first live entry must not be that.
        let (from, to) = (
            self.log.entry_key(0),
            self.log.entry_key(start.saturating_sub(1)),
        );
        let dropped = self
            .log
            .db
            .delete_file_in_range_cf(&self.log.family(LOG), from, to);
        if let Err(error) = dropped {
            tracing::warn!(%error, "files of purged entries stay until they are compacted");
        }
    }
}

impl Group {
    fn wait(&mut self, done: Done) {
        self.done.push(done);
        self.wants_sync = true;
    }
}

/// Callbacks that are never called would leave the node waiting for ever: rather none than half a node.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            tracing::error!("the log writer panicked; this node stops at once");
            process::abort();
        }
    }
}

/// Nothing panics while it holds one of these locks; if it does nevertheless, the content is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
