//! Values come back as they were stored, or are refused.

use helve_client::{StateTool, v1::StoreRequest};
use proptest::{prelude::*, strategy::ValueTree as _, test_runner::TestRunner};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{
    house::{ASSUMES, House, User},
    wire::{Answer, Post, request},
};

/// A store of JSON text as it is.
async fn store(house: &House, value: &str) -> Answer {
    let post = Post::call("store", &json!({"key": "k", "value": "HERE"}));
    let body = post.body.to_string().replace("\"HERE\"", value);
    request(Method::POST, house.replicas[0], &post.headers, body).await
}

#[tokio::test]
async fn two_thousand_doubles_come_back_to_the_bit() {
    let house = House::open(ASSUMES).await;
    let caller = house.caller(User::Absent).await;
    let mut runner = TestRunner::deterministic();
    let mut doubles = vec![117.633_313_911_400_17, -0.0, 5e-324, f64::MAX, 1e16, 1.0];
    while doubles.len() < 2_000 {
        let bits = any::<u64>().new_tree(&mut runner).unwrap().current();
        doubles.extend(Some(f64::from_bits(bits)).filter(|double| double.is_finite()));
    }
    for some in doubles.chunks(500) {
        let arguments = json!({"key": "k", "value": some});
        let _: Value = caller.done("store", arguments).await;
        let read: Value = caller.done("retrieve", json!({"key": "k"})).await;
        let back = read["value"].as_array().unwrap().iter();
        let back: Vec<u64> = back.map(|one| one.as_f64().unwrap().to_bits()).collect();
        let bits: Vec<u64> = some.iter().map(|one| one.to_bits()).collect();
        assert_eq!(back, bits);
    }
}

#[tokio::test]
async fn values_with_odd_parts_come_back_as_they_are() {
    let house = House::open(ASSUMES).await;
    for value in [
        "18446744073709551615",
        "-9223372036854775808",
        "1.0",
        "1e20",
        "100000000000000000000.0",
        r#""\u0000""#,
        r#"{"":{"\u0000":[null,-0.0]},"b":1,"a":"\ud83d\ude00"}"#,
    ] {
        let stored = store(&house, value).await;
        assert_eq!(stored.body["result"]["isError"], json!(false), "{stored:?}");
        let read = Post::call("retrieve", &json!({"key": "k"}));
        let read = read.send(house.replicas[1]).await;
        let back = &read.body["result"]["structuredContent"]["value"];
        assert_eq!(*back, serde_json::from_str::<Value>(value).unwrap());
    }
}

#[tokio::test]
async fn values_that_would_change_are_refused_with_the_reason() {
    let house = House::open(ASSUMES).await;
    for (value, code, named) in [
        ("18446744073709551616", -32602, "18446744073709551616"),
        ("100000000000000000000", -32602, "with an exponent"),
        (r#"{"a":[-100000000000000000000]}"#, -32602, "as a string"),
        ("-9223372036854775809", -32602, "as a string"),
        ("[3.14159265358979323846264338]", -32602, "as a string"),
        ("1e-400", -32602, "1e-400"),
        (r#"{"a":9007199254740993.0}"#, -32602, "9007199254740993.0"),
        (r#"{"a":{"b":1,"b":2}}"#, -32600, "\"b\" occurs twice"),
        ("1e400", -32700, "out of range"),
        (r#""\ud800""#, -32700, "hex escape"),
    ] {
        let refused = store(&house, value).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{value}");
        assert_eq!(refused.code(), code, "{refused:?}");
        let message = refused.body["error"]["message"].as_str().unwrap();
        assert!(message.contains(named), "{message}");
    }
    let nested = "[".repeat(101) + &"]".repeat(101);
    let refused = store(&house, &nested).await;
    let reason = &refused.body["result"]["_meta"]["helve.v1/reason"];
    assert_eq!(*reason, json!("BAD_ARGUMENT"), "{refused:?}");
    assert_eq!(house.keys().list("").await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn what_another_program_stored_is_shown_exactly_or_not_at_all() {
    let house = House::open(ASSUMES).await;
    let caller = house.caller(User::Absent).await;
    let put = async |text: &'static str| {
        let request = StoreRequest {
            key: "k".to_owned(),
            value: text.into(),
            ..StoreRequest::default()
        };
        house.client.call(request).await.unwrap();
    };
    // As a former version stored it.
    put("100000000000000000000").await;
    let read: Value = caller.done("retrieve", json!({"key": "k"})).await;
    assert_eq!(read["value"], json!(1e20));
    assert_eq!(house.keys().retrieve("k").await.unwrap(), Some(json!(1e20)));
    for text in [
        "18446744073709551616",
        r#"{"a":1,"a":2}"#,
        "[1e-999]",
        "[9007199254740993.0]",
    ] {
        put(text).await;
        let refused = caller.refused("retrieve", json!({"key": "k"})).await;
        assert_eq!(refused.reason, "NOT_EXACT", "{text}: {}", refused.text);
        assert!(house.keys().retrieve("k").await.is_err(), "{text}");
    }
}

#[tokio::test]
async fn a_batch_is_measured_by_its_text_however_it_is_escaped() {
    let house = House::open(ASSUMES).await;
    let post = Post::call("batch_store", &json!({"items": "HERE"}));
    let items: Vec<String> = (0..4)
        .map(|at| {
            let value = "\\u0061".repeat(1_040_000);
            format!(r#"{{"key":"k{at}","value":"{value}"}}"#)
        })
        .collect();
    let body = post
        .body
        .to_string()
        .replace("\"HERE\"", &format!("[{}]", items.join(",")));
    let stored = request(Method::POST, house.replicas[0], &post.headers, body).await;
    assert_eq!(stored.body["result"]["isError"], json!(false), "{stored:?}");
    for keys in [vec!["k0", "k1", "k2"], vec!["k0"; 100]] {
        let read = Post::call("batch_retrieve", &json!({"keys": keys}));
        let read = read.send(house.replicas[0]).await;
        let reason = &read.body["result"]["_meta"]["helve.v1/reason"];
        assert_eq!(*reason, json!("TOO_LARGE"), "{} keys", keys.len());
    }
}
