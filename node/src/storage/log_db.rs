//! The log database, `raft/`: entries, vote and what is known about them. Opened and read here; written by the
//! [`log_writer`](super::log_writer) while the node runs. With a disk key each entry has a tag behind it: one that was changed, moved
//! or added by somebody else is refused.
//!
//! Every key starts with the group, so that many groups can share a node later.

use std::{
    collections::VecDeque,
    fs,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use helve_proto::peer::v1::{LogEntry, LogId, Vote};
use prost::Message;
use rocksdb::{BoundColumnFamily, DB, ReadOptions, WriteBatch, WriteOptions};

use super::{
    disk_key::DiskKey,
    error::StorageError,
    options::{self, LOG, META},
    synced_mark::{Mark, SyncedMark},
};

/// The format of log entries that this build writes, and the newest that it reads.
pub const ENTRY_FORMAT: u32 = 1;

const VOTE: &str = "vote";
const COMMITTED: &str = "committed";
const PURGED: &str = "purged";
/// Bytes of entries that are taken under a key at once.
const ADOPT_BYTES: usize = 4 << 20;

/// The log database of one node.
pub struct LogDb {
    pub(super) db: DB,
    path: PathBuf,
    group_id: u32,
    /// What entries are authenticated with; `None`: nothing.
    key: Option<Arc<DiskKey>>,
}

/// What a log held when it was opened.
#[derive(Debug, Default)]
pub struct Recovered {
    /// The last vote.
    pub vote: Option<Vote>,
    /// An entry that was known to be committed; not always the last one.
    pub committed: Option<LogId>,
    /// The last entry that was purged.
    pub purged: Option<LogId>,
    /// The last entry, or the last purged one if none is left.
    pub last: Option<LogId>,
    /// The newest entries, with their encoded sizes in bytes.
    pub tail: VecDeque<(LogEntry, usize)>,
}

impl LogDb {
    /// Opens the log in `path`, or creates it. Reads it whole: an entry that is missing, damaged or out of order refuses, as does a log
    /// or vote that lost what was synced. The newest entries up to `tail_bytes` are handed back. Entries are authenticated with nothing.
    ///
    /// # Errors
    /// See [`StorageError`]; nothing is ever skipped or repaired.
    pub fn open(
        path: &Path,
        group_id: u32,
        tail_bytes: usize,
    ) -> Result<(Arc<Self>, Recovered), StorageError> {
        Self::open_under(path, group_id, tail_bytes, None)
    }

    /// As [`open`](Self::open), with entries that must fit this key.
    ///
    /// # Errors
    /// See [`StorageError`].
    pub fn open_under(
        path: &Path,
        group_id: u32,
        tail_bytes: usize,
        key: Option<Arc<DiskKey>>,
    ) -> Result<(Arc<Self>, Recovered), StorageError> {
        fs::create_dir_all(path).map_err(StorageError::io("create", path))?;
        let mark_path = mark_path(path);
        // A mark without a database vouches for what is gone: the check below refuses.
        if !path.join("CURRENT").exists() && !mark_path.exists() {
            SyncedMark::create(&mark_path)?;
        }
        let mark = SyncedMark::open(&mark_path)?;
        let db = DB::open_cf_descriptors(&options::log_db(), path, options::log_families())
            .map_err(StorageError::engine("open the log"))?;
        let log = Self {
            db,
            path: path.to_owned(),
            group_id,
            key,
        };
        let recovered = log.recover(tail_bytes)?;
        check_against_mark(&recovered, mark.mark())?;
        Ok((Arc::new(log), recovered))
    }

    /// Entries of a range in order, at most `bytes_max` of them, but at least one if there is one. Those at the beginning that were
    /// purged and those at the end that were not written yet are missing.
    ///
    /// # Errors
    /// If an entry within is missing or damaged, or the engine fails.
    pub fn read(
        &self,
        range: Range<u64>,
        bytes_max: usize,
    ) -> Result<Vec<(LogEntry, usize)>, StorageError> {
        let mut entries = Vec::new();
        let mut bytes = 0;
        self.scan(range, |entry, size| {
            if !entries.is_empty() && bytes + size > bytes_max {
                return false;
            }
            bytes += size;
            entries.push((entry, size));
            true
        })?;
        Ok(entries)
    }

    /// Has every entry fit a key as it is, durably. For a log that is not written to, and is opened under the key next.
    ///
    /// # Errors
    /// If an entry is missing or damaged, or the engine fails.
    pub fn adopt(&self, key: &DiskKey) -> Result<(), StorageError> {
        let mut next = 0;
        loop {
            let entries = self.read(next..u64::MAX, ADOPT_BYTES)?;
            if entries.is_empty() {
                return Ok(());
            }
            let mut batch = WriteBatch::default();
            for (entry, _) in &entries {
                let index = entry.log_id.map_or(next, |log_id| log_id.index);
                let mut value = entry.encode_to_vec();
                key.add_entry_tag(self.group_id, &mut value);
                batch.put_cf(&self.family(LOG), self.entry_key(index), value);
                next = index + 1;
            }
            let mut options = WriteOptions::default();
            options.set_sync(true);
            let written = self.db.write_opt(batch, &options);
            written.map_err(StorageError::engine("write the log"))?;
        }
    }

    /// Adds the tag to an entry that is to be written.
    pub(super) fn add_tag(&self, encoded: &mut Vec<u8>) {
        if let Some(key) = &self.key {
            key.add_entry_tag(self.group_id, encoded);
        }
    }

    /// The entry as it was encoded, if its tag fits.
    fn checked<'a>(&self, index: u64, stored: &'a [u8]) -> Result<&'a [u8], StorageError> {
        match &self.key {
            Some(key) => key
                .checked_entry(self.group_id, stored)
                .ok_or_else(|| StorageError::Changed(entry_name(index))),
            None => Ok(stored),
        }
    }

    fn recover(&self, tail_bytes: usize) -> Result<Recovered, StorageError> {
        let purged: Option<LogId> = self.meta(PURGED)?;
        let mut recovered = Recovered {
            vote: self.meta(VOTE)?,
            committed: self.meta(COMMITTED)?,
            purged,
            last: purged,
            tail: VecDeque::new(),
        };
        let start = purged.map_or(0, |purged| purged.index + 1);
        let mut bytes = 0;
        let mut first = None;
        let mut disorder = None;
        self.scan(start..u64::MAX, |entry, size| {
            let log_id = entry.log_id.unwrap_or_default();
            first.get_or_insert(log_id.index);
            if recovered
                .last
                .is_some_and(|last| leader(&log_id) < leader(&last))
            {
                disorder = Some(log_id.index);
                return false;
            }
            recovered.last = Some(log_id);
            recovered.tail.push_back((entry, size));
            bytes += size;
            while bytes > tail_bytes && recovered.tail.len() > 1 {
                bytes -= recovered.tail.pop_front().map_or(0, |(_, size)| size);
            }
            true
        })?;
        if let Some(index) = disorder {
            return Err(StorageError::damaged(
                entry_name(index),
                "its term is below the one before",
            ));
        }
        match first {
            Some(first) if first != start => Err(StorageError::damaged(
                entry_name(start),
                format!("it is missing; the log begins at {first}"),
            )),
            _ => Ok(recovered),
        }
    }

    /// Hands over the entries of a range in order until `visit` answers false. They follow each other without a gap.
    fn scan(
        &self,
        range: Range<u64>,
        mut visit: impl FnMut(LogEntry, usize) -> bool,
    ) -> Result<(), StorageError> {
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(self.entry_key(range.end));
        let mut rows = self.db.raw_iterator_cf_opt(&self.family(LOG), options);
        rows.seek(self.entry_key(range.start));
        let mut expected = None;
        while let Some((key, value)) = rows.item() {
            let index = index_of(key)?;
            if expected.is_some_and(|expected| expected != index) {
                let missing = entry_name(expected.unwrap_or_default());
                return Err(StorageError::damaged(
                    missing,
                    format!("it is missing before {index}"),
                ));
            }
            expected = Some(index + 1);
            let entry = decode_entry(index, self.checked(index, value)?)?;
            if !visit(entry, value.len()) {
                return Ok(());
            }
            rows.next();
        }
        rows.status().map_err(StorageError::engine("read the log"))
    }

    fn meta<T: Message + Default>(&self, name: &str) -> Result<Option<T>, StorageError> {
        let value = self.db.get_cf(&self.family(META), self.meta_key(name));
        let value = value.map_err(StorageError::engine("read the log"))?;
        let decode = |value: Vec<u8>| T::decode(value.as_slice());
        value
            .map(decode)
            .transpose()
            .map_err(|e| StorageError::damaged(format!("the log's `{name}`"), e.to_string()))
    }

    pub(super) fn family(&self, name: &str) -> Arc<BoundColumnFamily<'_>> {
        self.db
            .cf_handle(name)
            .expect("every family is created when the database is opened")
    }

    pub(super) fn entry_key(&self, index: u64) -> [u8; 12] {
        let mut key = [0; 12];
        key[..4].copy_from_slice(&self.group_id.to_be_bytes());
        key[4..].copy_from_slice(&index.to_be_bytes());
        key
    }

    pub(super) fn vote_key(&self) -> Vec<u8> {
        self.meta_key(VOTE)
    }

    pub(super) fn committed_key(&self) -> Vec<u8> {
        self.meta_key(COMMITTED)
    }

    pub(super) fn purged_key(&self) -> Vec<u8> {
        self.meta_key(PURGED)
    }

    pub(super) fn open_mark(&self) -> Result<SyncedMark, StorageError> {
        SyncedMark::open(&mark_path(&self.path))
    }

    fn meta_key(&self, name: &str) -> Vec<u8> {
        [&self.group_id.to_be_bytes()[..], name.as_bytes()].concat()
    }
}

impl std::fmt::Debug for LogDb {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("LogDb")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

fn mark_path(path: &Path) -> PathBuf {
    path.join("synced")
}

fn entry_name(index: u64) -> String {
    format!("log entry {index}")
}

fn leader(log_id: &LogId) -> u64 {
    log_id.term
}

fn index_of(key: &[u8]) -> Result<u64, StorageError> {
    let index = key
        .get(4..)
        .and_then(|index| index.try_into().ok())
        .map(u64::from_be_bytes);
    index.ok_or_else(|| StorageError::damaged("a log entry", "its key is too short"))
}

fn decode_entry(index: u64, value: &[u8]) -> Result<LogEntry, StorageError> {
    // The engine has checked its checksum: what is wrong with it was written so, on every node.
    let unreadable = |detail: String| StorageError::not_understood(entry_name(index), detail);
    let entry = LogEntry::decode(value).map_err(|e| unreadable(e.to_string()))?;
    if entry.format > ENTRY_FORMAT {
        let (found, known) = (entry.format, ENTRY_FORMAT);
        return Err(StorageError::NewerFormat {
            what: "the log",
            found,
            known,
        });
    }
    if entry.payload.is_none() {
        return Err(unreadable("it carries nothing".to_owned()));
    }
    match entry.log_id {
        Some(log_id) if log_id.index == index => Ok(entry),
        other => Err(unreadable(format!("it says to be {other:?}"))),
    }
}

/// Refuses a log or vote that is below what was known to be durable.
fn check_against_mark(recovered: &Recovered, mark: &Mark) -> Result<(), StorageError> {
    let end = recovered.last.map_or(0, |last| last.index + 1);
    if end < mark.end {
        let synced = format!("entry {}", mark.end - 1);
        let found = recovered
            .last
            .map_or("nothing".to_owned(), |last| format!("entry {}", last.index));
        return Err(StorageError::BelowSynced { synced, found });
    }
    let rank = |vote: &Vote| (vote.term, vote.node_id, vote.committed);
    if recovered.vote.as_ref().map(rank) < mark.vote.as_ref().map(rank) {
        let name = |vote: &Option<Vote>| {
            vote.as_ref().map_or("no vote".to_owned(), |v| {
                format!("the vote of term {}", v.term)
            })
        };
        let (synced, found) = (name(&mark.vote), name(&recovered.vote));
        return Err(StorageError::BelowSynced { synced, found });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
