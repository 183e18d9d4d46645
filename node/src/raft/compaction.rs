//! Snapshots taken by wish, and the log shortened behind them.

use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver as _;

use super::{Consensus, Stopped};

impl Consensus {
    /// Removes the log's entries up to and including `upto`, as far as a snapshot covers them.
    ///
    /// # Errors
    /// If consensus stopped.
    pub async fn purge_log(&self, upto: u64) -> Result<(), Stopped> {
        self.raft
            .trigger()
            .purge_log(upto)
            .await
            .map_err(|e| Stopped(e.to_string()))
    }

    /// Takes a snapshot of what is applied now, and waits for it.
    ///
    /// # Errors
    /// If consensus stopped, or the snapshot is not there within `limit`.
    pub async fn take_snapshot(&self, limit: Duration) -> Result<u64, Stopped> {
        let wanted = self.applied.borrow().index;
        self.raft
            .trigger()
            .snapshot()
            .await
            .map_err(|e| Stopped(e.to_string()))?;
        let mut metrics = self.raft.metrics();
        let taken = async {
            loop {
                let snapshot = metrics
                    .borrow_watched()
                    .snapshot
                    .as_ref()
                    .map_or(0, |id| id.index);
                if snapshot >= wanted {
                    return Ok(snapshot);
                }
                metrics
                    .changed()
                    .await
                    .map_err(|_| Stopped("stopped".to_owned()))?;
            }
        };
        tokio::time::timeout(limit, taken)
            .await
            .unwrap_or_else(|_| Err(Stopped("the snapshot is not ready yet".to_owned())))
    }
}
