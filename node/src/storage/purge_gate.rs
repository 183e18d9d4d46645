//! How much of the log may be purged.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// How much of the log may be purged: what of the state is durable without it. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct PurgeGate(Arc<AtomicU64>);

impl PurgeGate {
    /// The state up to and including this entry is durable. Never goes back.
    pub fn advance(&self, index: u64) {
        self.0.fetch_max(index.saturating_add(1), Ordering::AcqRel);
    }

    /// The last entry that the durable state has applied.
    pub(crate) fn kept(&self) -> Option<u64> {
        let kept = self.0.load(Ordering::Acquire).checked_sub(1);
        // An empty state counts as one up to the entry that founds a cluster, and a gate without
        // any state permits everything.
        kept.filter(|kept| *kept > 0 && *kept < u64::MAX - 1)
    }

    pub(crate) fn permits(&self, index: u64) -> bool {
        index < self.0.load(Ordering::Acquire)
    }
}
