//! How far the rows have come, published to two kinds of listeners: those that wait for an entry,
//! and those that wait for a change of state. To wake the second kind for every batch costs each
//! node two wake-ups or three, for nothing.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::watch;

use super::chunk::Unwritten;

/// How far this node's rows have come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// The last entry whose rows are there; 0 for none.
    pub index: u64,
    /// The replicated clock, in milliseconds since the Unix epoch.
    pub clock_ms: u64,
    /// The replicated feature level.
    pub feature_level: u32,
    /// Derived rows that were put right since this node started: see [`helve_machine::Repair`].
    pub repaired_rows: u64,
    /// What changes less often than the rest.
    pub milestones: Milestones,
}

impl Progress {
    /// How long, in milliseconds of replicated time, the first row that has expired and is not removed yet has been so.
    pub(crate) fn removal_lag_ms(&self) -> u64 {
        let next_ms = self.milestones.next_deadline_ms;
        next_ms.map_or(0, |due_ms| self.clock_ms.saturating_sub(due_ms))
    }
}

/// What few batches change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Milestones {
    /// When the next row is due, in milliseconds since the Unix epoch.
    pub next_deadline_ms: Option<u64>,
    /// Changes whenever how values must be sealed does, and when all are; 0 if no command ever
    /// said.
    pub sealing_state: u64,
}

/// Publishes how far the rows have come.
pub(crate) struct Report {
    /// The last entry whose outcome is known; its rows may come a moment later.
    applied: Arc<AtomicU64>,
    rows: watch::Sender<Progress>,
    milestones: watch::Sender<Milestones>,
}

impl Report {
    pub(crate) fn new(progress: Progress) -> Self {
        Self {
            applied: Arc::new(AtomicU64::new(progress.index)),
            rows: watch::Sender::new(progress),
            milestones: watch::Sender::new(progress.milestones),
        }
    }

    pub(crate) fn applied(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.applied)
    }

    pub(crate) fn rows(&self) -> watch::Receiver<Progress> {
        self.rows.subscribe()
    }

    pub(crate) fn milestones(&self) -> watch::Receiver<Milestones> {
        self.milestones.subscribe()
    }

    pub(crate) fn last(&self) -> Progress {
        *self.rows.borrow()
    }

    /// Before callers are told, who may look at once.
    pub(super) fn note_applied(&self, unwritten: &Unwritten) {
        if let Some(last) = unwritten.last {
            self.applied.store(last.index, Ordering::Release);
        }
    }

    /// The milestones are published last: a listener then finds progress that is at least as new.
    pub(crate) fn note(&self, progress: Progress) {
        self.applied.store(progress.index, Ordering::Release);
        self.rows.send_replace(progress);
        self.milestones.send_if_modified(|milestones| {
            let is_new = *milestones != progress.milestones;
            *milestones = progress.milestones;
            is_new
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_waits_for_its_removal_from_its_deadline_on() {
        let mut progress = Progress {
            clock_ms: 7,
            ..Progress::default()
        };
        assert_eq!(progress.removal_lag_ms(), 0);
        progress.milestones.next_deadline_ms = Some(5);
        assert_eq!(progress.removal_lag_ms(), 2);
        progress.milestones.next_deadline_ms = Some(8);
        assert_eq!(progress.removal_lag_ms(), 0);
    }

    #[test]
    fn waiter_for_a_rare_change_is_not_woken_by_every_batch() {
        let report = Report::new(Progress::default());
        let (rows, milestones) = (report.rows(), report.milestones());
        let told = || {
            (
                rows.has_changed().unwrap(),
                milestones.has_changed().unwrap(),
            )
        };
        assert_eq!(told(), (false, false));
        let mut progress = Progress {
            index: 1,
            clock_ms: 1,
            ..Progress::default()
        };
        report.note(progress);
        assert_eq!(told(), (true, false));
        progress.milestones.next_deadline_ms = Some(5);
        report.note(progress);
        assert_eq!(told(), (true, true));
        assert_eq!(report.last(), progress);
    }
}
