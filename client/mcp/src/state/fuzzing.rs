//! Arguments of tools, and answers of users, that a client makes up.

use helve_client::exact;
use rmcp::model::{InputResponses, JsonObject};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    arguments::{BatchRetrieve, BatchStore, Delete, List, OneKey, Store, read},
    change::Consent,
    confirm::consent,
    error::ToolError,
};

/// Reads the arguments of each tool.
///
/// # Panics
/// If a value or key is read that was not sent, or an error is long.
pub fn tool_arguments(bytes: &[u8]) {
    let Ok(sent) = exact::parse::<JsonObject>(bytes) else {
        return;
    };
    if let Some(store) = taken::<Store>(&sent) {
        assert_stored(&store, &sent);
    }
    if let Some(one) = taken::<OneKey>(&sent) {
        assert_eq!(Value::from(sent.clone()), json!({"key": one.key}));
    }
    if let Some(delete) = taken::<Delete>(&sent) {
        assert_eq!(Some(&json!(delete.key)), sent.get("key"));
    }
    if let Some(batch) = taken::<BatchRetrieve>(&sent) {
        assert_eq!(Value::from(sent.clone()), json!({"keys": batch.keys}));
    }
    if let Some(list) = taken::<List>(&sent) {
        let prefix = sent.get("prefix").and_then(Value::as_str);
        assert_eq!(list.prefix, prefix.unwrap_or_default());
    }
    if let Some(batch) = taken::<BatchStore>(&sent) {
        let items = sent.get("items").and_then(Value::as_array);
        let items = items.expect("only a list is a list of items");
        assert_eq!(batch.items.len(), items.len());
        for (store, item) in batch.items.iter().zip(items) {
            assert_stored(store, item.as_object().expect("only objects are items"));
        }
    }
}

fn taken<T: DeserializeOwned>(sent: &JsonObject) -> Option<T> {
    match read(sent.clone()) {
        Ok(arguments) => Some(arguments),
        Err(ToolError::BadArgument { message }) => {
            assert!(message.chars().count() <= 200, "{message}");
            None
        }
        Err(other) => panic!("{other}"),
    }
}

fn assert_stored(store: &Store, sent: &JsonObject) {
    assert_eq!(Some(&json!(store.key)), sent.get("key"));
    assert_eq!(Some(&store.value), sent.get("value"));
    for (name, read) in [("ttl_ms", store.ttl_ms), ("if_revision", store.if_revision)] {
        match sent.get(name) {
            None | Some(Value::Null) => assert_eq!(read, None),
            Some(Value::Number(number)) => {
                assert_eq!(read, crate::schema::integer(number).ok());
                assert!(read.is_some(), "{number}");
            }
            Some(other) => panic!("{name}: {other}"),
        }
    }
    let is_contradictory = store.ttl_ms.is_some() && store.lifetime.is_some();
    assert_eq!(
        store.ttl().is_err(),
        is_contradictory || store.ttl_ms == Some(0)
    );
}

/// Reads a user's answer, and behind the first line end the state that came with it.
///
/// # Panics
/// If anything but a plain yes counts as consent.
pub fn confirmation(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |byte| *byte == b'\n');
    let answer = exact::parse::<Value>(parts.next().unwrap_or_default());
    let Ok(answer) = answer else { return };
    let state = parts
        .next()
        .and_then(|state| std::str::from_utf8(state).ok());
    let responses = InputResponses::from([("confirm".to_owned(), answer.clone())]);
    if let Ok(Consent::Given(revisions)) = consent(state, Some(&responses)) {
        let is_yes = answer["action"] == "accept" && answer["content"]["confirm"] == json!(true);
        assert!(is_yes, "{answer}");
        let stated = serde_json::from_str::<Vec<u64>>(state.expect("there was one"));
        assert_eq!(stated.ok(), Some(revisions));
    }
}
