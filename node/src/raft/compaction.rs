//! Snapshots taken by wish, and the log shortened behind them.

use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver as _;
use tokio::time::timeout;

use super::{Stopped, state_machine::Raft};
use crate::apply::AppliedLog;

/// Between two wishes for a snapshot, if none was finished in between.
const REPEAT: Duration = Duration::from_secs(1);

/// Takes snapshots, and shortens the log behind them. Cheap to clone.
#[derive(Clone)]
pub struct Compaction {
    raft: Raft,
    applied: AppliedLog,
}

impl Compaction {
    pub(super) fn new(raft: Raft, applied: AppliedLog) -> Self {
        Self { raft, applied }
    }

    /// Removes the log's entries up to and including `upto`, as far as a snapshot covers them.
    ///
    /// # Errors
    /// If consensus stopped.
    pub async fn purge_log(&self, upto: u64) -> Result<(), Stopped> {
        self.raft
            .trigger()
            .purge_log(upto)
            .await
            .map_err(Stopped::by)
    }

    /// The last entry that a snapshot of this node covers; 0 if there is none.
    #[must_use]
    pub fn snapshot_index(&self) -> u64 {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        metrics.snapshot.as_ref().map_or(0, |id| id.index)
    }

    /// Takes a snapshot of what is applied now, and waits for it.
    ///
    /// # Errors
    /// If consensus stopped, or the snapshot is not there within `limit`.
    pub async fn take_snapshot(&self, limit: Duration) -> Result<u64, Stopped> {
        let wanted = self.applied.index();
        timeout(limit, self.covered(wanted))
            .await
            .unwrap_or_else(|_| Err(Stopped("the snapshot is not ready yet".to_owned())))
    }

    /// Has snapshots taken until one covers this entry. A wish is dropped while another snapshot is under way, which may cover less.
    async fn covered(&self, wanted: u64) -> Result<u64, Stopped> {
        let mut metrics = self.raft.metrics();
        loop {
            let index = self.snapshot_index();
            if index >= wanted {
                return Ok(index);
            }
            let wished = self.raft.trigger().snapshot().await;
            wished.map_err(Stopped::by)?;
            let newer = async {
                while self.snapshot_index() == index {
                    let changed = metrics.changed().await;
                    changed.map_err(|_| Stopped::meanwhile())?;
                }
                Ok(())
            };
            if let Ok(ended) = timeout(REPEAT, newer).await {
                ended?;
            }
        }
    }
}
