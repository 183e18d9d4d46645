//! Requests that a client makes up: each is answered as the protocol has it, none stores anything, and the server serves on.

use std::time::Duration;

use helve_client::StateTool;
use proptest::prelude::*;
use reqwest::StatusCode;
use serde_json::{Map, Value, json};

use crate::{
    house::{House, READS},
    properties::check,
    wire::Post,
};

/// Ample, for slow machines.
const PATIENCE: Duration = Duration::from_secs(60);
const INTERNAL_ERROR: i64 = -32603;

/// A body, and what the headers say of it.
#[derive(Debug, Clone)]
struct MadeUp {
    body: Vec<u8>,
    headers: Vec<(&'static str, String)>,
}

#[test]
fn requests_that_a_client_makes_up_are_answered_and_store_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let house = runtime.block_on(House::open(READS));
    let http = reqwest::Client::builder()
        .no_proxy()
        .timeout(PATIENCE)
        .build()
        .unwrap();
    let url = format!("http://{}/mcp", house.replicas[0]);
    let send = |made_up: &MadeUp| {
        let mut request = http.post(&url).body(made_up.body.clone());
        for (name, value) in &made_up.headers {
            request = request.header(*name, value);
        }
        runtime.block_on(async {
            let answer = request.send().await.unwrap();
            (answer.status(), answer.bytes().await.unwrap())
        })
    };
    check(&made_up(), |made_up| {
        let (status, body) = send(&made_up);
        prop_assert!(!status.is_server_error(), "{status}: {body:?}");
        if let Ok(Value::Object(answer)) = serde_json::from_slice(&body) {
            let code = answer.get("error").and_then(|error| error["code"].as_i64());
            prop_assert_ne!(code, Some(INTERNAL_ERROR), "{:?}", answer);
        }
        Ok(())
    });
    let stored = runtime.block_on(house.keys().list("")).unwrap();
    assert!(stored.is_empty(), "{stored:?}");
    let good = Post::call("exists", &json!({"key": "k"}));
    let (status, _) = send(&MadeUp {
        body: good.body.to_string().into_bytes(),
        headers: good.headers,
    });
    assert_eq!(status, StatusCode::OK, "it serves on");
}

fn made_up() -> impl Strategy<Value = MadeUp> {
    let bytes = prop::collection::vec(any::<u8>(), 0..200);
    let body = prop_oneof![
        bytes,
        json_value().prop_map(|value| value.to_string().into_bytes()),
        request().prop_map(|value| value.to_string().into_bytes()),
    ];
    let right = Post::call("store", &json!({})).headers;
    let headers = right.into_iter().map(|(name, value)| {
        prop_oneof![
            4 => Just(Some((name, value))),
            1 => Just(None),
            1 => "[ -~]{0,12}|tools/list|retrieve|2025-11-25".prop_map(move |other| Some((name, other))),
        ]
    });
    let headers: Vec<_> = headers.collect();
    (body, headers).prop_map(|(body, headers)| MadeUp {
        body,
        headers: headers.into_iter().flatten().collect(),
    })
}

/// What has a request's form, with parts that belong there and parts that do not.
fn request() -> impl Strategy<Value = Value> {
    let method = "tools/call|tools/list|server/discover|ping|initialize|prompts/get|resources/read|notifications/cancelled|\\PC{0,8}";
    let tool = "store|delete|batch_store|retrieve|list|exists|\\PC{0,6}";
    let meta = prop_oneof![
        json_value(),
        Just(Post::method("ping", json!({})).body["params"]["_meta"].clone()),
    ];
    let params = (tool, json_value(), meta, json_value()).prop_map(
        |(name, arguments, meta, state)| json!({"name": name, "arguments": arguments, "_meta": meta, "requestState": state}),
    );
    let params = prop_oneof![3 => params, 1 => json_value()];
    (method, json_value(), params)
        .prop_map(|(method, id, params)| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let name = "key|keys|value|items|prefix|limit|\\PC{0,4}";
        let fields = prop::collection::btree_map(name, inner.clone(), 0..4);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            fields.prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}
