//! The changes that a host applied last, for those who watch.
//!
//! Every replica applies the same changes in the same order, so a watch goes on at any host whose window still has what
//! follows it. The window is in memory: it begins where the process began to apply, or where a snapshot was installed.
//!
//! All tenants share its bytes. The oldest change goes of the tenant whose changes take up most, so
//! that a tenant that writes much shortens its own watches' window before another's.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use helve_proto::v1::Change;
use prost::Message as _;

use crate::changes::{RecordChange, Selection};

/// Changes that one look passes at most.
const LOOK_MAX: usize = 1024;

/// What frames a change in a reply: its tag, and its length in three bytes.
const FRAME_BYTES: usize = 4;

/// The window.
#[derive(Debug)]
pub struct Window {
    group_id: u32,
    /// By tenant. Only operators make tenants: these are as many as they made, and take up little.
    tenants: BTreeMap<Bytes, Kept>,
    /// Tenants by the bytes of their changes.
    by_bytes: BTreeSet<(usize, Bytes)>,
    bytes: usize,
    bytes_max: usize,
    /// Where the window begins for a tenant of which no change has gone.
    begin: u64,
    /// The last entry that was applied.
    head: u64,
}

/// What is kept of one tenant.
#[derive(Debug, Default)]
struct Kept {
    changes: VecDeque<Numbered>,
    bytes: usize,
    /// All changes of later entries are kept.
    floor: u64,
}

#[derive(Debug)]
struct Numbered {
    place: Place,
    change: RecordChange,
}

/// The place of a change in the log: its entry, and its number among that entry's changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The log index.
    pub index: u64,
    /// From 0.
    pub ordinal: u32,
}

/// How much one look may find. One change is found at least, whatever its size, unless none may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Changes.
    pub changes_max: usize,
    /// Bytes of their messages, as they are encoded in a reply.
    pub bytes_max: usize,
}

impl Part {
    /// None: whether what follows is kept.
    pub const NONE: Self = Self {
        changes_max: 0,
        bytes_max: 0,
    };
}

/// What a look at the window found.
#[derive(Debug, Default, PartialEq)]
pub struct Found {
    /// The changes that were selected, in order.
    pub changes: Vec<Change>,
    /// Every change up to this entry was looked at.
    pub upto: u64,
    /// Where to look next.
    pub next: Next,
}

/// Where a watcher goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// With the entries after this one.
    After(u64),
    /// In the middle of an entry, with this change.
    From(Place),
}

impl Default for Next {
    fn default() -> Self {
        Self::After(0)
    }
}

/// What follows is not kept any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooOld {
    /// Changes of later entries than this one are kept.
    pub floor: u64,
}

/// How full the window is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fullness {
    /// Changes that are kept.
    pub changes: usize,
    /// Bytes that they take up.
    pub bytes: usize,
    /// Bytes that they may take up.
    pub bytes_max: usize,
}

impl Window {
    /// An empty window of a group, which keeps changes of at most this many bytes.
    #[must_use]
    pub fn new(group_id: u32, bytes_max: usize) -> Self {
        Self {
            group_id,
            tenants: BTreeMap::new(),
            by_bytes: BTreeSet::new(),
            bytes: 0,
            bytes_max,
            begin: 0,
            head: 0,
        }
    }

    /// Adds what entries changed that were applied, the last of them at `head`.
    pub fn push(&mut self, applied: Vec<(u64, Vec<RecordChange>)>, head: u64) {
        for (index, changes) in applied {
            for (ordinal, change) in (0..).zip(changes) {
                let place = Place { index, ordinal };
                self.add(Numbered { place, change });
            }
        }
        while self.bytes > self.bytes_max
            && let Some((_, largest)) = self.by_bytes.last().cloned()
        {
            self.resize(largest, Kept::drop_oldest);
        }
        self.head = self.head.max(head);
    }

    fn add(&mut self, numbered: Numbered) {
        // Each change of this group's commands has one.
        if let Some(tenant) = numbered.change.tenant(self.group_id) {
            self.resize(tenant, |kept| kept.add(numbered));
        }
    }

    /// Changes what is kept of a tenant, and keeps count.
    fn resize(&mut self, tenant: Bytes, change: impl FnOnce(&mut Kept)) {
        let kept = self.tenants.entry(tenant.clone()).or_default();
        let before = kept.bytes;
        change(kept);
        let after = kept.bytes;
        self.bytes = self.bytes - before + after;
        self.by_bytes.remove(&(before, tenant.clone()));
        if after > 0 {
            self.by_bytes.insert((after, tenant));
        }
    }

    /// Begins after this entry: the rows are as of it, and what brought them there is not known.
    pub fn begin_after(&mut self, index: u64) {
        self.tenants.clear();
        self.by_bytes.clear();
        self.bytes = 0;
        self.begin = index;
        self.head = index;
    }

    /// The last entry that was applied.
    #[must_use]
    pub fn head(&self) -> u64 {
        self.head
    }

    /// How full it is.
    #[must_use]
    pub fn fullness(&self) -> Fullness {
        Fullness {
            changes: self.tenants.values().map(|kept| kept.changes.len()).sum(),
            bytes: self.bytes,
            bytes_max: self.bytes_max,
        }
    }

    /// Looks for selected changes, at most as much as `part` says, among a bounded number of the tenant's.
    ///
    /// # Errors
    /// [`TooOld`] if some that follow are not kept any more.
    pub fn look(&self, next: Next, selection: &Selection, part: Part) -> Result<Found, TooOld> {
        let none = Kept::default();
        let kept = self.tenants.get(selection.tenant().as_bytes());
        let kept = kept.unwrap_or(&none);
        let floor = kept.floor.max(self.begin);
        let is_kept = match next {
            Next::After(index) => index >= floor,
            Next::From(place) => place.index > floor,
        };
        if !is_kept {
            return Err(TooOld { floor });
        }
        let start = kept.changes.partition_point(|numbered| match next {
            Next::After(index) => numbered.place.index <= index,
            Next::From(place) => numbered.place < place,
        });
        let mut found = Found::default();
        let mut bytes = 0;
        for numbered in kept.changes.range(start..).take(LOOK_MAX) {
            if found.changes.len() == part.changes_max {
                return Ok(found.ending_before(numbered.place));
            }
            if selection.has(&numbered.change) {
                let Place { index, ordinal } = numbered.place;
                let Some(told) = numbered.change.told(self.group_id, index, ordinal) else {
                    continue;
                };
                bytes += told.encoded_len() + FRAME_BYTES;
                if bytes > part.bytes_max && !found.changes.is_empty() {
                    return Ok(found.ending_before(numbered.place));
                }
                found.changes.push(told);
            }
        }
        if let Some(numbered) = kept.changes.get(start + LOOK_MAX) {
            return Ok(found.ending_before(numbered.place));
        }
        let before = match next {
            Next::After(index) => index,
            Next::From(place) => place.index,
        };
        found.upto = self.head.max(before);
        found.next = Next::After(found.upto);
        Ok(found)
    }
}

impl Kept {
    fn add(&mut self, numbered: Numbered) {
        self.bytes += Numbered::bytes(&numbered.change);
        self.changes.push_back(numbered);
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.changes.pop_front() {
            self.bytes -= Numbered::bytes(&oldest.change);
            self.floor = oldest.place.index;
            // What it once held would else stay allocated, and be counted nowhere.
            if self.changes.len() < self.changes.capacity() / 4 {
                self.changes.shrink_to(2 * self.changes.len());
            }
        }
    }
}

impl Found {
    fn ending_before(mut self, place: Place) -> Self {
        self.upto = place.index - 1;
        self.next = Next::From(place);
        self
    }
}

impl Numbered {
    fn bytes(change: &RecordChange) -> usize {
        size_of::<Place>() + change.bytes()
    }
}

#[cfg(test)]
mod tests;
