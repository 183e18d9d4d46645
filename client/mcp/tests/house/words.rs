//! Arguments of the tools, and refusals, as the tests spell them.

use helve_mcp::flow::CallError;
use rmcp::model::JsonObject;
use serde_json::{Value, json};

pub(crate) fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is no object"),
    }
}

pub(crate) fn id(cart_id: &str) -> JsonObject {
    object(json!({"cart_id": cart_id}))
}

pub(crate) fn item(cart_id: &str, line_id: &str, quantity: u32) -> JsonObject {
    object(json!({
        "cart_id": cart_id, "line_id": line_id, "sku": "tea",
        "quantity": quantity, "unit_price_cents": 250,
    }))
}

pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T, CallError>) -> (String, String) {
    match result {
        Err(CallError::Refused { reason, message }) => (reason, message),
        other => panic!("expected a tool error, got {other:?}"),
    }
}
