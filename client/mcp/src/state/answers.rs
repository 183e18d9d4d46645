//! What the tools answer: the source of their output schemas.

use helve_client::RecordInfo;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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

impl Retrieved {
    /// Its JSON. The value is moved there, not copied: it may take up much.
    ///
    /// # Errors
    /// If it has none.
    pub(super) fn into_json(mut self) -> serde_json::Result<Value> {
        let value = self.value.take();
        let mut json = serde_json::to_value(self)?;
        if let Some(value) = value {
            json["value"] = value;
        }
        Ok(json)
    }
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

impl RetrievedBatch {
    /// Its JSON, as that of [`Retrieved`].
    ///
    /// # Errors
    /// If it has none.
    pub(super) fn into_json(self) -> serde_json::Result<Value> {
        let keys = self.keys.into_iter().map(Retrieved::into_json);
        let keys: Vec<Value> = keys.collect::<Result<_, _>>()?;
        let members = [("keys".to_owned(), Value::Array(keys))];
        Ok(Value::Object(Map::from_iter(members)))
    }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_moved_to_where_they_would_be_copied() {
        let info = KeyInfo {
            key: "k".to_owned(),
            revision: 3,
            created_at_ms: 1,
            updated_at_ms: 2,
            expires_at_ms: None,
            value_bytes: 4,
        };
        let found = |value| Retrieved {
            key: "k".to_owned(),
            found: true,
            value: Some(value),
            info: Some(info.clone()),
        };
        let missing = Retrieved {
            key: "m".to_owned(),
            found: false,
            value: None,
            info: None,
        };
        let keys = vec![found(json!({"a": [1]})), found(Value::Null), missing];
        for one in &keys {
            let copied = serde_json::to_value(one).unwrap();
            assert_eq!(one.clone().into_json().unwrap(), copied);
        }
        let batch = RetrievedBatch { keys };
        let copied = serde_json::to_value(&batch).unwrap();
        assert_eq!(batch.into_json().unwrap(), copied);
    }
}
