//! What a read is given: the word of a round, and a view that follows it.

use crate::storage::state_view::StateView;

/// What a round of ReadIndex answered.
#[derive(Debug, Clone, Copy)]
pub struct Ticket {
    /// A view must have applied this entry.
    pub index: u64,
    /// The leader's stamp at the time of the answer.
    pub stamp_ms: u64,
}

impl Ticket {
    /// A newer view at no later a time: a stamp that ran on could meet one deadline after the other for ever, and one that a new
    /// leader does not reach could not be waited for.
    #[must_use]
    pub fn not_after(self, earlier: Self) -> Self {
        Self {
            stamp_ms: self.stamp_ms.min(earlier.stamp_ms),
            ..self
        }
    }
}

/// A linearizable view.
#[derive(Debug)]
pub struct ReadView<'a> {
    /// The rows.
    pub view: &'a StateView<'a>,
    /// The last entry that they hold.
    pub index: u64,
    /// The leader's stamp of the round that this view follows.
    pub stamp_ms: u64,
}

/// Where a query is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On the spot if memory holds the rows, and else where it may wait for the disk. For few rows: it holds up every other call.
    Memory,
    /// Where it may wait for the disk, and take long.
    Disk,
}
