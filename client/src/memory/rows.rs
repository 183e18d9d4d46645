//! The rows, in a map.

use std::{collections::BTreeMap, ops::Bound};

use bytes::Bytes;
use helve_machine::{Fault, View};

#[derive(Debug, Default)]
pub(super) struct Rows(BTreeMap<Bytes, Bytes>);

impl Rows {
    pub(super) fn write(&mut self, writes: impl IntoIterator<Item = (Bytes, Option<Bytes>)>) {
        for (key, value) in writes {
            match value {
                Some(value) => self.0.insert(key, value),
                None => self.0.remove(&key),
            };
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl View for Rows {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        Ok(self.0.get(key).cloned())
    }

    fn range(&self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Vec<(Bytes, Bytes)>, Fault> {
        if from >= to {
            return Ok(Vec::new());
        }
        let bounds = (Bound::Included(from), Bound::Excluded(to));
        let rows = self.0.range::<[u8], _>(bounds).take(rows_max);
        Ok(rows
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }
}
