//! Rows that a batch writes, over the view that it started from.

mod write;

use std::{
    collections::{BTreeMap, btree_map, btree_map::Entry},
    ops::Bound,
};

use bytes::Bytes;

use self::write::{Row, Write};
use crate::{
    fault::Fault,
    layout::Group,
    view::{View, after},
};

/// Rows that a page makes up for.
const SKIPPED_ROWS_MAX: usize = 64;

/// Rows over a view: what was written is read back before it is stored.
#[derive(Debug)]
pub(crate) struct Overlay<V> {
    view: V,
    writes: BTreeMap<Bytes, Write>,
    /// A group, and rows of it that every command asks for, as they stand.
    held: Option<(u32, [Row; 3])>,
}

impl<V> Overlay<V> {
    pub(crate) fn new(view: V) -> Self {
        Self {
            view,
            writes: BTreeMap::new(),
            held: None,
        }
    }

    /// The view below, without what was written.
    pub(crate) fn below(&self) -> &V {
        &self.view
    }

    /// Writes in the order of their keys, one after the other: `None` deletes. A row that was put
    /// where another had been deleted is both.
    pub(crate) fn into_rows(self) -> Vec<(Bytes, Option<Bytes>)> {
        let writes = self.writes.into_iter();
        writes
            .flat_map(|(key, write)| write.into_rows(key))
            .collect()
    }

    pub(crate) fn put(&mut self, key: Bytes, value: Bytes) {
        self.write(key, Some(value));
    }

    pub(crate) fn delete(&mut self, key: Bytes) {
        self.write(key, None);
    }

    /// Puts a row under a key that has none, as the batch is now. Deleted in the same batch, it is never written at all: an outcome
    /// often lives no longer.
    pub(crate) fn put_new(&mut self, key: Bytes, value: Bytes) {
        match self.writes.entry(key) {
            // The batch deleted the view's row, or took back what it had put.
            Entry::Occupied(mut written) => written.get_mut().put_again(value),
            Entry::Vacant(vacant) => {
                vacant.insert(Write::new_row(value));
            }
        }
    }

    pub(crate) fn write(&mut self, key: Bytes, value: Option<Bytes>) {
        let held = self.held.iter_mut().flat_map(|(_, rows)| rows);
        if let Some((_, row)) = held.into_iter().find(|(held, _)| *held == key) {
            row.clone_from(&value);
        }
        match self.writes.entry(key) {
            Entry::Occupied(written) if value.is_none() && written.get().is_new => {
                written.remove();
            }
            Entry::Occupied(mut written) => written.get_mut().value = value,
            Entry::Vacant(vacant) => {
                vacant.insert(Write::over(value));
            }
        }
    }
}

impl<V: View> Overlay<V> {
    /// Reads the rows of a group that every command asks for, if they were not read yet.
    pub(crate) fn hold(&mut self, group: Group) -> Result<(), Fault> {
        if self.held.as_ref().is_some_and(|(of, _)| *of == group.0) {
            return Ok(());
        }
        self.held = None;
        let read = |key: Bytes| self.get(&key).map(|row| (key, row));
        let rows = [
            read(group.clock())?,
            read(group.feature_level())?,
            read(group.sealing())?,
        ];
        self.held = Some((group.0, rows));
        Ok(())
    }
}

impl<V: View> View for Overlay<V> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        let held = self.held.iter().flat_map(|(_, rows)| rows);
        if let Some((_, row)) = held.into_iter().find(|(held, _)| held == key) {
            return Ok(row.clone());
        }
        match self.writes.get(key) {
            Some(written) => Ok(written.value.clone()),
            None => self.view.get(key),
        }
    }

    fn range(&self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Vec<(Bytes, Bytes)>, Fault> {
        if from >= to || rows_max == 0 {
            return Ok(Vec::new());
        }
        let bounds = (Bound::Included(from), Bound::Excluded(to));
        let mut written = self.writes.range::<[u8], _>(bounds).peekable();
        if written.peek().is_none() {
            return self.view.range(from, to, rows_max);
        }
        // Rows that the batch deleted are skipped: a page makes up for them, lest skipping take many pages.
        let first = self.writes.range::<[u8], _>(bounds).take(SKIPPED_ROWS_MAX);
        let page_rows = rows_max + first.filter(|(_, write)| write.value.is_none()).count();
        let mut merged = Vec::new();
        let mut start = from.to_vec();
        loop {
            let page = self.view.range(&start, to, page_rows)?;
            let next = (page.len() == page_rows).then(|| after(&page[page_rows - 1].0));
            for (key, value) in page {
                while let Some((key, value)) = next_before(&mut written, &key) {
                    merged.extend(value.map(|value| (key, value)));
                }
                match written.next_if(|(other, _)| **other == key) {
                    Some((_, write)) => merged.extend(write.value.clone().map(|v| (key, v))),
                    None => merged.push((key, value)),
                }
                if merged.len() >= rows_max {
                    merged.truncate(rows_max);
                    return Ok(merged);
                }
            }
            match next {
                Some(next) => start = next,
                None => break,
            }
        }
        let rest = written.filter_map(|(key, write)| Some((key.clone(), write.value.clone()?)));
        merged.extend(rest.take(rows_max - merged.len()));
        Ok(merged)
    }
}

type Written<'a> = std::iter::Peekable<btree_map::Range<'a, Bytes, Write>>;

/// The next write, if it lies before this key.
fn next_before(written: &mut Written<'_>, key: &Bytes) -> Option<(Bytes, Option<Bytes>)> {
    let (key, write) = written.next_if(|(other, _)| *other < key)?;
    Some((key.clone(), write.value.clone()))
}
