//! The bound of an owner's name.

/// Bytes of an owner, as many as the cluster takes.
pub(super) const OWNER_BYTES_MAX: usize = 256;
