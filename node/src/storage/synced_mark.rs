//! How far the log was synced, and the newest vote, beside the log database.
//!
//! Recovery cannot tell a record that was never synced from one that a disk lost: both are missing from the tail. The mark can: a log
//! or vote below it has lost what others count on. For that it must never be ahead of what is durable, and may be behind:
//!
//! - it is raised only after the log was synced, and without a sync of its own. Killing the process loses nothing that was written;
//!   a power cut may bring back an older mark, which vouches for less;
//! - before a truncation is written to the log it is lowered, and that is synced. A power cut between the two leaves a mark that is
//!   lower than need be.
//!
//! It is written in place to two slots in turn, so that a torn write costs only the newest of them.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use helve_proto::peer::v1::Vote;
use prost::Message;

use super::{durable_file, error::StorageError};

const SLOT_BYTES: usize = 4096;
const FORMAT: u32 = 1;

/// What is known to be durable.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Mark {
    #[prost(uint32, tag = "1")]
    format: u32,
    /// Of two slots the higher one counts.
    #[prost(uint64, tag = "2")]
    sequence: u64,
    /// Entries below this index are durable.
    #[prost(uint64, tag = "3")]
    pub(super) end: u64,
    /// The newest durable vote.
    #[prost(message, optional, tag = "4")]
    pub(super) vote: Option<Vote>,
}

/// The file that holds the mark.
#[derive(Debug)]
pub(super) struct SyncedMark {
    path: PathBuf,
    file: File,
    mark: Mark,
}

impl SyncedMark {
    /// Creates the file of a new log, durably.
    pub(super) fn create(path: &Path) -> Result<(), StorageError> {
        let mark = Mark {
            format: FORMAT,
            sequence: 0,
            end: 0,
            vote: None,
        };
        let mut content = slot(&mark);
        content.resize(2 * SLOT_BYTES, 0);
        durable_file::replace(path, &content).map_err(StorageError::io("create", path))
    }

    /// Reads the file of a log that exists.
    pub(super) fn open(path: &Path) -> Result<Self, StorageError> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let mut file = file.map_err(StorageError::io("open", path))?;
        let mut content = Vec::new();
        file.read_to_end(&mut content)
            .map_err(StorageError::io("read", path))?;
        let marks = content.chunks(SLOT_BYTES).filter_map(read_slot);
        let Some(mark) = marks.max_by_key(|mark| mark.sequence) else {
            let what = path.display().to_string();
            return Err(StorageError::damaged(
                what,
                "neither of its records can be read",
            ));
        };
        if mark.format > FORMAT {
            let (found, known) = (mark.format, FORMAT);
            return Err(StorageError::NewerFormat {
                what: "the log's synced mark",
                found,
                known,
            });
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            mark,
        })
    }

    pub(super) fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Raises the mark, after the log was synced.
    pub(super) fn raise(&mut self, end: u64, vote: Option<Vote>) -> Result<(), StorageError> {
        self.mark.end = end;
        if vote.is_some() {
            self.mark.vote = vote;
        }
        self.write().map_err(StorageError::io("write", &self.path))
    }

    /// Lowers the mark durably, before the log is truncated. Never raises it.
    pub(super) fn lower(&mut self, end: u64) -> Result<(), StorageError> {
        if end >= self.mark.end {
            return Ok(());
        }
        self.mark.end = end;
        // Both slots: neither may still vouch for what is about to be truncated.
        self.write()
            .and_then(|()| self.write())
            .and_then(|()| self.file.sync_data())
            .map_err(StorageError::io("sync", &self.path))
    }

    fn write(&mut self) -> io::Result<()> {
        self.mark.sequence += 1;
        let offset = (self.mark.sequence % 2) * SLOT_BYTES as u64;
        self.file.write_all_at(&slot(&self.mark), offset)
    }
}

fn slot(mark: &Mark) -> Vec<u8> {
    durable_file::seal(&mark.encode_length_delimited_to_vec())
}

/// A slot holds a checksum over a length and a mark; what follows is left from longer marks.
fn read_slot(slot: &[u8]) -> Option<Mark> {
    let length = prost::decode_length_delimiter(slot.get(4..)?).ok()?;
    let sealed = slot.get(..4 + prost::length_delimiter_len(length) + length)?;
    Mark::decode_length_delimited(durable_file::open(sealed)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vote(term: u64) -> Option<Vote> {
        Some(Vote {
            term,
            node_id: 1,
            committed: true,
        })
    }

    fn new_mark(directory: &tempfile::TempDir) -> (PathBuf, SyncedMark) {
        let path = directory.path().join("synced");
        SyncedMark::create(&path).unwrap();
        let mark = SyncedMark::open(&path).unwrap();
        (path, mark)
    }

    #[test]
    fn the_newest_mark_comes_back() {
        let directory = tempfile::tempdir().unwrap();
        let (path, mut mark) = new_mark(&directory);
        mark.raise(u64::MAX, vote(u64::MAX)).unwrap();
        mark.raise(7, vote(2)).unwrap();
        mark.raise(9, None).unwrap();
        let read = SyncedMark::open(&path).unwrap();
        assert_eq!((read.mark().end, read.mark().vote), (9, vote(2)));
    }

    #[test]
    fn a_torn_mark_leaves_the_one_before() {
        let directory = tempfile::tempdir().unwrap();
        let (path, mut mark) = new_mark(&directory);
        mark.raise(7, None).unwrap();
        mark.raise(9, None).unwrap();
        let offset = (mark.mark.sequence % 2) * SLOT_BYTES as u64;
        mark.file.write_all_at(&[0xff; 3], offset).unwrap();
        assert_eq!(SyncedMark::open(&path).unwrap().mark().end, 7);
    }

    #[test]
    fn a_mark_that_cannot_be_read_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (path, _) = new_mark(&directory);
        std::fs::write(&path, [0xff; 2 * SLOT_BYTES]).unwrap();
        assert!(matches!(
            SyncedMark::open(&path),
            Err(StorageError::Damaged { .. })
        ));
    }

    #[test]
    fn lowering_leaves_no_higher_mark_in_either_slot() {
        let directory = tempfile::tempdir().unwrap();
        let (path, mut mark) = new_mark(&directory);
        mark.raise(9, None).unwrap();
        mark.lower(5).unwrap();
        mark.lower(8).unwrap();
        let content = std::fs::read(&path).unwrap();
        let ends = content
            .chunks(SLOT_BYTES)
            .filter_map(read_slot)
            .map(|mark| mark.end);
        assert!(ends.eq([5, 5]));
    }
}
