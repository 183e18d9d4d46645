//! Watches the free space of the data directory's file system, so that the node stops taking writes before the disk is full.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::storage::disk_space;

/// How often the file system is asked.
const INTERVAL: Duration = Duration::from_millis(500);

/// What is known of the disk.
#[derive(Debug)]
pub struct DiskWatch {
    path: PathBuf,
    reserve_bytes: u64,
    free_bytes: AtomicU64,
    used_bytes: AtomicU64,
}

impl DiskWatch {
    /// Looks at the file system of `path`. Only [`run`](Self::run) looks again.
    #[must_use]
    pub fn new(path: PathBuf, reserve_bytes: u64) -> Arc<Self> {
        let watch = Self {
            path,
            reserve_bytes,
            free_bytes: AtomicU64::new(u64::MAX),
            used_bytes: AtomicU64::new(0),
        };
        watch.look();
        Arc::new(watch)
    }

    /// Watches, for ever.
    pub async fn run(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(INTERVAL);
        loop {
            ticks.tick().await;
            let watch = Arc::clone(&self);
            // A slow disk must not hold up calls.
            if let Err(error) = tokio::task::spawn_blocking(move || watch.look()).await {
                tracing::error!(%error, "the disk could not be watched");
            }
        }
    }

    /// Free space is below the reserve: only what frees space is admitted.
    #[must_use]
    pub fn is_low(&self) -> bool {
        self.free_bytes() < self.reserve_bytes
    }

    /// Bytes that must stay free.
    #[must_use]
    pub fn reserve_bytes(&self) -> u64 {
        self.reserve_bytes
    }

    /// Free bytes when last looked.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.free_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that the data directory held when last looked.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    fn look(&self) {
        match disk_space::free_bytes(&self.path) {
            Ok(free) => {
                let before = self.free_bytes.swap(free, Ordering::Relaxed);
                if free < self.reserve_bytes && before >= self.reserve_bytes {
                    tracing::error!(
                        free,
                        reserve = self.reserve_bytes,
                        "the disk is below its reserve"
                    );
                } else if free >= self.reserve_bytes && before < self.reserve_bytes {
                    tracing::info!(free, "the disk has space again");
                }
            }
            Err(error) => tracing::warn!(%error, "free space cannot be read"),
        }
        match disk_space::used_bytes(&self.path) {
            Ok(used) => self.used_bytes.store(used, Ordering::Relaxed),
            // Files come and go while they are counted; the next look tells.
            Err(error) => tracing::debug!(%error, "used space cannot be read"),
        }
    }
}
