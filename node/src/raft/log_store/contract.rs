//! The log in openraft's words.

use std::{
    fmt::Debug,
    io,
    ops::{Bound, Range, RangeBounds},
};

use futures::{
    Stream, StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use helve_machine::planted::{self, Plant};
use openraft::{
    LogState, OptionalSend, RaftLogReader,
    storage::{IOFlushed, LeaderBoundedStreamError, RaftLogStorage},
};
use prost::Message;

use super::{LogStore, signal};
use crate::{
    failpoint::{self, Failpoint},
    identity::acknowledged::is_loss_planted,
    raft::{
        codec,
        types::{Entry, LeaderId, LogId, Payload, TypeConfig, Vote},
    },
    storage::{
        error::StorageError,
        log_op::{Done, LogOp},
    },
    traces::Passage,
};

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
        failpoint::passed(Failpoint::VoteBeforeReply).await;
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
        let newest = entries.last().map(|entry| entry.log_id);
        let newest = newest.map(|id| (id.leader_id.term, id.index));
        let flushed = self.0.flushed.appending(newest);
        let passages: Vec<_> = entries.iter().filter_map(passage).collect();
        let done: Done = if planted::is(Plant::AckBeforeSync) {
            callback.io_completed(Ok(()));
            Box::new(drop)
        } else {
            Box::new(move |result| {
                if result.is_ok() {
                    flushed();
                    passages.iter().for_each(Passage::durable);
                }
                callback.io_completed(result);
            })
        };

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
            // openraft begins at 0; its suite begins anywhere, and a log that does is refused when it is opened again.
            memory.start = first.log_id.index;
            memory.tail.begin(first.log_id.index);
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
        let end = next_index(last_log_id).max(memory.start);
        if end >= memory.tail.end() {
            return Ok(());
        }
        // A leader that lacks them was elected by nodes that lost what they had acknowledged.
        if let Some(kept) = self.0.gate.kept().max(memory.committed.map(|id| id.index))
            && end <= kept
            && !is_loss_planted()
        {
            return Err(StorageError::Diverged { end, kept }.into());
        }
        self.0.writer.send(LogOp::Truncate { end })?;
        memory.tail.truncate(end);
        memory.last = last_log_id.max(memory.purged);
        memory.truncations += 1;
        self.0.flushed.truncated();
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
        if memory
            .purged
            .is_some_and(|purged| log_id.index <= purged.index)
        {
            return Ok(());
        }
        let upto = codec::log_id_to_proto(&log_id);
        self.0.writer.send(LogOp::Purge { upto })?;
        memory.tail.purge(log_id.index + 1);
        memory.start = log_id.index + 1;
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

/// What notes the way of an entry, if its trace is recorded.
fn passage(entry: &Entry) -> Option<Passage> {
    match &entry.payload {
        Payload::Normal(proposal) => Some(&proposal.passage)
            .filter(|passage| passage.is_noted())
            .cloned(),
        Payload::Blank | Payload::Membership(_) => None,
    }
}
