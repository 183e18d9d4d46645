//! The view of the one thread that writes: it remembers what its own scans found.

use std::cell::RefCell;

use bytes::Bytes;
use helve_machine::{Fault, View};

use super::{disk_waits::DiskWaits, gaps::Gaps, read_ahead, state_view::StateView};

/// The state as its writer sees it: the same as any view that is opened now.
#[derive(Debug)]
pub struct WriterView<'a> {
    pub(super) view: StateView<'a>,
    /// Filled by scans, which only look.
    pub(super) gaps: RefCell<&'a mut Gaps>,
    pub(super) waits: &'a DiskWaits,
}

impl WriterView<'_> {
    /// Whether recent reads waited for the disk so often that [`read_ahead`](Self::read_ahead)
    /// pays.
    pub fn pays_to_read_ahead(&self) -> bool {
        read_ahead::pays(self.waits)
    }

    /// Fetches rows that are about to be read, all at once. Blocks until they are there.
    ///
    /// # Errors
    /// If a row cannot be read.
    pub fn read_ahead(&self, keys: &[Bytes]) -> Result<(), Fault> {
        read_ahead::fetch(&self.view, self.waits, keys)
    }

    /// Applies this many commands, and notes how often a read of theirs waited for the disk.
    pub fn noting_waits<R>(&self, commands: usize, apply: impl FnOnce() -> R) -> R {
        self.waits.during(commands, apply)
    }
}

impl View for WriterView<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        self.view.get(key)
    }

    fn range(&self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Vec<(Bytes, Bytes)>, Fault> {
        let rows = self
            .view
            .range(self.gaps.borrow().skip(from), to, rows_max)?;
        if rows_max > 0 {
            let end = rows.first().map_or(to, |(key, _)| key);
            self.gaps.borrow_mut().note(from, end);
        }
        Ok(rows)
    }
}
