//! How far this node has applied the log, for those that wait for it or read its result.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::watch;

use super::{
    applier::Applier,
    apply_queue::ApplyQueue,
    progress::{Milestones, Progress, Report},
    stopped::Stopped,
};

/// How far this node has applied the log. Cheap to clone.
#[derive(Clone)]
pub struct AppliedLog {
    index: Arc<AtomicU64>,
    rows: watch::Receiver<Progress>,
    queue: Arc<ApplyQueue>,
    milestones: watch::Receiver<Milestones>,
}

impl AppliedLog {
    pub(crate) fn of(applier: &Applier, report: &Report) -> Self {
        Self {
            index: report.applied(),
            rows: report.rows(),
            queue: Arc::clone(&applier.queue),
            milestones: report.milestones(),
        }
    }

    /// The last entry that has been applied here. Its rows may be written a moment later: see [`wait_rows`](Self::wait_rows).
    #[must_use]
    pub fn index(&self) -> u64 {
        self.index.load(Ordering::Acquire)
    }

    /// How far this node's rows are; changes with every write of some.
    #[must_use]
    pub fn rows(&self) -> watch::Receiver<Progress> {
        self.rows.clone()
    }

    /// How far this node's rows are now.
    #[must_use]
    pub fn progress(&self) -> Progress {
        *self.rows.borrow()
    }

    /// The replicated feature level, as far as this node has applied the log.
    #[must_use]
    pub fn feature_level(&self) -> u32 {
        self.progress().feature_level
    }

    /// Rarely changing fields, on a watch channel of their own so that other updates wake no one.
    #[must_use]
    pub fn milestones(&self) -> watch::Receiver<Milestones> {
        self.milestones.clone()
    }

    /// Waits until this node's rows are as of this entry, or a later one.
    ///
    /// # Errors
    /// If consensus stops first.
    pub async fn wait_rows(&self, index: u64) -> Result<(), Stopped> {
        self.queue.want(index);
        let mut rows = self.rows.clone();
        let reached = rows.wait_for(|progress| progress.index >= index).await;
        reached.map_err(|_| Stopped::meanwhile())?;
        Ok(())
    }

    /// Waits until entries are not applied any more: rows could not be written, or an entry was none that this version may apply. The
    /// node cannot go on then.
    pub async fn ended(&self) -> Stopped {
        Stopped(self.queue.ended().await)
    }
}
