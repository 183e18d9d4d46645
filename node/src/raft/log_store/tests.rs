//! Tests of `log_store`.

use futures::TryStreamExt;
use openraft::{
    OptionalSend, RaftLogReader, StorageError as RaftStorageError,
    alias::{SnapshotMetaOf, SnapshotOf, StoredMembershipOf},
    storage::{EntryResponder, IOFlushed, RaftLogStorage, RaftSnapshotBuilder, RaftStateMachine},
    testing::log::{StoreBuilder, Suite},
    type_config::TypeConfigExt,
};
use tempfile::TempDir;

use super::*;
use crate::{
    raft::types::{CommittedLeaderId, Payload, Proposal},
    storage::{
        checkpoint::{SnapshotDir, Snapshots},
        options::StateOptions,
        state_db::StateDb,
    },
    traces::Passage,
};

const GROUP_ID: u32 = 1;
const TAIL_BYTES: usize = 16 << 20;

/// The real state and snapshots, without a machine: an entry leaves no row.
#[derive(Clone)]
struct Rowless {
    state: Arc<StateDb>,
    snapshots: Arc<Snapshots>,
}

impl RaftSnapshotBuilder<TypeConfig> for Rowless {
    type SnapshotData = SnapshotDir;

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<TypeConfig, SnapshotDir>> {
        let snapshot = self.snapshots.build(&self.state)?;
        let meta = codec::snapshot_meta(snapshot.manifest()).unwrap();
        Ok(SnapshotOf::<TypeConfig, SnapshotDir> { meta, snapshot })
    }
}

impl RaftStateMachine<TypeConfig> for Rowless {
    type SnapshotData = SnapshotDir;
    type SnapshotBuilder = Self;

    async fn applied_state(
        &mut self,
    ) -> io::Result<(Option<LogId>, StoredMembershipOf<TypeConfig>)> {
        let applied = self.state.applied()?.as_ref().map(codec::log_id_from_proto);
        let membership = self.state.membership()?.unwrap_or_default();
        Ok((
            applied,
            codec::stored_membership_from_proto(membership).unwrap(),
        ))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<TypeConfig>>> + Unpin + OptionalSend,
    {
        while let Some((entry, _)) = entries.try_next().await? {
            let applied = codec::log_id_to_proto(&entry.log_id);
            let membership = match entry.payload {
                Payload::Membership(membership) => {
                    let stored =
                        StoredMembershipOf::<TypeConfig>::new(Some(entry.log_id), membership);
                    Some(codec::stored_membership_to_proto(&stored))
                }
                Payload::Blank | Payload::Normal(_) => None,
            };
            self.state.write([], &applied, membership.as_ref())?;
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn install_snapshot(
        &mut self,
        _: &SnapshotMetaOf<TypeConfig>,
        snapshot: SnapshotDir,
    ) -> io::Result<()> {
        self.state.install(&snapshot)?;
        self.snapshots.publish(&snapshot)?;
        Ok(())
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> io::Result<Option<SnapshotOf<TypeConfig, SnapshotDir>>> {
        let Some(snapshot) = self.snapshots.current() else {
            return Ok(None);
        };
        let meta = codec::snapshot_meta(snapshot.manifest()).unwrap();
        Ok(Some(SnapshotOf::<TypeConfig, SnapshotDir> {
            meta,
            snapshot,
        }))
    }
}

struct Builder {
    tail_bytes: usize,
}

impl StoreBuilder<TypeConfig, LogStore, Rowless, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, LogStore, Rowless), RaftStorageError<TypeConfig>> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        // The suite purges what it never applied.
        let log = open(&directory, self.tail_bytes);
        log.0.gate.advance(u64::MAX);
        let options = StateOptions {
            block_cache_bytes: 1 << 20,
            memtable_bytes: 1 << 20,
        };
        let state = Rowless {
            state: Arc::new(StateDb::open(path, options).unwrap()),
            snapshots: Arc::new(Snapshots::open(&path.join("snapshots")).unwrap()),
        };
        Ok((directory, log, state))
    }
}

fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(test)
}

#[test]
fn the_store_keeps_openrafts_contract() {
    run(Suite::test_all(Builder {
        tail_bytes: TAIL_BYTES,
    }))
    .unwrap();
}

#[test]
fn the_store_keeps_openrafts_contract_when_it_reads_the_disk() {
    run(Suite::test_all(Builder { tail_bytes: 0 })).unwrap();
}

fn log_id(term: u64, index: u64) -> LogId {
    LogId {
        leader_id: CommittedLeaderId::new(term),
        index,
    }
}

fn command(term: u64, index: u64, bytes: usize) -> Entry {
    let command = bytes::Bytes::from(vec![index as u8; bytes]);
    Entry {
        log_id: log_id(term, index),
        payload: Payload::Normal(Proposal::from(command)),
    }
}

async fn append(log: &mut LogStore, entries: impl IntoIterator<Item = Entry> + Send) {
    let entries: Vec<_> = entries.into_iter().collect();
    let last = entries.last().unwrap().log_id.index;
    log.append(entries, IOFlushed::noop()).await.unwrap();
    log.durable(last).await.unwrap();
}

fn open(directory: &TempDir, tail_bytes: usize) -> LogStore {
    let path = directory.path().join("raft");
    LogStore::open(&path, GROUP_ID, tail_bytes, PurgeGate::default()).unwrap()
}

#[test]
fn what_was_appended_is_there_after_reopening() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let mut log = open(&directory, TAIL_BYTES);
        let vote = Vote {
            leader_id: LeaderId {
                term: 2,
                voted_for: 1,
            },
            committed: true,
        };
        log.save_vote(&vote).await.unwrap();
        append(&mut log, (0..10).map(|index| command(2, index, 100))).await;
        log.save_committed(Some(log_id(2, 7))).await.unwrap();
        drop(log);

        let mut log = open(&directory, 500);
        assert_eq!(log.read_vote().await.unwrap(), Some(vote));
        assert_eq!(log.read_committed().await.unwrap(), Some(log_id(2, 7)));
        let state = log.get_log_state().await.unwrap();
        assert_eq!(
            (state.last_purged_log_id, state.last_log_id),
            (None, Some(log_id(2, 9)))
        );
        let expected: Vec<_> = (0..10).map(|index| command(2, index, 100)).collect();
        assert_eq!(log.try_get_log_entries(..).await.unwrap(), expected);
    });
}

#[test]
fn entry_of_a_recorded_trace_has_the_same_bytes_and_notes_when_it_is_durable() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let mut log = open(&directory, TAIL_BYTES);
        let passage = Passage::noted();
        let mut entry = command(1, 0, 10);
        let plain = codec::entry_to_proto(&entry);
        if let Payload::Normal(proposal) = &mut entry.payload {
            proposal.passage = passage.clone();
        }
        assert_eq!(codec::entry_to_proto(&entry), plain);
        append(&mut log, [entry]).await;
        log.barrier().await.unwrap();
        assert!(passage.is_durable());
    });
}

#[test]
fn entries_appended_after_a_truncation_replace_the_old_ones_across_reopening() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let mut log = open(&directory, 0);
        append(&mut log, (0..10).map(|index| command(1, index, 10))).await;
        log.truncate_after(Some(log_id(1, 4))).await.unwrap();
        assert_eq!(log.try_get_log_entries(..).await.unwrap().len(), 5);
        append(&mut log, (5..7).map(|index| command(2, index, 10))).await;
        drop(log);

        let mut log = open(&directory, 0);
        let entries = log.try_get_log_entries(..).await.unwrap();
        let terms: Vec<_> = entries
            .iter()
            .map(|entry| entry.log_id.leader_id.term)
            .collect();
        assert_eq!(terms, [1, 1, 1, 1, 1, 2, 2]);
    });
}

#[test]
fn a_purged_log_reopens_where_it_begins() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let mut log = open(&directory, 0);
        append(&mut log, (0..10).map(|index| command(1, index, 10))).await;
        log.0.gate.advance(20);
        log.purge(log_id(1, 4)).await.unwrap();
        append(&mut log, [command(1, 10, 10)]).await;
        drop(log);

        let mut log = open(&directory, 0);
        assert_eq!(log.purged(), Some(log_id(1, 4)));
        log.check_reaches(4).unwrap();
        let gap = log.check_reaches(3).unwrap_err().to_string();
        assert!(gap.contains("the log up to entry 4 is damaged"), "{gap}");
        let entries = log.try_get_log_entries(..).await.unwrap();
        assert_eq!(entries.first().unwrap().log_id.index, 5);
        // As after a snapshot from the leader: beyond the end.
        log.0.gate.advance(20);
        log.purge(log_id(3, 20)).await.unwrap();
        append(&mut log, [command(3, 21, 10)]).await;
        drop(log);
        let mut log = open(&directory, 0);
        assert_eq!(
            log.try_get_log_entries(..).await.unwrap(),
            [command(3, 21, 10)]
        );
    });
}

#[test]
fn nothing_is_purged_that_the_durable_state_lacks() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let mut log = open(&directory, TAIL_BYTES);
        append(&mut log, (0..10).map(|index| command(1, index, 10))).await;
        assert!(log.purge(log_id(1, 4)).await.is_err());
        log.0.gate.advance(4);
        log.purge(log_id(1, 4)).await.unwrap();
        assert!(log.purge(log_id(1, 5)).await.is_err());
    });
}

#[test]
fn what_is_known_to_be_committed_is_never_truncated() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let mut log = open(&directory, TAIL_BYTES);
        append(&mut log, (0..10).map(|index| command(1, index, 10))).await;
        log.save_committed(Some(log_id(1, 4))).await.unwrap();
        let refused = |error: io::Error| error.to_string();
        let lacking = log.truncate_after(Some(log_id(1, 3))).await;
        let why = lacking.map_err(refused).unwrap_err();
        assert!(
            why.contains("from 4 to 4") && why.contains("`helve recover`"),
            "{why}"
        );
        log.truncate_after(Some(log_id(1, 7))).await.unwrap();
        // What the durable state has applied was committed, whether the log was told or not.
        log.0.gate.advance(6);
        let lacking = log.truncate_after(Some(log_id(1, 5))).await;
        let why = lacking.map_err(refused).unwrap_err();
        assert!(why.contains("from 6 to 6"), "{why}");
        log.truncate_after(Some(log_id(1, 6))).await.unwrap();
        drop(log);
        let mut log = open(&directory, TAIL_BYTES);
        assert_eq!(log.try_get_log_entries(..).await.unwrap().len(), 7);
    });
}

#[test]
fn a_gap_is_not_appended() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let mut log = open(&directory, TAIL_BYTES);
        append(&mut log, [command(1, 0, 10)]).await;
        assert!(
            log.append([command(1, 2, 10)], IOFlushed::noop())
                .await
                .is_err()
        );
    });
}

#[test]
fn reads_come_in_pages_and_are_never_empty() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        for tail_bytes in [0, usize::MAX] {
            let path = directory.path().join(tail_bytes.to_string());
            let mut log =
                LogStore::open(&path, GROUP_ID, tail_bytes, PurgeGate::default()).unwrap();
            append(
                &mut log,
                (0..5).map(|index| command(1, index, LOG_PAGE_BYTES_MAX / 2 - 100)),
            )
            .await;
            append(&mut log, [command(1, 5, LOG_PAGE_BYTES_MAX + 1)]).await;
            assert_eq!(log.limited_get_log_entries(0, 6).await.unwrap().len(), 2);
            assert_eq!(log.limited_get_log_entries(5, 6).await.unwrap().len(), 1);
            let streamed: Vec<_> = log.entries_stream(1..6).await.try_collect().await.unwrap();
            assert_eq!(streamed.len(), 5);
        }
    });
}

#[test]
fn a_callback_comes_after_the_sync() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let mut log = open(&directory, TAIL_BYTES);
        let (sender, flushed) = TypeConfig::oneshot();
        let before = log.stats().syncs.load(Ordering::Relaxed);
        log.append([command(1, 0, 10)], IOFlushed::signal(sender))
            .await
            .unwrap();
        // Readable at once, durable or not.
        assert_eq!(log.try_get_log_entries(0..1).await.unwrap().len(), 1);
        flushed.await.unwrap().unwrap();
        assert_eq!(log.stats().syncs.load(Ordering::Relaxed), before + 1);
    });
}

#[test]
fn a_stopped_log_takes_nothing_more() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let mut log = open(&directory, TAIL_BYTES);
        append(&mut log, [command(1, 0, 10)]).await;
        log.stop();
        assert!(
            log.append([command(1, 1, 10)], IOFlushed::noop())
                .await
                .is_err()
        );
        assert!(log.barrier().await.is_err());
        assert_eq!(log.try_get_log_entries(..).await.unwrap().len(), 1);
    });
}

#[test]
fn a_log_whose_disk_does_not_follow_says_that_it_is_overloaded() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let log = open(&directory, TAIL_BYTES);
        let queued = &log.stats().queued_bytes;
        queued.store(LOG_QUEUED_BYTES_MAX, Ordering::Relaxed);
        assert!(!log.is_overloaded());
        queued.fetch_add(1, Ordering::Relaxed);
        assert!(log.is_overloaded());
    });
}
