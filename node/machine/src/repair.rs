//! Derived rows that contradicted the rows they are derived from, and were put right.
//!
//! Counters, summaries and the deadline index can be worked out from other rows at any time. A contradiction in them is a bug of
//! the machine, which every replica meets at the same entry, so stopping for it would stop the whole cluster for good. The machine
//! recounts instead, on every replica alike, and tells its host, which logs and counts it.

/// Repairs that a batch describes one by one; further ones are only counted.
const DESCRIBED_MAX: usize = 16;

/// A derived row that was put right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// What kind of row.
    pub what: &'static str,
    /// The tenant whose rows it is derived from.
    pub tenant: String,
    /// What it said.
    pub was: u64,
    /// What the recount gave.
    pub is: u64,
}

/// The repairs of a batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repairs {
    /// How many.
    pub count: u64,
    /// The first of them.
    pub described: Vec<Repair>,
}

impl Repairs {
    pub(crate) fn note(&mut self, repair: Repair) {
        self.count += 1;
        if self.described.len() < DESCRIBED_MAX {
            self.described.push(repair);
        }
    }
}
