//! Who has a budget, by name.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::bounds::{OwnerKind, WHATS, What};

/// Owners that are remembered before those that hold nothing are forgotten.
const OWNERS_KEPT: usize = 1_024;

/// Somebody with a budget.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(super) kind: OwnerKind,
    pub(super) parent: Option<Arc<Owner>>,
    /// Changed under the lock of all budgets.
    pub(super) used: [AtomicUsize; WHATS.len()],
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
        }
    }

    pub(super) fn used(&self, what: What) -> usize {
        self.used[what as usize].load(Ordering::Relaxed)
    }

    /// This owner and those above it.
    pub(super) fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |owner| owner.parent.as_deref())
    }
}
