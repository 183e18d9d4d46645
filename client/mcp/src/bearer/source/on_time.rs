//! Keys that must be read again before a token is checked with them.
//!
//! A task reads a source again in time. It can be late: the machine slept, the process was starved,
//! or there was no runtime until now. A key that was withdrawn meanwhile must not work.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::time::timeout;

use super::{AWAIT_MAX, From, Source};

/// How late a file may be read again.
const FILE_LATE_MAX: Duration = Duration::from_secs(1);
/// How late a set may be fetched again: longer than a fetch may take.
const URL_LATE_MAX: Duration = Duration::from_secs(15);

impl Source {
    /// Waits up to 5 s for the look that is overdue, if one is. Call it before the keys are used.
    pub(crate) async fn on_time(self: &Arc<Self>) {
        self.watch();
        let mut looked = self.looked.subscribe();
        if !self.is_overdue() {
            return;
        }
        // Once is enough: if the source hangs, its keys are used as those that cannot be read.
        if timeout(AWAIT_MAX, looked.changed()).await.is_err() {
            self.is_stuck.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the source should have been read again by now.
    pub(super) fn is_overdue(&self) -> bool {
        let within = match self.from {
            From::File { .. } => self.pace.look_every + FILE_LATE_MAX,
            From::Url(_) => self.pace.fresh.1 + URL_LATE_MAX,
        };
        self.is_watched.load(Ordering::Relaxed)
            && !self.is_stuck.load(Ordering::Relaxed)
            && self.looked.borrow().elapsed() > within
    }
}
