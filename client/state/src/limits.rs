//! Bounds of state tools: a cluster's own limits, for what is checked here.

use helve_client::Error;
use helve_proto::Reason;

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

pub(crate) fn check_key(key: &str) -> Result<(), Error> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX || key.contains('\0') {
        let message = format!(
            "a key of {} bytes: it must have 1 to {KEY_BYTES_MAX}, and no NUL",
            key.len()
        );
        return Err(Error::refused(Reason::BadKey, message, 0, 0));
    }
    Ok(())
}

/// Checks the size of a value as JSON.
pub(crate) fn check_value_bytes(bytes: usize) -> Result<(), Error> {
    if bytes > VALUE_BYTES_MAX {
        let message =
            format!("a value of {bytes} bytes as JSON, and {VALUE_BYTES_MAX} are allowed");
        return Err(Error::refused(Reason::TooLarge, message, 0, 0));
    }
    Ok(())
}
