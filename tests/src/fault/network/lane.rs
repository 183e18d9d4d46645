//! What one side sends to another, and what was done to it.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

use tokio::sync::watch;

use super::Treatment;

/// How everything between two sides is treated in one direction.
#[derive(Debug)]
pub(super) struct Lane {
    treatment: watch::Sender<Treatment>,
    pub(super) tally: Tally,
}

impl Default for Lane {
    fn default() -> Self {
        Self {
            treatment: watch::Sender::new(Treatment::Pass),
            tally: Tally::default(),
        }
    }
}

/// What happened on a lane, as it happens.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) passed: AtomicU64,
    pub(super) delayed: AtomicU64,
    pub(super) held: AtomicU64,
    pub(super) swallowed: AtomicU64,
    pub(super) reset: AtomicU64,
    pub(super) corrupted: AtomicU64,
}

/// What happened on a lane so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes that went through, early or late.
    pub passed: u64,
    /// Pieces that went through late.
    pub delayed: u64,
    /// Times that something was there to go through, and had to wait.
    pub held: u64,
    /// Bytes that were thrown away.
    pub swallowed: u64,
    /// Connections that were reset or refused.
    pub reset: u64,
    /// Bits that were flipped.
    pub corrupted: u64,
}

impl Counts {
    /// Something was kept from going through.
    #[must_use]
    pub fn cut(&self) -> bool {
        self.held + self.swallowed + self.reset > 0
    }

    /// Both together.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            delayed: self.delayed + other.delayed,
            held: self.held + other.held,
            swallowed: self.swallowed + other.swallowed,
            reset: self.reset + other.reset,
            corrupted: self.corrupted + other.corrupted,
        }
    }

    /// What happened since an earlier count.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            passed: self.passed - earlier.passed,
            delayed: self.delayed - earlier.delayed,
            held: self.held - earlier.held,
            swallowed: self.swallowed - earlier.swallowed,
            reset: self.reset - earlier.reset,
            corrupted: self.corrupted - earlier.corrupted,
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            (self.passed, "bytes passed"),
            (self.delayed, "pieces delayed"),
            (self.held, "times held up"),
            (self.swallowed, "bytes swallowed"),
            (self.reset, "connections reset"),
            (self.corrupted, "bits flipped"),
        ];
        let some = all.iter().filter(|(count, _)| *count > 0);
        let some: Vec<_> = some
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        f.write_str(&some.join(", "))
    }
}

/// The lane refuses connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refused;

impl Lane {
    pub(super) fn treat(&self, treatment: Treatment) {
        self.treatment.send_if_modified(|current| {
            let changed = *current != treatment;
            *current = treatment;
            changed
        });
    }

    pub(super) fn watch(&self) -> watch::Receiver<Treatment> {
        self.treatment.subscribe()
    }

    pub(super) fn counts(&self) -> Counts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            passed: of(&self.tally.passed),
            delayed: of(&self.tally.delayed),
            held: of(&self.tally.held),
            swallowed: of(&self.tally.swallowed),
            reset: of(&self.tally.reset),
            corrupted: of(&self.tally.corrupted),
        }
    }

    /// Waits until a new connection may go through: what asks for one does not, while the lane holds.
    pub(super) async fn admits(&self) -> Result<(), Refused> {
        let mut treatment = self.watch();
        if *treatment.borrow() == Treatment::Hold {
            count(&self.tally.held, 1);
        }
        let settled = treatment.wait_for(|now| *now != Treatment::Hold).await;
        match settled.map(|now| *now) {
            Ok(Treatment::Refuse) | Err(_) => {
                count(&self.tally.reset, 1);
                Err(Refused)
            }
            Ok(_) => Ok(()),
        }
    }
}

pub(super) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
