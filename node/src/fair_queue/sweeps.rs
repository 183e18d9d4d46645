//! When a queue is looked through for items that are not wanted any more.

/// Items pushed, at least, before a queue is looked through again.
pub(super) const SWEEP_MIN: usize = 512;

/// Says when a queue should be swept of unwanted items. If it is asked after each push, unwanted
/// items are about as many as wanted ones at most, or a few hundred, and each push pays for a look
/// at a few items.
#[derive(Debug, Default)]
pub(crate) struct Sweeps {
    /// Items pushed since the last sweep.
    pushed: usize,
    /// Items that it left.
    left: usize,
}

impl Sweeps {
    /// Counts an item that is pushed.
    pub(crate) fn pushed(&mut self) {
        self.pushed = self.pushed.saturating_add(1);
    }

    /// Whether more items were pushed than the last sweep left, and more than a few hundred.
    pub(crate) fn is_due(&self) -> bool {
        self.pushed > self.left.max(SWEEP_MIN)
    }

    /// A sweep has left this many items.
    pub(crate) fn swept(&mut self, left: usize) {
        (self.pushed, self.left) = (0, left);
    }
}
