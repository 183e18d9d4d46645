//! What the tools take: the source of their input schemas.

use std::time::Duration;

use helve_client::Ttl;
use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _},
};
use serde_json::{Number, Value};

use super::error::ToolError;
use crate::schema::integer;

/// Keys in one batch. The cluster takes 128 operations at once, of which a confirmation is one.
pub const BATCH_KEYS_MAX: usize = 100;
/// Keys in one answer of `list`.
pub const LIST_KEYS_MAX: usize = 1000;
/// Characters of what is said about bad arguments: it repeats some of what was sent.
const REASON_CHARS_MAX: usize = 200;

/// What the length of a key counts, said beside `maxLength`, which counts characters.
macro_rules! key_bytes {
    () => {
        "The key: 1 to 1,024 bytes of UTF-8, in which a character takes 1 to 4 bytes."
    };
}

/// Arguments of `retrieve` and `exists`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OneKey {
    #[doc = key_bytes!()]
    #[schemars(length(min = 1, max = 1024))]
    pub(super) key: String,
}

/// Arguments of `delete`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Delete {
    #[doc = key_bytes!()]
    /// It need not exist.
    #[schemars(length(min = 1, max = 1024))]
    pub(super) key: String,
    /// Delete only if the key is at this revision, as another tool told it.
    #[serde(default, deserialize_with = "whole_number")]
    pub(super) if_revision: Option<u64>,
}

/// Arguments of `store`, and one item of `batch_store`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Store {
    #[doc = key_bytes!()]
    /// A convention is parts with `/` between them, such as checkpoints/my-agent/latest.
    #[schemars(length(min = 1, max = 1024))]
    pub(super) key: String,
    /// The value: any JSON, at most 1 MiB as text. It comes back as it is, but for the order of an object's members. A fraction of up to
    /// 17 digits comes back as the same double, in its shortest form. An integer that does not fit 64 bits, and a number that no double
    /// holds, are refused: write them as strings.
    #[serde(deserialize_with = "present")]
    pub(super) value: Value,
    /// How long the key lives from now on, in milliseconds. Without it, `lifetime` says.
    #[schemars(range(min = 1))]
    #[serde(default, deserialize_with = "whole_number")]
    pub(super) ttl_ms: Option<u64>,
    /// How long the key lives if there is no `ttl_ms`: the server's default, for ever, or as long as it would have lived.
    pub(super) lifetime: Option<Lifetime>,
    /// Store only if the key is at this revision, as another tool told it; 0: only if there is no such key.
    #[serde(default, deserialize_with = "whole_number")]
    pub(super) if_revision: Option<u64>,
}

/// A lifetime that is no time.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Lifetime {
    /// What the server gives: for ever, unless its operator says otherwise.
    Default,
    /// For ever.
    Never,
    /// What the key has.
    Keep,
}

impl Store {
    /// How long the key is to live.
    pub(super) fn ttl(&self) -> Result<Ttl, ToolError> {
        match (self.ttl_ms, self.lifetime) {
            (Some(_), Some(_)) => Err(ToolError::bad_argument(
                "ttl_ms and lifetime together: give one of them",
            )),
            (Some(0), None) => Err(ToolError::bad_argument("ttl_ms of 0: at least 1")),
            (Some(ms), None) => Ok(Ttl::After(Duration::from_millis(ms))),
            (None, None | Some(Lifetime::Default)) => Ok(Ttl::Default),
            (None, Some(Lifetime::Never)) => Ok(Ttl::Never),
            (None, Some(Lifetime::Keep)) => Ok(Ttl::Keep),
        }
    }
}

/// Arguments of `batch_store`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BatchStore {
    /// What to store: 1 to 100 items, no key twice, 4 MiB in all.
    #[schemars(length(min = 1, max = 100))]
    pub(super) items: Vec<Store>,
}

/// Arguments of `batch_retrieve`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BatchRetrieve {
    /// The keys: 1 to 100, each of 1 to 1,024 bytes of UTF-8.
    #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 1024)))]
    pub(super) keys: Vec<String>,
}

/// Arguments of `list`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    /// What the keys begin with; empty or left out: all keys.
    #[serde(default)]
    pub(super) prefix: String,
    /// Only keys behind this one, in the order of their bytes: `next` of the answer before, to go on where that ended.
    pub(super) after: Option<String>,
    /// How many keys to answer, 1 to 1,000.
    #[serde(default = "whole_page", deserialize_with = "page")]
    #[schemars(range(min = 1, max = 1000))]
    pub(super) limit: usize,
}

fn whole_page() -> usize {
    LIST_KEYS_MAX
}

fn page<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let limit = integer(&Number::deserialize(deserializer)?).map_err(D::Error::custom)?;
    usize::try_from(limit).map_err(D::Error::custom)
}

fn whole_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let number: Option<Number> = Option::deserialize(deserializer)?;
    let number = number.as_ref().map(integer);
    number.transpose().map_err(D::Error::custom)
}

/// A value that must be there, though it may be null.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    Value::deserialize(deserializer)
}

/// Reads a tool's arguments.
pub(super) fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, ToolError> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| {
        let reason: String = error.to_string().chars().take(REASON_CHARS_MAX).collect();
        ToolError::bad_argument(reason)
    })
}

/// Whether a batch is neither empty nor over its bound.
pub(super) fn check_batch(name: &str, keys: usize) -> Result<(), ToolError> {
    if (1..=BATCH_KEYS_MAX).contains(&keys) {
        return Ok(());
    }
    Err(ToolError::bad_argument(format!(
        "{keys} {name}: 1 to {BATCH_KEYS_MAX} at once"
    )))
}
