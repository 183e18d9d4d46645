//! How far a recount has come, as a counter's row says.

use bytes::Bytes;
use helve_proto::command::v1::{RecountRow, UsageRow};

use super::Delta;

/// How far a recount has come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Recount {
    /// Rows with smaller keys are counted.
    pub(super) next: Bytes,
    pub(super) sum: UsageRow,
}

impl From<RecountRow> for Recount {
    fn from(row: RecountRow) -> Self {
        let RecountRow { next, rows, bytes } = row;
        Self {
            next,
            sum: UsageRow { rows, bytes },
        }
    }
}

impl From<Recount> for RecountRow {
    fn from(recount: Recount) -> Self {
        Self {
            next: recount.next,
            rows: recount.sum.rows,
            bytes: recount.sum.bytes,
        }
    }
}

impl Recount {
    /// Counts a change of the row under this key, if it is passed.
    pub(crate) fn note(&mut self, key: &[u8], delta: Delta) {
        if *key < *self.next {
            self.sum = delta.on(self.sum);
        }
    }
}
