//! Whatever a client makes up as a tool's arguments, or as its user's answer, is refused or means what it says.

use proptest::prelude::*;
use rmcp::model::{InputResponses, JsonObject};
use serde_json::{Value, json};

use super::{
    arguments::{BatchRetrieve, BatchStore, Delete, List, OneKey, Store, read},
    change::Consent,
    confirm::consent,
    error::ToolError,
};
use crate::properties::check;

/// JSON as it may stand in a request: now and then what belongs there, mostly not.
fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}|keep|never|default|accept|decline|confirm".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            fields(inner).prop_map(Value::Object),
        ]
    })
}

/// Fields that tools know, and some that none does.
fn fields(value: impl Strategy<Value = Value>) -> impl Strategy<Value = JsonObject> {
    let name = "key|keys|value|items|ttl_ms|lifetime|if_revision|prefix|after|limit|action|content|confirm|\\PC{0,6}";
    prop::collection::btree_map(name, value, 0..6).prop_map(|fields| fields.into_iter().collect())
}

/// What was read of these arguments; a refusal is short, and of the one kind.
fn taken<T: serde::de::DeserializeOwned>(sent: &JsonObject) -> Result<Option<T>, TestCaseError> {
    match read(sent.clone()) {
        Ok(arguments) => Ok(Some(arguments)),
        Err(ToolError::BadArgument { message }) => {
            prop_assert!(message.chars().count() <= 200, "{message}");
            Ok(None)
        }
        Err(other) => Err(TestCaseError::fail(other.to_string())),
    }
}

fn is_of(sent: &JsonObject, known: &[&str]) -> bool {
    sent.keys().all(|name| known.contains(&name.as_str()))
}

fn is_stored(store: &Store, sent: &JsonObject) -> Result<(), TestCaseError> {
    let known = ["key", "value", "ttl_ms", "lifetime", "if_revision"];
    prop_assert!(is_of(sent, &known), "{sent:?}");
    prop_assert_eq!(Some(&json!(store.key)), sent.get("key"));
    prop_assert_eq!(Some(&store.value), sent.get("value"));
    // No number is made of what is none, and an integer may be written as a double.
    for (name, read) in [("ttl_ms", store.ttl_ms), ("if_revision", store.if_revision)] {
        match sent.get(name) {
            None | Some(Value::Null) => prop_assert_eq!(read, None),
            Some(Value::Number(number)) => {
                prop_assert_eq!(read, crate::schema::integer(number).ok());
                prop_assert!(read.is_some(), "{}", number);
            }
            Some(other) => return Err(TestCaseError::fail(format!("{name}: {other}"))),
        }
    }
    let is_contradictory = store.ttl_ms.is_some() && store.lifetime.is_some();
    prop_assert_eq!(
        store.ttl().is_err(),
        is_contradictory || store.ttl_ms == Some(0)
    );
    Ok(())
}

#[test]
fn arguments_that_a_client_makes_up_are_refused_or_taken_at_their_word() {
    check(&fields(json()), |sent| {
        if let Some(store) = taken::<Store>(&sent)? {
            is_stored(&store, &sent)?;
        }
        if let Some(one) = taken::<OneKey>(&sent)? {
            prop_assert_eq!(Value::from(sent.clone()), json!({"key": one.key}));
        }
        if let Some(delete) = taken::<Delete>(&sent)? {
            prop_assert!(is_of(&sent, &["key", "if_revision"]));
            prop_assert_eq!(Some(&json!(delete.key)), sent.get("key"));
            let revision = sent.get("if_revision").and_then(|revision| match revision {
                Value::Number(number) => crate::schema::integer(number).ok(),
                _ => None,
            });
            prop_assert_eq!(delete.if_revision, revision);
        }
        if let Some(batch) = taken::<BatchRetrieve>(&sent)? {
            prop_assert_eq!(Value::from(sent.clone()), json!({"keys": batch.keys}));
        }
        if let Some(list) = taken::<List>(&sent)? {
            prop_assert!(is_of(&sent, &["prefix", "after", "limit"]));
            let prefix = sent
                .get("prefix")
                .map_or("", |prefix| prefix.as_str().unwrap_or("?"));
            prop_assert_eq!(list.prefix, prefix);
        }
        Ok(())
    });
}

#[test]
fn batches_that_a_client_makes_up_are_refused_or_taken_at_their_word() {
    let items = prop::collection::vec(
        prop_oneof![
            ("[a-z/]{1,8}", json()).prop_map(|(key, value)| json!({"key": key, "value": value})),
            fields(json()).prop_map(Value::Object),
            json(),
        ],
        0..4,
    );
    check(&items, |items| {
        let sent = JsonObject::from_iter([("items".to_owned(), json!(items))]);
        let Some(batch) = taken::<BatchStore>(&sent)? else {
            return Ok(());
        };
        prop_assert_eq!(batch.items.len(), items.len());
        for (store, item) in batch.items.iter().zip(&items) {
            let item = item.as_object();
            is_stored(store, item.expect("only objects are items"))?;
        }
        Ok(())
    });
}

#[test]
fn an_answer_that_a_client_makes_up_is_a_yes_only_if_it_says_so() {
    let answer = prop_oneof![
        json(),
        fields(json()).prop_map(Value::Object),
        (json(), json()).prop_map(
            |(action, confirm)| json!({"action": action, "content": {"confirm": confirm}})
        ),
        any::<bool>().prop_map(|yes| json!({"action": "accept", "content": {"confirm": yes}})),
    ];
    let state = prop_oneof![
        Just(None),
        "\\PC{0,12}".prop_map(Some),
        prop::collection::vec(any::<u64>(), 0..4).prop_map(|list| Some(json!(list).to_string())),
    ];
    check(&(answer, state), |(answer, state)| {
        let responses = InputResponses::from([("confirm".to_owned(), answer.clone())]);
        let is_yes = answer["action"] == "accept" && answer["content"]["confirm"] == json!(true);
        if let Ok(Consent::Given(revisions)) = consent(state.as_deref(), Some(&responses)) {
            prop_assert!(is_yes, "{answer}");
            let stated: Vec<u64> = serde_json::from_str(&state.expect("there was one"))
                .expect("it is a list of revisions");
            prop_assert_eq!(revisions, stated);
        }
        Ok(())
    });
}
