//! Keeps the log short in bytes: consensus counts entries alone, and a hundred thousand entries may be anything from ten megabytes
//! to a hundred gigabytes.

use std::{sync::atomic::Ordering, time::Duration};

use crate::raft::{Consensus, log_store::LogStore};

/// How long a snapshot may take before it is looked at again.
const SNAPSHOT_LIMIT: Duration = Duration::from_secs(300);

/// After this many bytes of entries a snapshot is taken, and the log behind the one before is purged but for what memory holds of it.
/// Runs until consensus stops.
pub(crate) async fn run(consensus: Consensus, log: LogStore, snapshot_bytes: u64) {
    let mut applied = consensus.applied();
    let mut spans = Spans::new(snapshot_bytes, consensus.snapshot_index());
    while applied.changed().await.is_ok() {
        let written_bytes = log.stats().bytes.load(Ordering::Relaxed);
        if !spans.is_full(written_bytes) {
            continue;
        }
        let taken = match consensus.take_snapshot(SNAPSHOT_LIMIT).await {
            Ok(index) => {
                let upto = spans.end(written_bytes, index);
                consensus.purge_log(upto.min(log.on_disk_only())).await
            }
            Err(stopped) => Err(stopped),
        };
        if let Err(error) = taken {
            tracing::warn!(%error, "the log could not be shortened");
        }
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
    fn the_log_behind_the_newest_snapshot_stays_for_whoever_receives_the_one_before() {
        let mut spans = Spans::new(100, 0);
        assert!(!spans.is_full(99));
        assert!(spans.is_full(100));
        assert_eq!(spans.end(100, 10), 0);
        assert!(!spans.is_full(199));
        assert_eq!(spans.end(230, 23), 10);
        assert!(!spans.is_full(329));
        assert_eq!(spans.end(330, 31), 23);
    }
}
