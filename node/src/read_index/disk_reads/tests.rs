//! Reads that wait for the disk hold up no others, of whatever tenant.

use std::{
    sync::{Barrier, mpsc},
    time::Duration,
};

use futures::{FutureExt as _, future::try_join_all};
use helve_machine::{Fault, View, query::Read};
use helve_proto::peer::v1::LogId;
use tempfile::TempDir;

use super::*;
use crate::{
    limits::DISK_READS_TOGETHER_MAX,
    node::Alone,
    read_index::{Place, ReadView},
    storage::options::StateOptions,
};

fn reads() -> (DiskReads, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let state = StateDb::open(directory.path(), StateOptions::default()).unwrap();
    (DiskReads::new(Arc::new(state)), directory)
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// A query that goes on until it is let go.
fn long(reads: &DiskReads) -> (mpsc::Sender<()>, tokio::task::JoinHandle<()>) {
    let (go, wait) = mpsc::channel::<()>();
    let reads = reads.clone();
    let asked = tokio::spawn(async move {
        let query = move |_: &StateView<'_>| wait.recv().unwrap_or_default();
        reads
            .ask("acme", Extent::Many, soon(), query)
            .await
            .unwrap();
    });
    (go, asked)
}

#[tokio::test]
async fn each_query_sees_what_was_written_before_it_was_asked() {
    let (reads, _directory) = reads();
    for index in 1..200_u64 {
        let value = index.to_be_bytes().to_vec();
        let row = ("cart".into(), Some(value.clone().into()));
        let log_id = LogId { term: 1, index };
        reads.state.write([row], &log_id, None).unwrap();
        let query = |view: &StateView<'_>| view.get(b"cart").unwrap();
        let found = reads
            .ask("acme", Extent::Few(1), soon(), query)
            .await
            .unwrap();
        assert_eq!(found, Some(value.into()));
    }
    assert!(lock(&reads.queue).quick.is_empty());
}

#[tokio::test]
async fn long_queries_hold_up_no_other_however_many_there_are() {
    let (reads, _directory) = reads();
    let mut under_way = Vec::new();
    for threads in 0..2 * DISK_READS_MAX {
        under_way.push(long(&reads));
        let answer = reads.ask("acme", Extent::Few(1), soon(), move |_| threads);
        assert_eq!(answer.await.unwrap(), threads);
    }
    while lock(&reads.queue).long < DISK_READS_LONG_MAX {
        tokio::task::yield_now().await;
    }
    let late = Instant::now() + Duration::from_millis(1);
    let refused = reads.ask("acme", Extent::Many, late, |_| ()).await;
    assert!(matches!(refused, Err(ReadError::Overloaded("disk-reads"))));
    for (go, asked) in under_way {
        go.send(()).unwrap();
        asked.await.unwrap();
    }
    reads
        .ask("acme", Extent::Many, soon(), |_| ())
        .await
        .unwrap();
}

/// Reads whose jobs no thread takes.
fn waiting() -> (DiskReads, TempDir) {
    let (reads, directory) = reads();
    lock(&reads.queue).threads = DISK_READS_MAX;
    (reads, directory)
}

fn push(reads: &DiskReads, tenant: &str, extent: Extent) -> bool {
    reads.push(tenant, extent, Box::new(|_: &StateView<'_>| ()))
}

/// How many jobs a thread takes next, and the reads of these.
fn next(reads: &DiskReads) -> (usize, usize) {
    let mut queue = lock(&reads.queue);
    let next = queue.next(DISK_READS_TOGETHER_MAX).unwrap();
    queue.long -= usize::from(next.is_long);
    (next.jobs.len(), next.reads)
}

#[test]
fn reads_of_one_tenant_wait_for_a_turn_of_another_with_many() {
    let (reads, _directory) = waiting();
    for _ in 0..200 {
        assert!(push(&reads, "greedy", Extent::Few(8)));
    }
    assert!(push(&reads, "honest", Extent::Few(3)));
    assert_eq!(next(&reads), (2, 16));
    assert_eq!(next(&reads), (2, 11), "before the other 198");

    // As many long ones hold up no short one, nor a long one of another tenant.
    for _ in 0..200 {
        assert!(push(&reads, "greedy", Extent::Many));
    }
    for extent in [Extent::Many, Extent::Few(5)] {
        assert!(push(&reads, "honest", extent));
    }
    assert_eq!(next(&reads), (1, 1));
    assert_eq!(next(&reads), (2, 13));
    assert_eq!(next(&reads), (1, 1));
    let queue = lock(&reads.queue);
    let mut left = queue.slow.keys().chain(queue.quick.keys());
    assert!(left.all(|tenant| tenant == "greedy"));
}

#[test]
fn tenant_never_has_all_the_room_to_wait() {
    let (reads, _directory) = waiting();
    let pushed = (0..).take_while(|_| push(&reads, "greedy", Extent::Few(1)));
    assert_eq!(pushed.count(), DISK_READS_WAITING_MAX / 4 * 3);
    assert!(push(&reads, "honest", Extent::Few(1)));
    assert_eq!(reads.fullness().refused, 1);
    next(&reads);
    assert!(
        push(&reads, "greedy", Extent::Few(1)),
        "places are returned"
    );
}

/// A disk: nothing is ever sent, so the thread that asks waits.
fn slow() -> impl FnOnce(&StateView<'_>) + Send {
    let (never, wait) = mpsc::channel::<()>();
    move |_| {
        assert!(wait.recv_timeout(Duration::from_millis(1)).is_err());
        drop(never);
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn reads_wait_for_a_slow_disk_side_by_side_and_share_a_thread_once_it_is_quick() {
    let (reads, _directory) = reads();
    assert_eq!(reads.reads_together(), DISK_READS_TOGETHER_MAX);
    while reads.reads_together() > 1 {
        reads
            .ask("acme", Extent::Few(1), soon(), slow())
            .await
            .unwrap();
    }
    let all = Arc::new(Barrier::new(DISK_READS_MAX));
    let met = (0..DISK_READS_MAX).map(|_| {
        let all = Arc::clone(&all);
        reads.ask("acme", Extent::Few(1), soon(), move |_| all.wait())
    });
    try_join_all(met).await.unwrap();
    while reads.reads_together() < DISK_READS_TOGETHER_MAX {
        reads
            .ask("acme", Extent::Few(1), soon(), |_| ())
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn more_than_may_wait_is_refused() {
    let (reads, _directory) = waiting();
    assert!(push(&reads, "greedy", Extent::Few(DISK_READS_WAITING_MAX)));
    let refused = reads.ask("acme", Extent::Few(1), soon(), |_| ()).await;
    assert!(matches!(refused, Err(ReadError::Overloaded("disk-reads"))));
}

#[tokio::test]
async fn reads_that_gave_up_leave_no_query_where_they_waited() {
    let node = Alone::start().await;
    let reads = &node.reader.core.disk_reads;
    // No thread takes their jobs.
    lock(&reads.queue).threads = DISK_READS_MAX;
    let probe = Arc::new(());
    for _ in 0..100 {
        let probe = Arc::clone(&probe);
        let query = move |_: &ReadView<'_>| -> Result<Read<usize>, Fault> {
            Ok(Read::Answer(Arc::strong_count(&probe)))
        };
        let gone = node.reader.read_applied(soon(), Place::Disk, query);
        assert!(gone.now_or_never().is_none(), "it waits");
    }
    assert_eq!(reads.fullness().used, 100);
    assert_eq!(Arc::strong_count(&probe), 1);
}
