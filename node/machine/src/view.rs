//! What the machine reads from.

use bytes::Bytes;

use crate::fault::Fault;

/// A consistent, ordered picture of all rows.
pub trait View {
    /// The value under a key.
    ///
    /// # Errors
    /// [`Fault::View`] if the host cannot read.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Fault>;

    /// The first `rows_max` rows with `from <= key < to`, ascending. None if `from >= to`.
    ///
    /// # Errors
    /// [`Fault::View`] if the host cannot read.
    fn range(&self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Vec<(Bytes, Bytes)>, Fault>;
}

impl<V: View + ?Sized> View for &V {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        (**self).get(key)
    }

    fn range(&self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Vec<(Bytes, Bytes)>, Fault> {
        (**self).range(from, to, rows_max)
    }
}

/// The smallest key after this one.
pub(crate) fn after(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}
