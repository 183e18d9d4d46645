//! Rows that were written lately, for the one thread that writes: most rows that a command reads, the commands just before it wrote,
//! and to find them again in the database costs more than all else that is done for the command.

use std::{cell::RefCell, collections::HashMap};

use bytes::Bytes;
use foldhash::fast::RandomState;
use helve_machine::{Fault, View};

use super::{disk_waits::DiskWaits, gaps::Gaps, read_ahead, state_view::StateView};

/// Bytes of rows after which those that were not written since the last time are forgotten: what is read again is read soon.
const ERA_BYTES: usize = 2 << 20;
/// About what a row takes up besides its key and value.
const ROW_BYTES: usize = 128;
/// A larger value is not remembered.
const VALUE_BYTES_MAX: usize = 16 << 10;

/// The rows written last, as the database holds them.
#[derive(Debug, Default)]
pub(super) struct RecentRows {
    rows: HashMap<Bytes, Recent, RandomState>,
    era_bytes: usize,
    /// Filled by scans, which only look.
    gaps: RefCell<Gaps>,
}

#[derive(Debug)]
struct Recent {
    value: Bytes,
    /// It was written in this era.
    is_new: bool,
}

impl RecentRows {
    fn get(&self, key: &[u8]) -> Option<&Bytes> {
        self.rows.get(key).map(|row| &row.value)
    }

    /// These rows were written (`None`: removed).
    pub(super) fn note(&mut self, rows: impl IntoIterator<Item = (Bytes, Option<Bytes>)>) {
        let gaps = self.gaps.get_mut();
        for (key, value) in rows {
            if value.is_some() {
                gaps.put(&key);
            }
            match value.filter(|value| value.len() <= VALUE_BYTES_MAX) {
                Some(value) => {
                    self.era_bytes += key.len() + value.len() + ROW_BYTES;
                    let is_new = true;
                    self.rows.insert(key, Recent { value, is_new });
                }
                None => {
                    self.rows.remove(&key);
                }
            }
        }
        if self.era_bytes > ERA_BYTES {
            self.rows.retain(|_, row| std::mem::take(&mut row.is_new));
            self.era_bytes = 0;
        }
    }
}

/// The state as its writer sees it: the same as any view that is opened now.
#[derive(Debug)]
pub struct WriterView<'a> {
    pub(super) view: StateView<'a>,
    pub(super) recent: &'a RecentRows,
    pub(super) waits: &'a DiskWaits,
}

impl WriterView<'_> {
    /// Whether recent reads waited for the disk so often that [`read_ahead`](Self::read_ahead)
    /// pays.
    pub fn pays_to_read_ahead(&self) -> bool {
        read_ahead::pays(self.waits)
    }

    /// Fetches rows that are about to be read, those that memory may not hold, all at once. Blocks until they are there.
    ///
    /// # Errors
    /// If a row cannot be read.
    pub fn read_ahead(&self, keys: Vec<Bytes>) -> Result<(), Fault> {
        let is_unknown = |key: &Bytes| self.recent.get(key).is_none();
        let keys: Vec<_> = keys.into_iter().filter(is_unknown).collect();
        read_ahead::fetch(&self.view, self.waits, &keys)
    }

    /// Applies this many commands, and notes how often a read of theirs waited for the disk.
    pub fn noting_waits<R>(&self, commands: usize, apply: impl FnOnce() -> R) -> R {
        self.waits.during(commands, apply)
    }
}

impl View for WriterView<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        match self.recent.get(key) {
            Some(value) => Ok(Some(value.clone())),
            None => self.view.get(key),
        }
    }

    fn range(&self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Vec<(Bytes, Bytes)>, Fault> {
        let rows = self
            .view
            .range(self.recent.gaps.borrow().skip(from), to, rows_max)?;
        if rows_max > 0 {
            let end = rows.first().map_or(to, |(key, _)| key);
            self.recent.gaps.borrow_mut().note(from, end);
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &'static str, value: Option<&'static str>) -> (Bytes, Option<Bytes>) {
        (key.into(), value.map(Bytes::from))
    }

    #[test]
    fn the_last_value_counts_and_a_removed_row_is_not_remembered_from_before() {
        let mut recent = RecentRows::default();
        recent.note([row("cart", Some("apple")), row("order", Some("one"))]);
        recent.note([row("cart", Some("pear"))]);
        assert_eq!(recent.get(b"cart"), Some(&"pear".into()));
        recent.era_bytes = ERA_BYTES;
        recent.note([row("cart", Some("plum"))]);
        assert_eq!(recent.get(b"cart"), Some(&"plum".into()));
        recent.note([row("cart", Some("fig"))]);
        assert_eq!(recent.get(b"cart"), Some(&"fig".into()));
        recent.note([row("cart", None)]);
        assert_eq!(recent.get(b"cart"), None);
        assert_eq!(recent.get(b"order"), Some(&"one".into()));
    }

    #[test]
    fn what_is_too_large_is_forgotten_with_what_stood_there() {
        let mut recent = RecentRows::default();
        recent.note([row("cart", Some("apple"))]);
        recent.note([("cart".into(), Some(vec![7; VALUE_BYTES_MAX + 1].into()))]);
        assert_eq!(recent.get(b"cart"), None);
    }

    #[test]
    fn no_more_than_two_eras_are_remembered() {
        let mut recent = RecentRows::default();
        for number in 0..100_000_u32 {
            recent.note([(number.to_be_bytes().to_vec().into(), Some("apple".into()))]);
        }
        let count = recent.rows.len();
        assert!(count * ROW_BYTES <= 2 * ERA_BYTES + ROW_BYTES, "{count}");
        assert!(recent.get(&99_999_u32.to_be_bytes()).is_some());
    }
}
