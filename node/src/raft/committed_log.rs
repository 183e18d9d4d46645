//! The committed entries of this node's log, for those that archive them.

use std::io;

use bytes::Bytes;
use prost::Message as _;

use super::{codec, log_store::LogStore};
use crate::apply::AppliedLog;

/// The committed entries of this node's log. Cheap to clone.
#[derive(Clone)]
pub struct CommittedLog {
    log: LogStore,
    applied: AppliedLog,
}

/// What follows an entry.
#[derive(Debug)]
pub enum Following {
    /// Committed entries, each as a `helve.peer.v1.LogEntry`, without a gap; none: this node has
    /// applied no further one.
    Entries(Vec<Bytes>),
    /// The log begins behind this entry, which is behind the one asked for.
    Purged(u64),
}

impl CommittedLog {
    pub(super) fn new(log: LogStore, applied: AppliedLog) -> Self {
        Self { log, applied }
    }

    /// The term of a committed entry; `None` if this node's log does not have it.
    ///
    /// # Errors
    /// If the log is damaged, or cannot be read.
    pub async fn term(&self, index: u64) -> io::Result<Option<u64>> {
        let purged = self.log.purged().filter(|purged| purged.index == index);
        if let Some(purged) = purged {
            return Ok(Some(purged.leader_id.term));
        }
        if index > self.last() {
            return Ok(None);
        }
        let page = self.log.page(index..index.saturating_add(1)).await?;
        let found = page.first().filter(|entry| entry.log_id.index == index);
        Ok(found.map(|entry| entry.log_id.leader_id.term))
    }

    /// The beginning of what follows an entry: a page of the log.
    ///
    /// # Errors
    /// If the log is damaged, or cannot be read.
    pub async fn after(&self, index: u64) -> io::Result<Following> {
        let range = index.saturating_add(1)..self.last().saturating_add(1);
        let entries = if range.is_empty() {
            Vec::new()
        } else {
            self.log.page(range).await?
        };
        // The log may have been purged meanwhile.
        if let Some(purged) = self.log.purged()
            && purged.index > index
            && entries
                .first()
                .is_none_or(|first| first.log_id.index != index + 1)
        {
            return Ok(Following::Purged(purged.index));
        }
        let encoded = entries.iter();
        let encoded = encoded.map(|entry| codec::entry_to_proto(entry).encode_to_vec().into());
        Ok(Following::Entries(encoded.collect()))
    }

    /// The last entry up to which all that this log holds is committed; 0 while that is not known.
    ///
    /// What was applied is committed; what follows may be replaced. A snapshot that was installed
    /// leaves the log as it is until consensus purges it: entries that were never committed, of a
    /// leader that was deposed, are before what is applied then. Such a log ends before that, too.
    fn last(&self) -> u64 {
        // Read first: if the log is purged in between, what was replaced is gone.
        let applied = self.applied.index();
        let last = self.log.last().map_or(0, |last| last.index);
        if last < applied { 0 } else { applied }
    }
}
