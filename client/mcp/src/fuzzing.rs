//! What fuzz targets call, in builds for tests and fuzzing alone. Each function takes bytes that a
//! client, an issuer of tokens or an operator wrote, and panics if they are taken for what they are
//! not.

use serde_json::Value;

pub use crate::{
    bearer::fuzzing::{bearer_token, key_file, key_set},
    state::fuzzing::{confirmation, tool_arguments},
};
use crate::{
    browser,
    tasks::{TASK_IDS_MAX, named_tasks},
    wire::{
        envelope::{Envelope, id_at_end},
        message,
        weight::{parsed_bytes, weigh},
    },
};

/// The one origin whose pages may call.
const ALLOWED: &str = "https://app.example";
/// Bytes of an error.
const ERROR_BYTES_MAX: usize = 400;

/// Reads a message of JSON-RPC, its envelope, and the tasks that it names.
///
/// # Panics
/// If its id is another one than JSON says, the error about it is long, or it takes up more than it
/// weighs.
pub fn rpc_message(bytes: &[u8]) {
    assert_weighed(bytes);
    let envelope = Envelope::of(bytes);
    let _scalar_or_null = id_at_end(bytes);
    assert!(named_tasks(bytes).len() <= TASK_IDS_MAX);
    match message::read(bytes) {
        Ok(_) => {
            // What passed has no name twice, so that any parser reads the same.
            let whole: Value = serde_json::from_slice(bytes).expect("it was read");
            let is_integer = |id: &&Value| id.is_string() || id.is_i64();
            let id = whole.get("id").filter(is_integer);
            // A whole number may be written with a point: then the id is its integer.
            let is_double = whole.get("id").is_some_and(Value::is_f64);
            if !is_double && id.is_none_or(|id| id.to_string().len() < ERROR_BYTES_MAX) {
                assert_eq!(&envelope.id, id.unwrap_or(&Value::Null));
            }
            assert_eq!(envelope.has_method, whole.get("method").is_some());
        }
        Err(refused) => {
            let answer = refused.answer(&refused.envelope.id);
            let message = answer["error"]["message"].as_str();
            assert!(message.is_some_and(|message| message.len() < ERROR_BYTES_MAX));
            assert_eq!(answer["id"], envelope.id);
        }
    }
}

fn assert_weighed(bytes: &[u8]) {
    let weight = parsed_bytes(bytes);
    match weigh(bytes) {
        Ok(weighed) => assert_eq!(weighed, weight),
        Err(refused) => assert!(refused.is_too_large()),
    }
    if let Ok(parsed) = serde_json::from_slice::<Value>(bytes) {
        let made = made(&parsed);
        assert!(weight >= made, "{weight} for {made}");
    }
}

/// Bytes that a parsed text takes up, or fewer.
fn made(value: &Value) -> usize {
    let beyond = match value {
        Value::String(text) => text.capacity(),
        Value::Array(all) => {
            let places = all.capacity() - all.len();
            places * size_of::<Value>() + all.iter().map(made).sum::<usize>()
        }
        Value::Object(members) => {
            let each = members.iter().map(|(name, value)| name.len() + made(value));
            // A map has room for eleven members from the first one on.
            let places = (11 - members.len().min(11)) * usize::from(!members.is_empty());
            let names = members.len() * size_of::<String>();
            names + places * size_of::<(String, Value)>() + each.sum::<usize>()
        }
        _ => 0,
    };
    size_of::<Value>() + beyond
}

/// Checks the `Origin` of a page.
///
/// # Panics
/// If a page of another origin may call.
pub fn page_origin(bytes: &[u8]) {
    if browser::admits(ALLOWED, bytes) {
        let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
        let host = text.trim().strip_prefix("https://");
        assert!(
            host.is_some_and(|host| host.contains("app.example")),
            "{text}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds;

    #[test]
    fn seeds_of_each_target_hold() {
        seeds::each("rpc_message", rpc_message);
        seeds::each("page_origin", page_origin);
        seeds::each("bearer_token", bearer_token);
        seeds::each("key_set", key_set);
        seeds::each("key_file", key_file);
        seeds::each("tool_arguments", tool_arguments);
        seeds::each("confirmation", confirmation);
    }
}
