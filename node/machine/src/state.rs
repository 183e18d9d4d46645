//! What commands do to keys.

pub(crate) mod delete;
pub(crate) mod store;
