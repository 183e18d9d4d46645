//! The newest entries of the log, in memory: all that are not durable yet, and behind them as many as fit. Applying and replicating
//! read here; only who lags behind reads the disk.

use std::{collections::VecDeque, ops::Range};

/// Entries without a gap. `T` is the entry in the form that its readers want; cloning one must be cheap.
#[derive(Debug)]
pub struct LogTail<T> {
    rows: VecDeque<Row<T>>,
    /// Index behind the last entry of the log, whether or not that one is still here. Entries here end there.
    end: u64,
    bytes: usize,
    bytes_max: usize,
}

#[derive(Debug)]
struct Row<T> {
    entry: T,
    bytes: usize,
    /// The log writer's position of the append that makes it durable.
    position: u64,
}

impl<T: Clone> LogTail<T> {
    /// An empty tail of a log whose next index is `end`. It keeps up to `bytes_max`, and more while entries are not durable.
    #[must_use]
    pub fn new(end: u64, bytes_max: usize) -> Self {
        Self {
            rows: VecDeque::new(),
            end,
            bytes: 0,
            bytes_max,
        }
    }

    /// The index of the first entry here; entries from it to the end of the log are all here.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.end - self.rows.len() as u64
    }

    /// The index behind the log's last entry.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Adds the entry at the end of the log. It is durable once the log writer has synced up to `position`.
    pub fn push(&mut self, entry: T, bytes: usize, position: u64) {
        self.rows.push_back(Row {
            entry,
            bytes,
            position,
        });
        self.bytes += bytes;
        self.end += 1;
    }

    /// Lets a log without any entry begin at `start`.
    pub fn begin(&mut self, start: u64) {
        self.rows.clear();
        self.bytes = 0;
        self.end = start;
    }

    /// Forgets the oldest entries beyond the tail's size. `synced`: the log writer's position up to which all is durable.
    pub fn trim(&mut self, synced: u64) {
        while self.bytes > self.bytes_max
            && self.rows.front().is_some_and(|row| row.position <= synced)
        {
            self.pop_front();
        }
    }

    /// Entries of a range that are here, in order: at most `bytes_max` of them, but at least one if there is one.
    #[must_use]
    pub fn read(&self, range: Range<u64>, bytes_max: usize) -> Vec<T> {
        let start = self.start();
        let first = range.start.max(start);
        let last = range.end.min(self.end);
        let mut entries = Vec::with_capacity(last.saturating_sub(first).min(4096) as usize);
        let mut bytes = 0;
        for index in first..last {
            let row = &self.rows[(index - start) as usize];
            bytes += row.bytes;
            if bytes > bytes_max && !entries.is_empty() {
                break;
            }
            entries.push(row.entry.clone());
        }
        entries
    }

    /// The log writer's position that makes this entry durable; `None` if it is not here, and so has long been durable.
    #[must_use]
    pub fn position(&self, index: u64) -> Option<u64> {
        let offset = index.checked_sub(self.start())?;
        self.rows.get(offset as usize).map(|row| row.position)
    }

    /// The log now ends before `end`.
    pub fn truncate(&mut self, end: u64) {
        while self.end > end {
            if let Some(row) = self.rows.pop_back() {
                self.bytes -= row.bytes;
                self.end -= 1;
            } else {
                self.end = end;
            }
        }
    }

    /// The log now starts at `start`, which may be beyond its end.
    pub fn purge(&mut self, start: u64) {
        while self.start() < start && !self.rows.is_empty() {
            self.pop_front();
        }
        self.end = self.end.max(start);
    }

    fn pop_front(&mut self) {
        if let Some(row) = self.rows.pop_front() {
            self.bytes -= row.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail_of(indexes: Range<u64>, bytes_max: usize) -> LogTail<u64> {
        let mut tail = LogTail::new(indexes.start, bytes_max);
        for index in indexes {
            tail.push(index, 10, index);
        }
        tail
    }

    #[test]
    fn entries_that_are_not_durable_stay_beyond_the_size() {
        let mut tail = tail_of(5..10, 20);
        tail.trim(6);
        assert_eq!(tail.read(0..100, 1000), [7, 8, 9]);
        tail.trim(9);
        assert_eq!(tail.read(0..100, 1000), [8, 9]);
    }

    #[test]
    fn a_read_is_bounded_in_bytes_but_never_empty() {
        let tail = tail_of(5..10, 1000);
        assert_eq!(tail.read(5..10, 25), [5, 6]);
        assert_eq!(tail.read(6..10, 1), [6]);
        assert!(tail.read(10..12, 100).is_empty());
    }

    #[test]
    fn truncating_and_purging_move_the_ends() {
        let mut tail = tail_of(5..10, 1000);
        tail.truncate(8);
        tail.purge(6);
        assert_eq!((tail.start(), tail.end()), (6, 8));
        assert_eq!(tail.read(0..100, 1000), [6, 7]);
        tail.truncate(3);
        assert_eq!((tail.start(), tail.end()), (3, 3));
        tail.purge(20);
        assert_eq!((tail.start(), tail.end()), (20, 20));
    }

    #[test]
    fn an_entry_appended_again_waits_for_its_new_position() {
        let mut tail = tail_of(5..10, 1000);
        tail.truncate(7);
        tail.push(7, 10, 50);
        assert_eq!(tail.position(6), Some(6));
        assert_eq!(tail.position(7), Some(50));
        assert_eq!(tail.position(4), None);
    }
}
