//! The rows, in a map.

use std::{collections::BTreeMap, ops::Bound};

use bytes::Bytes;
use helve_machine::{Fault, View};

#[derive(Debug, Default)]
pub(super) struct Rows {
    rows: BTreeMap<Bytes, Bytes>,
    /// Rows that queries and commands have read.
    #[cfg(test)]
    read: std::sync::atomic::AtomicUsize,
}

impl Rows {
    pub(super) fn write(&mut self, writes: impl IntoIterator<Item = (Bytes, Option<Bytes>)>) {
        for (key, value) in writes {
            match value {
                Some(value) => self.rows.insert(key, value),
                None => self.rows.remove(&key),
            };
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }
}

impl Rows {
    #[cfg(test)]
    fn note_read(&self, rows: usize) {
        self.read
            .fetch_add(rows, std::sync::atomic::Ordering::Relaxed);
    }

    #[cfg(not(test))]
    fn note_read(&self, _: usize) {}

    /// How many rows were read since this was asked last.
    #[cfg(test)]
    pub(super) fn take_read(&self) -> usize {
        self.read.swap(0, std::sync::atomic::Ordering::Relaxed)
    }
}

impl View for Rows {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        let found = self.rows.get(key).cloned();
        self.note_read(usize::from(found.is_some()));
        Ok(found)
    }

    fn range(&self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Vec<(Bytes, Bytes)>, Fault> {
        if from >= to {
            return Ok(Vec::new());
        }
        let bounds = (Bound::Included(from), Bound::Excluded(to));
        let rows = self.rows.range::<[u8], _>(bounds).take(rows_max);
        let rows: Vec<_> = rows
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        self.note_read(rows.len());
        Ok(rows)
    }
}
