//! Ranges of keys without rows, as the writer's own scans found them. In a log-structured store a
//! scan steps over every row that was recently removed, so removing the first rows of an index
//! again and again would step over all the earlier ones.

use std::collections::VecDeque;

/// How many are remembered: of those that are of no use any more, the oldest go first.
const GAPS_MAX: usize = 8;

/// What is known of keys without rows. It is a memory, never all there is.
#[derive(Debug, Default)]
pub(super) struct Gaps(VecDeque<Gap>);

/// No row has a key with `from <= key < to`.
#[derive(Debug)]
struct Gap {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Gaps {
    /// Where a scan may begin that is to begin here: no row is between.
    pub(super) fn skip<'a>(&'a self, from: &'a [u8]) -> &'a [u8] {
        let gap = self.0.iter().find(|gap| gap.holds(from));
        gap.map_or(from, |gap| &gap.to)
    }

    /// A scan has found that no row has a key with `from <= key < to`.
    pub(super) fn note(&mut self, from: &[u8], to: &[u8]) {
        if from >= to {
            return;
        }
        let known = self.0.iter().position(|gap| gap.holds(from));
        let known = known.and_then(|at| self.0.remove(at));
        let gap = match known {
            Some(mut gap) => {
                if gap.to.as_slice() < to {
                    to.clone_into(&mut gap.to);
                }
                gap
            }
            None => Gap {
                from: from.to_vec(),
                to: to.to_vec(),
            },
        };
        self.0.push_back(gap);
        if self.0.len() > GAPS_MAX {
            self.0.pop_front();
        }
    }

    /// A row was put under this key.
    pub(super) fn put(&mut self, key: &[u8]) {
        for gap in &mut self.0 {
            if gap.holds(key) {
                key.clone_into(&mut gap.to);
            }
        }
    }
}

impl Gap {
    fn holds(&self, key: &[u8]) -> bool {
        self.from.as_slice() <= key && key < self.to.as_slice()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_skips_what_it_stepped_over_before_up_to_what_was_put_since() {
        let mut gaps = Gaps::default();
        assert_eq!(gaps.skip(b"c"), b"c");
        gaps.note(b"b", b"f");
        gaps.note(b"d", b"k");
        for (from, start) in [("a", "a"), ("b", "k"), ("j", "k"), ("k", "k")] {
            assert_eq!(gaps.skip(from.as_bytes()), start.as_bytes(), "{from}");
        }
        gaps.note(b"c", b"d");
        assert_eq!(gaps.skip(b"c"), b"k");
        gaps.put(b"k");
        assert_eq!(gaps.skip(b"b"), b"k");
        gaps.put(b"g");
        for (from, start) in [("b", "g"), ("g", "g"), ("h", "h")] {
            assert_eq!(gaps.skip(from.as_bytes()), start.as_bytes(), "{from}");
        }
        gaps.put(b"b");
        assert_eq!(gaps.skip(b"b"), b"b");
    }

    #[test]
    fn what_is_used_is_remembered_longest() {
        let mut gaps = Gaps::default();
        gaps.note(b"a", b"c");
        for number in 0..10 * GAPS_MAX {
            let key = number.to_be_bytes();
            gaps.note(&key, &[&key[..], b"0"].concat());
            gaps.note(b"b", b"c");
        }
        assert_eq!(gaps.skip(b"a"), b"c");
        assert_eq!(gaps.0.len(), GAPS_MAX);
    }
}
