//! Tests of `rows`: when callers are told, and when rows are written.

use helve_proto::{
    command::v1::{Command, Tick, command::Operation},
    peer::v1::NodeRecord,
    v1::{BatchStoreRequest, Lifetime, StoreItem, lifetime::Absolute},
};
use tempfile::TempDir;
use tokio::sync::oneshot;

use super::*;
use crate::{
    apply::Chunk,
    limits::{APPLY_ENTRIES_MAX, WATCH_WINDOW_BYTES},
    raft::{
        state_machine::made_up_tests::{carrying, command, entry, revision, store},
        types::{Membership, Payload},
    },
    storage::options::StateOptions,
};

type Outcomes = oneshot::Receiver<io::Result<Vec<Outcome>>>;

struct Node {
    _directory: TempDir,
    rows: Rows,
    report: Report,
}

impl Node {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let data_dir = DataDir::open(directory.path(), 1, "a-uuid").unwrap();
        let state = StateDb::open(directory.path(), StateOptions::default()).unwrap();
        let identity = Identity::new(NodeRecord::default(), 1, String::new());
        let rows = Rows::new(
            Arc::new(state),
            Arc::new(identity),
            Arc::new(Mutex::new(data_dir)),
            ChangeFeed::new(WATCH_WINDOW_BYTES),
        );
        let report = Report::new(rows.progress().unwrap());
        Self {
            _directory: directory,
            rows,
            report,
        }
    }

    fn written(&self) -> u64 {
        let applied = self.rows.state.applied().unwrap();
        let index = applied.map_or(0, |id| id.index);
        assert_eq!(self.report.last().index, index);
        index
    }

    fn applied(&self) -> u64 {
        self.report
            .applied()
            .load(std::sync::atomic::Ordering::Acquire)
    }
}

/// These entries, the first of which has this index.
fn work(first: u64, payloads: impl IntoIterator<Item = Payload>) -> (Work, Outcomes) {
    let mut chunk = Chunk::default();
    for (index, payload) in (first..).zip(payloads) {
        chunk.push(entry(index, payload));
    }
    let (done, outcomes) = oneshot::channel();
    (Work { chunk, done }, outcomes)
}

/// Hands out work as a closure says.
struct More<F>(F);

impl<F: FnMut() -> Option<Work>> Linger for More<F> {
    fn may(&self) -> bool {
        true
    }

    fn next(&mut self) -> Option<Work> {
        self.0()
    }
}

/// Somebody reads.
struct Reading;

impl Linger for Reading {
    fn may(&self) -> bool {
        false
    }

    fn next(&mut self) -> Option<Work> {
        panic!("rows are written at once")
    }
}

fn count(outcomes: &mut Outcomes) -> Option<usize> {
    Some(outcomes.try_recv().ok()?.unwrap().len())
}

#[test]
fn callers_are_told_before_rows_are_written_and_rows_of_many_are_written_as_one() {
    let node = Node::new();
    let (first, mut told) = work(1, [carrying(&store(1, "a")), carrying(&store(2, "b"))]);
    let (second, mut told_next) = work(3, [carrying(&store(3, "a"))]);
    let mut waiting = vec![second];
    let more = || {
        assert_eq!(node.written(), 0);
        match waiting.pop() {
            Some(next) => {
                assert_eq!(node.applied(), 2);
                assert_eq!(count(&mut told), Some(2));
                Some(next)
            }
            None => {
                assert_eq!(node.applied(), 3);
                assert_eq!(count(&mut told_next), Some(1));
                None
            }
        }
    };
    node.rows.apply(first, &node.report, More(more)).unwrap();
    assert_eq!(node.written(), 3);
    assert_eq!(
        (
            revision(&node.rows.state, "a"),
            revision(&node.rows.state, "b")
        ),
        (Some(3), Some(2))
    );
}

#[test]
fn what_the_node_acts_on_is_written_before_anybody_hears_of_it() {
    let tick = carrying(&command(2, Operation::Tick(Tick { rows_max: 1 })));
    let membership = Payload::Membership(Membership::default());
    for last in [tick, Payload::Blank, membership] {
        let node = Node::new();
        let (first, _) = work(1, [carrying(&store(1, "a"))]);
        let (second, mut told) = work(2, [last]);
        let mut waiting = vec![second];
        let more = || Some(waiting.pop().expect("nothing is asked for behind it"));
        node.rows.apply(first, &node.report, More(more)).unwrap();
        assert_eq!((node.applied(), node.written()), (2, 2));
        assert_eq!(count(&mut told), Some(1));
    }
}

#[test]
fn where_somebody_reads_no_row_lingers() {
    let node = Node::new();
    let (first, mut told) = work(1, [carrying(&store(1, "a"))]);
    node.rows.apply(first, &node.report, Reading).unwrap();
    assert_eq!((count(&mut told), node.written()), (Some(1), 1));
}

#[test]
fn an_empty_chunk_has_written_what_was_applied_before_it() {
    let node = Node::new();
    let (first, _) = work(1, [carrying(&store(1, "a"))]);
    let (settle, mut settled) = work(2, []);
    let mut waiting = vec![settle];
    let more = || Some(waiting.pop().expect("nothing is asked for behind it"));
    node.rows.apply(first, &node.report, More(more)).unwrap();
    assert_eq!((count(&mut settled), node.written()), (Some(0), 1));
    let (settle, mut settled) = work(2, []);
    let more = || panic!("nothing is asked for behind it");
    node.rows.apply(settle, &node.report, More(more)).unwrap();
    assert_eq!((count(&mut settled), node.written()), (Some(0), 1));
}

#[test]
fn no_more_waits_than_is_written_at_once() {
    let node = Node::new();
    let stores = (1..=APPLY_ENTRIES_MAX as u64).map(|index| carrying(&store(index, "a")));
    let (full, mut told) = work(1, stores);
    let more = || panic!("it is enough");
    node.rows.apply(full, &node.report, More(more)).unwrap();
    assert_eq!(count(&mut told), Some(APPLY_ENTRIES_MAX));
    assert_eq!(node.written(), APPLY_ENTRIES_MAX as u64);
}

#[test]
fn an_entry_that_cannot_be_applied_writes_nothing_and_says_why() {
    let node = Node::new();
    let (first, mut told) = work(1, [carrying(&store(1, "a"))]);
    let newer = Command {
        feature_level: u32::MAX,
        ..store(2, "b")
    };
    let (second, mut refused) = work(2, [carrying(&newer)]);
    let mut waiting = vec![second];
    let applied = node.rows.apply(first, &node.report, More(|| waiting.pop()));
    assert_eq!(count(&mut told), Some(1));
    let why = refused.try_recv().unwrap().unwrap_err().to_string();
    assert_eq!(why, applied.unwrap_err().to_string());
    assert_eq!(node.written(), 0);
}

/// Commands that remove many rows are applied in parts: each is written before the next begins, and its caller is told once.
#[test]
fn removed_rows_count_as_entries_of_what_is_written_at_once() {
    const KEYS: u64 = 128;
    let lifetime = Some(Lifetime {
        absolute: Some(Absolute::AfterMs(1)),
        idle_ttl_ms: None,
    });
    let stores = (1..=APPLY_ENTRIES_MAX as u64 / KEYS + 8).map(|index| {
        let item = |key: u64| StoreItem {
            key: format!("{index}/{key}"),
            lifetime,
            ..StoreItem::default()
        };
        let request = BatchStoreRequest {
            items: (0..KEYS).map(item).collect(),
            ..BatchStoreRequest::default()
        };
        carrying(&command(index, Operation::BatchStore(request)))
    });
    let stores: Vec<Payload> = stores.collect();
    let node = Node::new();
    let first = stores.len() as u64 + 1;
    let (all, _) = work(1, stores);
    node.rows.apply(all, &node.report, Reading).unwrap();
    let rows_max = helve_machine::limits::TICK_ROWS_MAX;
    let ticks = (0..6).map(|index| {
        let mut tick = command(first + index, Operation::Tick(Tick { rows_max }));
        tick.proposed_at_ms += 1;
        carrying(&tick)
    });
    let (ticks, mut told) = work(first, ticks);
    let begun = Begun::new(ticks).map_err(refuse).unwrap();
    let mut held = Held::NoCaller;
    let worked_out = node
        .rows
        .work_out(begun, &node.report, &mut Reading, &mut held);
    let worked_out = worked_out.unwrap().expect("entries were applied");
    let in_one = APPLY_ENTRIES_MAX as u64 / u64::from(rows_max);
    assert_eq!(worked_out.last.index, first + in_one - 1);
    node.rows.write(worked_out, &node.report).unwrap();
    assert!(told.try_recv().is_err(), "not all of it is applied");
    let rest = held.tell(&Ok(())).expect("the rest of the entries");
    assert_eq!(rest.outcomes.len() as u64, in_one);
    let mut held = Held::NoCaller;
    let worked_out = node
        .rows
        .work_out(rest, &node.report, &mut Reading, &mut held);
    let written = node.rows.write(worked_out.unwrap().unwrap(), &node.report);
    assert!(held.tell(&written).is_none());
    assert_eq!((count(&mut told), node.written()), (Some(6), first + 5));
}
