//! How many backups this node makes at a time, and of which snapshots.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::failure::Failure;
use crate::{
    bounds::{self, Shared},
    limits,
    storage::checkpoint::Snapshots,
};

/// Where backups come from, and how many there may be.
#[derive(Debug)]
pub(super) struct Backups {
    pub(super) snapshots: Arc<Snapshots>,
    slots: Arc<Semaphore>,
    refused: AtomicU64,
}

impl Backups {
    /// Of these snapshots.
    pub(super) fn new(snapshots: Arc<Snapshots>) -> Self {
        Self {
            snapshots,
            slots: Arc::new(Semaphore::new(limits::BACKUPS_MAX)),
            refused: AtomicU64::new(0),
        }
    }

    /// How many there are, may be, and were refused.
    pub(super) fn fullness(&self) -> Shared {
        Shared {
            used: limits::BACKUPS_MAX - self.slots.available_permits(),
            limit: limits::BACKUPS_MAX,
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    /// A place for one more.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn slot(&self) -> Result<OwnedSemaphorePermit, Failure> {
        Arc::clone(&self.slots).try_acquire_owned().map_err(|_| {
            self.refused.fetch_add(1, Ordering::Relaxed);
            Failure::Overloaded(bounds::BACKUPS)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_backup_runs_at_a_time_and_the_next_begins_behind_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let snapshots = Snapshots::open(directory.path()).unwrap();
        let backups = Backups::new(Arc::new(snapshots));
        let slots: Vec<_> = (0..limits::BACKUPS_MAX).map(|_| backups.slot()).collect();
        assert!(slots.iter().all(Result::is_ok));
        assert!(matches!(
            backups.slot(),
            Err(Failure::Overloaded("backups"))
        ));
        let full = backups.fullness();
        assert_eq!((full.used, full.refused), (full.limit, 1));
        drop(slots);
        assert!(backups.slot().is_ok());
    }
}
