//! Tests of `state_machine`: that rows which linger are written before consensus does anything else than apply.
//!
//! What is applied lingers for tens of milliseconds, which nothing here uses up.

use futures::stream;
use helve_proto::peer::v1::NodeRecord;
use openraft::storage::{IOFlushed, RaftLogStorage as _, RaftSnapshotBuilder as _};
use tempfile::TempDir;

use super::{
    made_up_tests::{carrying, entry, revision, store},
    *,
};
use crate::{
    limits::{GROUP_ID, LOG_TAIL_BYTES, WATCH_WINDOW_BYTES},
    raft::{
        committed_log::{CommittedLog, Following},
        types::Entry,
    },
    storage::options::StateOptions,
};

struct Node {
    _directory: TempDir,
    log: LogStore,
    machine: StateMachine,
}

impl Node {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let data_dir = DataDir::open(path, 1, "a-uuid").unwrap();
        let gate = PurgeGate::default();
        let log = LogStore::open(&path.join("raft"), GROUP_ID, LOG_TAIL_BYTES, gate.clone());
        let log = log.unwrap();
        let machine = StateMachine::start(
            Arc::new(StateDb::open(path, StateOptions::default()).unwrap()),
            Arc::new(Snapshots::open(&path.join("snapshots")).unwrap()),
            Arc::new(Identity::new(NodeRecord::default(), 1, String::new())),
            Arc::new(Mutex::new(data_dir)),
            (log.clone(), gate),
            ChangeFeed::new(WATCH_WINDOW_BYTES),
        );
        Self {
            _directory: directory,
            log,
            machine: machine.unwrap(),
        }
    }

    /// Appends and applies entries that store these keys, from index 0 on.
    async fn store(&mut self, keys: &[&str]) {
        let entries = (0..).zip(keys);
        let entries = entries.map(|(index, key)| entry(index, carrying(&store(index, key))));
        let entries: Vec<Entry> = entries.collect();
        let appended = self.log.append(entries.clone(), IOFlushed::noop()).await;
        appended.unwrap();
        let entries = entries.into_iter().map(|entry| Ok((entry, None)));
        self.machine.apply(stream::iter(entries)).await.unwrap();
    }

    async fn applied(&mut self) -> Option<u64> {
        let (applied, _) = self.machine.applied_state().await.unwrap();
        applied.map(|id| id.index)
    }

    fn revisions(&self) -> [Option<u64>; 2] {
        ["a", "b"].map(|key| revision(&self.machine.rows.state, key))
    }
}

#[tokio::test]
async fn what_was_applied_is_what_consensus_hears_of() {
    let mut node = Node::new();
    node.store(&["a", "b"]).await;
    assert_eq!(node.applied().await, Some(1));
    assert_eq!(node.revisions(), [Some(0), Some(1)]);
}

#[tokio::test]
async fn a_snapshot_holds_what_was_applied_before_it() {
    let mut node = Node::new();
    node.store(&["a", "b"]).await;
    let mut builder = node.machine.get_snapshot_builder().await;
    let snapshot = builder.build_snapshot().await.unwrap();
    assert_eq!(snapshot.meta.last_log_id.map(|id| id.index), Some(1));
}

#[tokio::test]
async fn rows_that_linger_never_reach_a_state_that_is_installed() {
    let mut ahead = Node::new();
    ahead.store(&["a", "b", "a"]).await;
    let mut builder = ahead.machine.get_snapshot_builder().await;
    let newer = builder.build_snapshot().await.unwrap();
    let mut behind = Node::new();
    behind.store(&["a"]).await;
    let installed = behind.machine.install_snapshot(&newer.meta, newer.snapshot);
    installed.await.unwrap();
    assert_eq!(behind.applied().await, Some(2));
    assert_eq!(behind.revisions(), [Some(2), Some(1)]);
}

#[tokio::test]
async fn entries_that_a_snapshot_replaced_are_not_sent() {
    let mut ahead = Node::new();
    ahead.store(&["a", "b", "a"]).await;
    let mut builder = ahead.machine.get_snapshot_builder().await;
    let newer = builder.build_snapshot().await.unwrap();
    let mut behind = Node::new();
    behind.store(&["a"]).await;
    // Of a leader that was deposed before a majority had it.
    let replaced = entry(1, Payload::Blank);
    let appended = behind.log.append([replaced], IOFlushed::noop()).await;
    appended.unwrap();
    let committed = CommittedLog::new(behind.log.clone(), behind.machine.applied_log());
    let last = newer.meta.last_log_id.unwrap();
    let installed = behind.machine.install_snapshot(&newer.meta, newer.snapshot);
    installed.await.unwrap();
    // Consensus purges the log a moment later.
    let following = committed.after(0).await.unwrap();
    assert!(
        matches!(&following, Following::Entries(entries) if entries.is_empty()),
        "{following:?}"
    );
    assert_eq!(committed.term(1).await.unwrap(), None);
    behind.log.purge(last).await.unwrap();
    let following = committed.after(0).await.unwrap();
    assert!(matches!(following, Following::Purged(2)), "{following:?}");
}
