//! The bounds of keys, values and batches: the same as a cluster's, so that what one tool takes the other takes too.

use std::collections::HashSet;

use helve_client::{Error, extend::encode, limits::LIST_BYTES_MAX};
use helve_proto::Reason;
use serde_json::Value;

pub(super) use crate::limits::check_key;
use crate::limits::{BATCH_BYTES_MAX, BATCH_KEYS_MAX, LIST_KEYS_MAX, check_value_bytes};

pub(super) fn check_prefix(prefix: &str) -> Result<(), Error> {
    if prefix.is_empty() {
        return Ok(());
    }
    check_key(prefix)
}

/// Answers the bytes of the value as JSON.
pub(super) fn check_value(value: &Value) -> Result<usize, Error> {
    let bytes = encode(value)?.len();
    check_value_bytes(bytes)?;
    Ok(bytes)
}

pub(super) fn check_keys<'a>(keys: impl ExactSizeIterator<Item = &'a String>) -> Result<(), Error> {
    if keys.len() > BATCH_KEYS_MAX {
        let message = format!(
            "{} keys in a batch, and {BATCH_KEYS_MAX} are allowed",
            keys.len()
        );
        return Err(Error::refused(Reason::TooLarge, message, 0, 0));
    }
    keys.map(String::as_str).try_for_each(check_key)
}

pub(super) fn check_batch(items: &[(String, Value)]) -> Result<(), Error> {
    check_keys(items.iter().map(|(key, _)| key))?;
    let mut keys = HashSet::new();
    let mut bytes = 0;
    for (key, value) in items {
        if !keys.insert(key) {
            let message = format!("the key {key:?} occurs twice in a batch");
            return Err(Error::refused(Reason::BadRequest, message, 0, 0));
        }
        bytes += key.len() + check_value(value)?;
    }
    if bytes > BATCH_BYTES_MAX {
        let message = format!("a batch of {bytes} bytes, and {BATCH_BYTES_MAX} are allowed");
        return Err(Error::refused(Reason::TooLarge, message, 0, 0));
    }
    Ok(())
}

/// What a list may still hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) keys: usize,
    pub(super) bytes: u64,
}

impl Room {
    pub(super) const LIST: Self = Self {
        keys: LIST_KEYS_MAX,
        bytes: LIST_BYTES_MAX as u64,
    };

    /// One more key, with a value of this many bytes.
    pub(super) fn take(&mut self, bytes: u64) -> Result<(), Error> {
        match (self.keys.checked_sub(1), self.bytes.checked_sub(bytes)) {
            (Some(keys), Some(bytes)) => {
                *self = Self { keys, bytes };
                Ok(())
            }
            _ => Err(over_long()),
        }
    }
}

/// Of a list that may not be so long.
pub(super) fn over_long() -> Error {
    let message = format!(
        "more than {LIST_KEYS_MAX} keys, or {LIST_BYTES_MAX} bytes of values: list by a longer prefix, or without values"
    );
    Error::refused(Reason::TooLarge, message, 0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use helve_client::ErrorKind;

    #[test]
    fn a_list_may_be_full_and_not_more() {
        let mut room = Room { keys: 2, bytes: 10 };
        room.take(10).unwrap();
        assert_eq!(room.take(1).unwrap_err().kind(), ErrorKind::Invalid);
        room.take(0).unwrap();
        assert_eq!(room.take(0).unwrap_err().kind(), ErrorKind::Invalid);
    }
}
