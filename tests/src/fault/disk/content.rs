//! What is in a file, and how much of it a power loss would take away.

use std::ops::Range;

use rand::{RngExt as _, rngs::SmallRng};

/// Changes that no sync has covered, at most. The oldest are then durable all the same: a kernel writes back what is old.
const UNSYNCED_MAX: usize = 100_000;

/// A file's bytes, with what it takes to undo each change since the last sync.
#[derive(Debug, Default)]
pub(super) struct Content {
    bytes: Vec<u8>,
    /// Oldest first.
    unsynced: Vec<Change>,
    /// What a sync failed to write. A later sync does not write it either, since the kernel takes it for clean.
    lost: Vec<Range<usize>>,
}

/// One change, by what was there before.
#[derive(Debug)]
struct Change {
    at: usize,
    /// Bytes written; 0 if the file was only cut.
    length: usize,
    /// What was at `at`, as far as it is not there any more.
    before: Vec<u8>,
    /// The file's length before.
    old_length: usize,
}

/// What a power loss leaves of that which was not synced.
#[derive(Debug)]
pub(super) enum Keep<'a> {
    /// Nothing.
    Nothing,
    /// So much of the oldest as the dice say, and perhaps a part of the next.
    Some(&'a mut SmallRng),
}

impl Keep<'_> {
    /// How many of this many changes, oldest first, are kept.
    pub(super) fn of(&mut self, count: usize) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Some(rng) => rng.random_range(0..=count),
        }
    }
}

impl Content {
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// At most `size` bytes from `offset`.
    pub(super) fn read(&self, offset: usize, size: usize) -> &[u8] {
        let start = offset.min(self.bytes.len());
        let end = start.saturating_add(size).min(self.bytes.len());
        &self.bytes[start..end]
    }

    pub(super) fn write(&mut self, at: usize, data: &[u8]) {
        let end = at + data.len();
        let known = at.min(self.bytes.len())..end.min(self.bytes.len());
        self.remember(Change {
            at,
            length: data.len(),
            before: self.bytes[known].to_vec(),
            old_length: self.bytes.len(),
        });
        self.lost = self.lost.iter().flat_map(|r| without(r, at, end)).collect();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[at..end].copy_from_slice(data);
    }

    /// Cuts the file, or fills it with zeros.
    pub(super) fn resize(&mut self, length: usize) {
        let cut = length.min(self.bytes.len());
        self.remember(Change {
            at: cut,
            length: length - cut,
            before: self.bytes[cut..].to_vec(),
            old_length: self.bytes.len(),
        });
        self.bytes.resize(length, 0);
    }

    fn remember(&mut self, change: Change) {
        if self.unsynced.len() == UNSYNCED_MAX {
            self.unsynced.drain(..UNSYNCED_MAX / 2);
        }
        self.unsynced.push(change);
    }

    /// All that is there is durable.
    pub(super) fn sync(&mut self) {
        self.unsynced.clear();
    }

    /// A sync failed: what it should have written is not durable, and no later sync makes it so.
    pub(super) fn fail_to_sync(&mut self) {
        let written = self.unsynced.drain(..).filter(|change| change.length > 0);
        self.lost
            .extend(written.map(|change| change.at..change.at + change.length));
    }

    /// Goes back to what is durable. Answers how many writes were undone.
    pub(super) fn lose_power(&mut self, keep: &mut Keep<'_>) -> usize {
        let kept = keep.of(self.unsynced.len());
        let undone = self.unsynced.len() - kept;
        while self.unsynced.len() > kept {
            let Some(change) = self.unsynced.pop() else {
                break;
            };
            let is_next = self.unsynced.len() == kept;
            let torn = match keep {
                Keep::Some(rng) if is_next && change.length > 0 => {
                    let part = rng.random_range(0..change.length);
                    self.bytes[change.at..change.at + part].to_vec()
                }
                _ => Vec::new(),
            };
            let at = change.at;
            self.undo(&change);
            if !torn.is_empty() {
                let end = at + torn.len();
                if self.bytes.len() < end {
                    self.bytes.resize(end, 0);
                }
                self.bytes[at..end].copy_from_slice(&torn);
            }
        }
        self.unsynced.clear();
        for lost in self.lost.drain(..) {
            let end = lost.end.min(self.bytes.len());
            if lost.start < end {
                self.bytes[lost.start..end].fill(0);
            }
        }
        undone
    }

    fn undo(&mut self, change: &Change) {
        self.bytes.resize(change.old_length, 0);
        if !change.before.is_empty() {
            let end = change.at + change.before.len();
            self.bytes[change.at..end].copy_from_slice(&change.before);
        }
    }
}

/// What is left of a range without another.
fn without(range: &Range<usize>, start: usize, end: usize) -> impl Iterator<Item = Range<usize>> {
    let left = range.start..range.end.min(start);
    let right = range.start.max(end)..range.end;
    [left, right].into_iter().filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    fn content(bytes: &[u8]) -> Content {
        let mut content = Content::default();
        content.write(0, bytes);
        content.sync();
        content
    }

    fn all(content: &Content) -> &[u8] {
        content.read(0, usize::MAX)
    }

    #[test]
    fn what_was_not_synced_is_lost_and_what_was_is_kept() {
        let mut content = content(b"hello");
        content.write(5, b" world");
        content.write(0, b"J");
        content.resize(3);
        content.resize(8);
        assert_eq!(all(&content), b"Jel\0\0\0\0\0");
        assert_eq!(content.lose_power(&mut Keep::Nothing), 4);
        assert_eq!(all(&content), b"hello");
    }

    #[test]
    fn a_hole_is_filled_with_zeros_and_undone() {
        let mut content = content(b"a");
        content.write(3, b"b");
        assert_eq!(all(&content), b"a\0\0b");
        content.lose_power(&mut Keep::Nothing);
        assert_eq!(all(&content), b"a");
    }

    #[test]
    fn of_appended_records_a_prefix_is_kept_and_the_next_may_be_torn() {
        let (mut whole, mut torn, mut none) = (0, 0, 0);
        for seed in 0..200 {
            let mut content = content(b"..");
            content.write(2, b"1111");
            content.write(6, b"2222");
            content.lose_power(&mut Keep::Some(&mut SmallRng::seed_from_u64(seed)));
            assert!(b"..11112222".starts_with(all(&content)));
            match content.len() {
                2 => none += 1,
                6 | 10 => whole += 1,
                _ => torn += 1,
            }
        }
        assert!(
            whole > 10 && torn > 10 && none > 10,
            "{whole} {torn} {none}"
        );
    }

    #[test]
    fn what_a_sync_failed_to_write_is_gone_although_a_later_sync_succeeds() {
        let mut content = content(b"ab");
        content.write(2, b"cdef");
        content.fail_to_sync();
        content.write(6, b"gh");
        content.write(3, b"D");
        content.sync();
        assert_eq!(all(&content), b"abcDefgh");
        content.lose_power(&mut Keep::Nothing);
        assert_eq!(all(&content), b"ab\0D\0\0gh");
    }
}
