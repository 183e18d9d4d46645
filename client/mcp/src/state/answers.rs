//! What the tools answer: the source of their output schemas.

use helve_client::RecordInfo;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is known of a key, apart from its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyInfo {
    /// The key.
    pub key: String,
    /// Changes with every change of the value, and only grows: give it as `if_revision` to change what was read, and nothing newer.
    pub revision: u64,
    /// When the key was created, in milliseconds since the Unix epoch.
    pub created_at_ms: u64,
    /// When its value was last changed, in milliseconds since the Unix epoch.
    pub updated_at_ms: u64,
    /// When it expires unless it is used, in milliseconds since the Unix epoch; left out: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<u64>,
    /// Size of the value in bytes.
    pub value_bytes: u64,
}

impl From<RecordInfo> for KeyInfo {
    fn from(info: RecordInfo) -> Self {
        let deadlines = info.expires_at_ms.into_iter().chain(info.idle_deadline_ms);
        Self {
            expires_at_ms: deadlines.min(),
            key: info.name,
            revision: info.revision,
            created_at_ms: info.created_at_ms,
            updated_at_ms: info.updated_at_ms,
            value_bytes: info.value_bytes,
        }
    }
}

/// What a store did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// There was no such key before.
    Created,
    /// The value was replaced.
    Replaced,
}

/// Answer of `store`, and one item of that of `batch_store`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stored {
    /// Whether the key is new.
    pub status: Status,
    /// The key as it is now.
    #[serde(flatten)]
    pub info: KeyInfo,
}

/// Answer of `batch_store`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoredBatch {
    /// One for each item, in order. All have the same revision.
    pub stored: Vec<Stored>,
}

/// A key that was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Retrieved {
    /// The key that was asked for.
    pub key: String,
    /// Whether there is such a key.
    pub found: bool,
    /// Its value; left out if there is no such key.
    #[serde(
        default,
        deserialize_with = "some",
        skip_serializing_if = "Option::is_none"
    )]
    pub value: Option<Value>,
    /// What else is known of it; left out if there is no such key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub info: Option<KeyInfo>,
}

/// A value that is there, though it may be null.
fn some<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Answer of `batch_retrieve`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RetrievedBatch {
    /// One for each key that was asked for, in order, all as of one moment.
    pub keys: Vec<Retrieved>,
}

/// Answer of `exists`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Existence {
    /// The key.
    pub key: String,
    /// Whether there is such a key.
    pub exists: bool,
}

/// Answer of `delete`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Deleted {
    /// The key. There is no such key now.
    pub key: String,
    /// Whether there was one.
    pub existed: bool,
}

/// Answer of `list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Listed {
    /// The keys, in the order of their bytes, all as of one moment.
    pub keys: Vec<KeyInfo>,
    /// The revision of that moment: what changed later has a higher one.
    pub revision: u64,
    /// Left out if these are all; else pass it as `after` to go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
