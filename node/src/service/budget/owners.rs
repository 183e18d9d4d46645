//! Who has a budget, by name.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    bounds::{OwnerKind, WHATS, What},
    limits::{REFUSALS_PAUSE, REFUSALS_PAUSE_MAX, REFUSALS_WITHOUT_PAUSE, refusals_pause},
};

/// Owners that are remembered before those that hold nothing are forgotten.
const OWNERS_KEPT: usize = 1_024;

/// Somebody with a budget.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(super) kind: OwnerKind,
    pub(super) parent: Option<Arc<Owner>>,
    /// Changed under the lock of all budgets.
    pub(super) used: [AtomicUsize; WHATS.len()],
    refusals: Mutex<Option<Refusals>>,
}

/// Calls that found no room for their streams, over all connections of their owner.
#[derive(Debug)]
struct Refusals {
    /// Since when they are counted: for a [`REFUSALS_PAUSE`].
    since: Instant,
    count: u32,
    /// When they were last too many.
    too_many: Option<Instant>,
    /// How often they were, without a calm time between.
    pauses: u32,
}

/// Owners of one kind by their names. Those that hold nothing are forgotten once there are many.
#[derive(Debug)]
pub(super) struct Owners<K> {
    by_name: HashMap<K, Arc<Owner>>,
    forget_at: usize,
}

impl<K> Default for Owners<K> {
    fn default() -> Self {
        Self {
            by_name: HashMap::new(),
            forget_at: OWNERS_KEPT,
        }
    }
}

impl<K: Hash + Eq> Owners<K> {
    pub(super) fn of(&mut self, name: K, kind: OwnerKind, parent: &Arc<Owner>) -> Arc<Owner> {
        if self.by_name.len() >= self.forget_at && !self.by_name.contains_key(&name) {
            self.by_name.retain(|_, owner| Arc::strong_count(owner) > 1);
            self.forget_at = OWNERS_KEPT.max(2 * self.by_name.len());
        }
        let made = || Arc::new(Owner::new(kind, Some(Arc::clone(parent))));
        Arc::clone(self.by_name.entry(name).or_insert_with(made))
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// How much the one has that has most.
    pub(super) fn fullest(&self, what: What) -> usize {
        let used = self.by_name.values().map(|owner| owner.used(what));
        used.max().unwrap_or(0)
    }
}

impl Owner {
    pub(super) fn new(kind: OwnerKind, parent: Option<Arc<Self>>) -> Self {
        Self {
            kind,
            parent,
            used: Default::default(),
            refusals: Mutex::default(),
        }
    }

    /// Counts a call that found no room for its stream. If there were more of them in this [`REFUSALS_PAUSE`] than one connection may
    /// have, each connection that brings one pauses for this long, however new it is. The pause grows as long as that goes on: a
    /// caller that keeps opening connections would otherwise get the shortest pause on each.
    pub(crate) fn pause_for_refusal(&self) -> Option<Duration> {
        let now = Instant::now();
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let refusals = refusals.get_or_insert(Refusals {
            since: now,
            count: 0,
            too_many: None,
            pauses: 0,
        });
        if now - refusals.since >= REFUSALS_PAUSE {
            if refusals.count > REFUSALS_WITHOUT_PAUSE {
                refusals.too_many = Some(refusals.since);
                refusals.pauses = refusals.pauses.saturating_add(1);
            }
            let flooded = |at| now - at < 2 * REFUSALS_PAUSE_MAX;
            if !refusals.too_many.is_some_and(flooded) {
                refusals.pauses = 0;
            }
            (refusals.since, refusals.count) = (now, 0);
        }
        refusals.count = refusals.count.saturating_add(1);
        (refusals.count > REFUSALS_WITHOUT_PAUSE).then(|| refusals_pause(refusals.pauses))
    }

    pub(super) fn used(&self, what: What) -> usize {
        self.used[what as usize].load(Ordering::Relaxed)
    }

    /// This owner and those above it.
    pub(super) fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |owner| owner.parent.as_deref())
    }
}
