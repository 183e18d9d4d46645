//! The first rows of the deadline index, looked up many at once: while many rows are due each command removes one, and to find one in
//! a log-structured store costs nearly as much as to find many.

use std::collections::VecDeque;

use bytes::Bytes;

/// Rows that are looked up at once, at least.
pub(super) const LOOKED_UP_ROWS: usize = 64;

/// What is known of the index: all its rows up to the last of these, or all.
#[derive(Debug)]
pub(super) struct FirstDeadlines {
    group_id: u32,
    keys: VecDeque<Bytes>,
    is_all: bool,
}

impl FirstDeadlines {
    /// The rows that a look for the first `looked_up` of the index has found.
    pub(super) fn new(group_id: u32, keys: VecDeque<Bytes>, looked_up: usize) -> Self {
        Self {
            group_id,
            is_all: keys.len() < looked_up,
            keys,
        }
    }

    /// The first rows, at most `rows_max`, if that many are known, or all.
    pub(super) fn first(&self, group_id: u32, rows_max: usize) -> Option<Vec<Bytes>> {
        let is_known = self.group_id == group_id && (self.is_all || self.keys.len() >= rows_max);
        is_known.then(|| self.keys.iter().take(rows_max).cloned().collect())
    }

    /// A row is written. False if that makes what is known here worthless.
    pub(super) fn put(&self, key: &Bytes) -> bool {
        !self.is_all && self.keys.back().is_none_or(|last| last < key)
    }

    /// A row is removed.
    pub(super) fn delete(&mut self, key: &Bytes) {
        if let Ok(at) = self.keys.binary_search(key) {
            self.keys.remove(at);
        }
    }
}
