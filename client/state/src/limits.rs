//! Bounds of state tools: a cluster's own limits, for what is checked here.

/// Bytes of a key.
pub(crate) const KEY_BYTES_MAX: usize = 1024;
/// Bytes of a value as JSON.
pub(crate) const VALUE_BYTES_MAX: usize = 1 << 20;
/// Bytes of all keys and values of a batch.
#[cfg(feature = "tools")]
pub(crate) const BATCH_BYTES_MAX: usize = 4 << 20;
/// Keys of a batch.
#[cfg(feature = "tools")]
pub(crate) const BATCH_KEYS_MAX: usize = 128;
/// Keys of a list.
#[cfg(feature = "tools")]
pub(crate) const LIST_KEYS_MAX: usize = 100_000;
/// Bytes of a write queue's journal that may be done with before it is rewritten, besides as many as are not.
#[cfg(feature = "write-queue")]
pub(crate) const JOURNAL_SLACK_BYTES: u64 = 64 << 10;
