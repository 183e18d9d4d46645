//! Tests of `log_db`.

mod keyed;

use std::{
    fs::OpenOptions,
    io::{Seek, SeekFrom, Write},
};

use helve_proto::peer::v1::log_entry::Payload;
use tempfile::TempDir;

use super::*;
use crate::storage::{log_op::LogOp, log_writer::LogWriter};

const GROUP_ID: u32 = 1;

/// A log, and its writer, in a directory that outlives them.
struct Fixture {
    log: Arc<LogDb>,
    writer: LogWriter,
}

impl Fixture {
    fn open(directory: &TempDir) -> Self {
        let (log, recovered) = open(directory).unwrap();
        let writer = LogWriter::start(Arc::clone(&log), &recovered).unwrap();
        Self { log, writer }
    }

    /// Sends an operation and waits until its callback was called.
    fn call(&self, op: impl FnOnce(crate::storage::log_op::Done) -> LogOp) {
        let (sender, done) = std::sync::mpsc::channel();
        self.writer
            .send(op(Box::new(move |result| sender.send(result).unwrap())))
            .unwrap();
        done.recv().unwrap().unwrap();
    }

    fn append(&self, term: u64, indexes: Range<u64>) {
        let entries = indexes.map(|index| entry(term, index)).collect();
        self.call(|done| LogOp::Append { entries, done });
    }

    fn vote(&self, term: u64) {
        let vote = Vote {
            term,
            node_id: 1,
            committed: false,
        };
        self.call(|done| LogOp::Vote { vote, done });
    }

    fn barrier(&self) {
        self.call(|done| LogOp::Barrier { done });
    }

    /// Writes behind the log writer's back.
    fn put(&self, index: u64, value: &[u8]) {
        let key = self.log.entry_key(index);
        self.log
            .db
            .put_cf(&self.log.family(LOG), key, value)
            .unwrap();
    }

    fn delete(&self, index: u64) {
        let key = self.log.entry_key(index);
        self.log.db.delete_cf(&self.log.family(LOG), key).unwrap();
    }
}

fn path(directory: &TempDir) -> PathBuf {
    directory.path().join("raft")
}

fn open(directory: &TempDir) -> Result<(Arc<LogDb>, Recovered), StorageError> {
    LogDb::open(&path(directory), GROUP_ID, usize::MAX)
}

fn entry(term: u64, index: u64) -> LogEntry {
    LogEntry {
        format: ENTRY_FORMAT,
        log_id: Some(LogId { term, index }),
        payload: Some(Payload::Command(vec![7; 100].into())),
    }
}

fn last_index(directory: &TempDir) -> Option<u64> {
    let (_, recovered) = open(directory).unwrap();
    recovered.last.map(|last| last.index)
}

/// The newest write-ahead file of the log.
fn wal(directory: &TempDir) -> PathBuf {
    let files = fs::read_dir(path(directory))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let is_wal = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "log");
    files.filter(is_wal).max().unwrap()
}

/// Cuts the end off a file, as a disk does that lost its last writes.
fn cut(path: &Path, bytes: u64) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    let size = file.metadata().unwrap().len();
    file.set_len(size - bytes).unwrap();
}

#[test]
fn a_tail_that_was_never_synced_may_be_torn() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = Fixture::open(&directory);
    fixture.append(1, 0..10);
    // Not through the writer, so that the mark does not know of it.
    fixture.put(10, &entry(1, 10).encode_to_vec());
    drop(fixture);
    assert_eq!(
        last_index(&directory),
        Some(10),
        "reopening moves the write-ahead file's content"
    );

    let directory = tempfile::tempdir().unwrap();
    let fixture = Fixture::open(&directory);
    fixture.append(1, 0..10);
    fixture.put(10, &entry(1, 10).encode_to_vec());
    drop(fixture);
    cut(&wal(&directory), 5);
    assert_eq!(last_index(&directory), Some(9));
}

#[test]
fn a_log_that_lost_synced_entries_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = Fixture::open(&directory);
    fixture.append(1, 0..10);
    fixture.append(1, 10..11);
    drop(fixture);
    cut(&wal(&directory), 5);
    assert!(matches!(
        open(&directory),
        Err(StorageError::BelowSynced { .. })
    ));
}

#[test]
fn a_log_that_lost_its_vote_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = Fixture::open(&directory);
    fixture.append(1, 0..10);
    fixture.vote(5);
    drop(fixture);
    cut(&wal(&directory), 5);
    assert!(matches!(
        open(&directory),
        Err(StorageError::BelowSynced { .. })
    ));
}

#[test]
fn damage_in_the_middle_of_the_log_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = Fixture::open(&directory);
    for index in 0..10 {
        fixture.append(1, index..index + 1);
    }
    drop(fixture);
    let mut file = OpenOptions::new()
        .write(true)
        .open(wal(&directory))
        .unwrap();
    file.seek(SeekFrom::Start(300)).unwrap();
    file.write_all(&[0xff; 8]).unwrap();
    assert!(open(&directory).is_err());
}

#[test]
fn a_log_without_its_mark_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    Fixture::open(&directory).append(1, 0..10);
    fs::remove_file(path(&directory).join("synced")).unwrap();
    assert!(matches!(open(&directory), Err(StorageError::Io { .. })));
}

#[test]
fn a_truncated_log_is_not_taken_for_one_that_lost_entries() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = Fixture::open(&directory);
    fixture.append(1, 0..10);
    fixture.writer.send(LogOp::Truncate { end: 4 }).unwrap();
    fixture.barrier();
    drop(fixture);
    assert_eq!(last_index(&directory), Some(3));

    // In one group, or in several: the mark follows.
    let fixture = Fixture::open(&directory);
    fixture.writer.send(LogOp::Truncate { end: 2 }).unwrap();
    fixture.append(2, 2..3);
    drop(fixture);
    assert_eq!(last_index(&directory), Some(2));
}

#[test]
fn a_truncation_that_a_power_cut_undid_leaves_a_log_that_opens() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = Fixture::open(&directory);
    fixture.append(1, 0..10);
    drop(fixture);
    // The mark was lowered, the truncation lost.
    let mut mark = SyncedMark::open(&mark_path(&path(&directory))).unwrap();
    mark.lower(4).unwrap();
    assert_eq!(last_index(&directory), Some(9));
}

#[test]
fn a_gap_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = Fixture::open(&directory);
    fixture.append(1, 0..10);
    fixture.delete(4);
    drop(fixture);
    let error = open(&directory).unwrap_err();
    assert!(
        error.to_string().contains("log entry 4 is damaged"),
        "{error}"
    );
}

#[test]
fn a_log_that_lost_its_beginning_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = Fixture::open(&directory);
    fixture.append(1, 0..10);
    fixture.delete(0);
    drop(fixture);
    let error = open(&directory).unwrap_err();
    assert!(
        error.to_string().contains("log entry 0 is damaged"),
        "{error}"
    );
}

#[test]
fn an_entry_that_cannot_be_decoded_is_refused() {
    let damages: [&[u8]; 3] = [b"garbage", &[], &entry(1, 5).encode_to_vec()];
    for damage in damages {
        let directory = tempfile::tempdir().unwrap();
        let fixture = Fixture::open(&directory);
        fixture.append(1, 0..10);
        fixture.put(4, damage);
        drop(fixture);
        let error = open(&directory).unwrap_err();
        assert!(error.to_string().contains("log entry 4 "), "{error}");
    }
}

#[test]
fn an_entry_of_a_newer_format_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = Fixture::open(&directory);
    fixture.append(1, 0..10);
    fixture.put(
        9,
        &LogEntry {
            format: ENTRY_FORMAT + 1,
            ..entry(1, 9)
        }
        .encode_to_vec(),
    );
    drop(fixture);
    assert!(matches!(
        open(&directory),
        Err(StorageError::NewerFormat { .. })
    ));
}

#[test]
fn terms_that_go_back_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = Fixture::open(&directory);
    fixture.append(2, 0..10);
    fixture.put(9, &entry(1, 9).encode_to_vec());
    drop(fixture);
    let error = open(&directory).unwrap_err();
    assert!(
        error.to_string().contains("log entry 9 is damaged"),
        "{error}"
    );
}

#[test]
fn what_gathers_while_the_disk_is_busy_shares_a_sync() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = Fixture::open(&directory);
    // The first callback holds the writer until all the others wait.
    let (release, held) = std::sync::mpsc::channel::<()>();
    let done = Box::new(move |_| held.recv().unwrap());
    fixture.writer.send(LogOp::Barrier { done }).unwrap();
    for index in 0..50 {
        let entries = vec![entry(1, index)];
        fixture
            .writer
            .send(LogOp::Append {
                entries,
                done: Box::new(|_| ()),
            })
            .unwrap();
    }
    release.send(()).unwrap();
    fixture.barrier();
    let stats = fixture.writer.stats();
    let load =
        |count: &std::sync::atomic::AtomicU64| count.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(load(&stats.entries), 50);
    assert!(load(&stats.syncs) <= 2, "{} syncs", load(&stats.syncs));
    assert_eq!(load(&stats.queued_bytes), 0);
}

#[test]
fn a_committed_entry_that_is_not_written_yet_is_not_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = Fixture::open(&directory);
    fixture.append(1, 0..2);
    let committed = LogId { term: 1, index: 2 };
    fixture.writer.committed(committed);
    drop(fixture);
    assert_eq!(open(&directory).unwrap().1.committed, None);

    let fixture = Fixture::open(&directory);
    fixture.writer.committed(committed);
    fixture.append(1, 2..3);
    drop(fixture);
    assert_eq!(open(&directory).unwrap().1.committed, Some(committed));
}
