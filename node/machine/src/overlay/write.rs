//! What a batch leaves under one key.

use bytes::Bytes;

/// A key, and its row.
pub(super) type Row = (Bytes, Option<Bytes>);

#[derive(Debug)]
pub(super) struct Write {
    /// `None`: nothing.
    pub(super) value: Option<Bytes>,
    /// The view has no row there: what was put can be taken back without a trace.
    pub(super) is_new: bool,
    /// The view's row was removed before the row was put.
    is_put_again: bool,
}

impl Write {
    /// Over any row.
    pub(super) fn over(value: Option<Bytes>) -> Self {
        Self {
            value,
            is_new: false,
            is_put_again: false,
        }
    }

    /// Where there is no row.
    pub(super) fn new_row(value: Bytes) -> Self {
        Self {
            is_new: true,
            ..Self::over(Some(value))
        }
    }

    /// Where the batch removed the view's row.
    pub(super) fn put_again(&mut self, value: Bytes) {
        self.value = Some(value);
        self.is_put_again = true;
    }

    /// What is to be written, in this order.
    pub(super) fn into_rows(self, key: Bytes) -> impl Iterator<Item = Row> {
        let is_removed_first = self.is_put_again && self.value.is_some();
        let removal = is_removed_first.then(|| (key.clone(), None));
        removal.into_iter().chain([(key, self.value)])
    }
}
