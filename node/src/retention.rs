//! What of the log is purged, and when: alone here, for consensus knows neither bytes nor who is still receiving a snapshot. A hundred
//! thousand entries may be anything from ten megabytes to a hundred gigabytes.

use std::{sync::atomic::Ordering, time::Duration};

use tokio::time::sleep;

use crate::{
    limits::LOG_HELD_BYTES_MAX,
    membership::MemberChanges,
    raft::{Consensus, Stopped, log_store::LogStore},
};

/// Between two looks at the log, while it grows: hardly any batch fills it up, and each would wake this task.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// How long a snapshot may take before it is looked at again.
const SNAPSHOT_LIMIT: Duration = Duration::from_secs(300);

/// What the log is shortened by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// After this many bytes of entries a snapshot is taken, and the log behind the one before is purged but for what memory holds of it.
    pub(crate) snapshot_bytes: u64,
    /// Entries that stay behind every other snapshot.
    pub(crate) keep_entries: u64,
}

/// Shortens the log behind each snapshot, until consensus stops.
pub(crate) async fn run(
    consensus: Consensus,
    changes: MemberChanges,
    log: LogStore,
    bounds: Bounds,
) {
    let compaction = consensus.compaction();
    let mut rows = consensus.applied().rows();
    let mut spans = Spans::new(bounds.snapshot_bytes, compaction.snapshot_index());
    let mut waiting = Waiting::default();
    while rows.changed().await.is_ok() {
        let written_bytes = log.stats().bytes.load(Ordering::Relaxed);
        let shortened = async {
            if spans.is_full(written_bytes) {
                let index = compaction.take_snapshot(SNAPSHOT_LIMIT).await?;
                waiting.add(spans.end(written_bytes, index).min(log.on_disk_only()));
            }
            waiting.add(
                compaction
                    .snapshot_index()
                    .saturating_sub(bounds.keep_entries),
            );
            if let Some(upto) = waiting.take(written_bytes, |upto| changes.is_needed(upto)) {
                compaction.purge_log(upto).await?;
            }
            Ok::<_, Stopped>(())
        };
        if let Err(error) = shortened.await {
            tracing::warn!(%error, "the log could not be shortened");
        }
        sleep(LOOK_PAUSE).await;
    }
}

/// Up to where the log may go, and has not gone yet.
#[derive(Debug, Default)]
struct Waiting {
    upto: u64,
    purged: u64,
    /// Bytes that had been written to the log when it was last purged.
    purged_bytes: u64,
}

impl Waiting {
    fn add(&mut self, upto: u64) {
        self.upto = self.upto.max(upto);
    }

    /// What is purged now: nothing as long as a node needs it, unless that goes on for too long.
    fn take(&mut self, written_bytes: u64, is_needed: impl FnOnce(u64) -> bool) -> Option<u64> {
        if self.upto <= self.purged {
            return None;
        }
        if written_bytes - self.purged_bytes < LOG_HELD_BYTES_MAX && is_needed(self.upto) {
            return None;
        }
        self.purged = self.upto;
        self.purged_bytes = written_bytes;
        Some(self.upto)
    }
}

/// Spans of the log between two snapshots that were taken for their bytes.
struct Spans {
    span_bytes: u64,
    /// Bytes that had been written when the current span began.
    begun_bytes: u64,
    /// The snapshot with which the current span began.
    begun_index: u64,
}

impl Spans {
    fn new(span_bytes: u64, begun_index: u64) -> Self {
        Self {
            span_bytes,
            begun_bytes: 0,
            begun_index,
        }
    }

    fn is_full(&self, written_bytes: u64) -> bool {
        written_bytes - self.begun_bytes >= self.span_bytes
    }

    /// Ends the span with a snapshot, and returns up to where the log may go: a node that is still receiving the snapshot before
    /// this one needs all that follows that.
    fn end(&mut self, written_bytes: u64, snapshot_index: u64) -> u64 {
        self.begun_bytes = written_bytes;
        std::mem::replace(&mut self.begun_index, snapshot_index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_behind_the_newest_snapshot_stays_for_its_receivers() {
        let mut spans = Spans::new(100, 0);
        assert!(!spans.is_full(99));
        assert!(spans.is_full(100));
        assert_eq!(spans.end(100, 10), 0);
        assert!(!spans.is_full(199));
        assert_eq!(spans.end(230, 23), 10);
        assert!(!spans.is_full(329));
        assert_eq!(spans.end(330, 31), 23);
    }

    #[test]
    fn what_a_node_needs_stays_until_that_would_be_too_much() {
        let mut waiting = Waiting::default();
        let never = |upto| panic!("{upto} is asked for");
        assert_eq!(waiting.take(0, never), None);
        waiting.add(10);
        waiting.add(7);
        assert_eq!(waiting.take(100, |upto| upto == 10), None);
        assert_eq!(waiting.take(100, |_| false), Some(10));
        assert_eq!(waiting.take(100, never), None);
        waiting.add(20);
        assert_eq!(waiting.take(99 + LOG_HELD_BYTES_MAX, |_| true), None);
        assert_eq!(waiting.take(100 + LOG_HELD_BYTES_MAX, |_| true), Some(20));
    }
}
