//! What a file, or an object, holds.

use std::time::{SystemTime, UNIX_EPOCH};

use helve_client::{Error, ErrorKind, Record, extend::decode_value};
use helve_proto::v1::RecordInfo;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

/// A key with its value, as its file or object holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub(super) key: String,
    pub(super) revision: u64,
    pub(super) created_at_ms: u64,
    pub(super) updated_at_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at_ms: Option<u64>,
    pub(super) value: Value,
    /// Whose write it is, where writers cannot shut each other out: two of them may come to the same revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) write: Option<u64>,
}

impl Row {
    #[cfg(feature = "file")]
    pub(super) fn is_live(&self, now_ms: u64) -> bool {
        self.expires_at_ms
            .is_none_or(|deadline_ms| now_ms < deadline_ms)
    }

    pub(super) fn info(&self) -> RecordInfo {
        RecordInfo {
            name: self.key.clone(),
            revision: self.revision,
            created_at_ms: self.created_at_ms,
            updated_at_ms: self.updated_at_ms,
            expires_at_ms: self.expires_at_ms,
            value_bytes: u64::try_from(self.value.to_string().len()).unwrap_or(u64::MAX),
            ..RecordInfo::default()
        }
    }

    pub(super) fn into_record(self) -> Record<Value> {
        Record {
            info: self.info(),
            value: self.value,
        }
    }
}

/// Reads a row, or rows, with values exactly as they were stored.
///
/// # Errors
/// [`Codec`](ErrorKind::Codec) if it is none, or reading would change a value: an editor may have written it.
pub(super) fn read<T: DeserializeOwned>(json: &[u8]) -> Result<T, Error> {
    serde_json::from_value(decode_value(json)?)
        .map_err(|error| Error::new(ErrorKind::Codec, error.to_string()))
}

/// Whole milliseconds of this machine's wall clock.
pub(super) fn now_ms() -> u64 {
    let wall = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)
}
