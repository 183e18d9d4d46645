//! Keeps the log short in bytes: consensus counts entries alone, and a hundred thousand entries may be anything from ten megabytes
//! to a hundred gigabytes.

use std::{sync::atomic::Ordering, time::Duration};

use crate::raft::{Consensus, log_store::LogStore};

/// How long a snapshot may take before it is looked at again.
const SNAPSHOT_LIMIT: Duration = Duration::from_secs(300);

/// After this many bytes of entries a snapshot is taken, and the log behind it is purged but for what memory holds of it. Runs until
/// consensus stops.
pub(crate) async fn run(consensus: Consensus, log: LogStore, snapshot_bytes: u64) {
    let mut applied = consensus.applied();
    let mut covered_bytes = 0;
    while applied.changed().await.is_ok() {
        let written_bytes = log.stats().bytes.load(Ordering::Relaxed);
        if written_bytes - covered_bytes < snapshot_bytes {
            continue;
        }
        let taken = match consensus.take_snapshot(SNAPSHOT_LIMIT).await {
            Ok(index) => consensus.purge_log(index.min(log.on_disk_only())).await,
            Err(stopped) => Err(stopped),
        };
        match taken {
            Ok(()) => covered_bytes = written_bytes,
            Err(error) => tracing::warn!(%error, "the log could not be shortened"),
        }
    }
}
