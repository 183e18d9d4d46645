//! Bodies of JSON that a caller makes up.

use prost::Message as _;
use prost_reflect::{DynamicMessage, Value};
use serde_json::Value as Json;

use super::{
    intake,
    schema::Rpc,
    shape::{self, Excess},
};
use crate::{
    limits::{JSON_NAME_BYTES_MAX, JSON_VALUES_MAX},
    service::failure::Failure,
};

/// Calls whose messages together hold each kind of field of the contract.
const PATHS: [&str; 7] = [
    "/helve.v1.StateService/Store",
    "/helve.v1.StateService/BatchStore",
    "/helve.v1.StateService/BatchRetrieve",
    "/helve.v1.TransactService/Transact",
    "/helve.v1.AccessService/CreateToken",
    "/helve.v1.HandleService/Get",
    "/helve.v1.HandleService/List",
];
/// Bytes of an error: it repeats up to 256 bytes of a caller's text, each of which may be written
/// in six.
const ERROR_BYTES_MAX: usize = 4 << 10;
/// Bytes of the map of a message with one field: it has room for eleven from the first one on.
const FIELDS_BYTES: usize = 11 * (size_of::<u32>() + size_of::<Value>());

/// Charges a body, and decodes it. The first byte says which call it is of.
///
/// # Panics
/// If more is made of it than was charged, a number of it is not read exactly, or its error
/// repeats much of it.
pub fn json_body(bytes: &[u8]) {
    let Some((which, body)) = bytes.split_first() else {
        return;
    };
    let path = PATHS[usize::from(*which) % PATHS.len()];
    let rpc = Rpc::of(path).expect("a call of the contract");
    let charged = match shape::decoded_bytes(body) {
        Ok(charged) => charged,
        Err(excess) => {
            assert_excessive(excess, body);
            return;
        }
    };
    let parsed = serde_json::from_slice::<Json>(body);
    if let Ok(json) = &parsed {
        let values = values(json) * shape::VALUE_BYTES;
        assert!(charged >= body.len() + values, "{charged} for {values}");
    }
    match intake::of_json(&rpc, body) {
        Ok(message) => {
            let made = made(&message);
            assert!(charged >= made, "{charged} for {made}");
            let written = message.encode_to_vec();
            let again = DynamicMessage::decode(rpc.request(), written.as_slice());
            let again = again.expect("it was encoded");
            assert_eq!(again.encode_to_vec(), written);
            // No body is a message without fields.
            assert!(body.is_empty() || parsed.is_ok_and(|json| is_exact(&json)));
        }
        Err(refused) => {
            let is_short = refused.to_string().len() < ERROR_BYTES_MAX;
            let is_malformed = matches!(refused, Failure::Malformed(_));
            assert!(is_malformed && is_short, "{refused}");
        }
    }
}

fn assert_excessive(excess: Excess, body: &[u8]) {
    match excess {
        Excess::Values => {
            let begins_value = |byte: &&u8| matches!(byte, b',' | b'[' | b'{');
            assert!(body.iter().filter(begins_value).count() >= JSON_VALUES_MAX);
        }
        Excess::Name => assert!(body.len() > JSON_NAME_BYTES_MAX),
    }
}

/// Values in a text.
fn values(json: &Json) -> usize {
    match json {
        Json::Array(all) => 1 + all.iter().map(values).sum::<usize>(),
        Json::Object(members) => 1 + members.values().map(values).sum::<usize>(),
        _ => 1,
    }
}

/// Whether each number is an integer.
fn is_exact(json: &Json) -> bool {
    match json {
        Json::Number(number) => {
            let is_whole = |double: f64| double.fract().abs() < f64::EPSILON;
            number.is_u64() || number.is_i64() || number.as_f64().is_some_and(is_whole)
        }
        Json::Array(all) => all.iter().all(is_exact),
        Json::Object(members) => members.values().all(is_exact),
        _ => true,
    }
}

/// Bytes that a message takes up beyond itself, or fewer.
fn made(message: &DynamicMessage) -> usize {
    let mut fields = message.fields().peekable();
    let map = match fields.peek() {
        Some(_) => FIELDS_BYTES,
        None => 0,
    };
    map + fields.map(|(_, value)| made_of(value)).sum::<usize>()
}

fn made_of(value: &Value) -> usize {
    match value {
        Value::String(text) => text.capacity(),
        Value::Bytes(bytes) => bytes.len(),
        Value::Message(message) => made(message),
        Value::List(all) => {
            let each = all.iter().map(made_of).sum::<usize>();
            all.capacity() * size_of::<Value>() + each
        }
        // Numbers have their place in the map of their message, and no request has names of the
        // caller's choice.
        _ => 0,
    }
}
