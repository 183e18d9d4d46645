//! The form of requests and answers: what a client may send in several ways, and what schemas and errors look like.

use helve_client::StateTool;
use helve_mcp::{
    cart::{CartServer, Settings},
    serve::{Access, router},
};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{
    house::{ASSUMES, House, memory},
    wire::{Post, request},
};

async fn tools(house: &House) -> Vec<Value> {
    let answer = Post::method("tools/list", json!({}))
        .send(house.replicas[0])
        .await;
    answer.body["result"]["tools"].as_array().unwrap().clone()
}

/// A cart server whose callers share all carts.
async fn carts() -> House {
    let client = memory();
    House::of(&client, |shutdown| {
        let server = CartServer::new(client.clone(), Settings::shared());
        router(server, &Access::default(), shutdown)
    })
    .await
}

/// Every schema of an integer within another one.
fn integers(schema: &Value, found: &mut Vec<Value>) {
    let is_integer = match &schema["type"] {
        Value::Array(types) => types.contains(&json!("integer")),
        one => *one == "integer",
    };
    if is_integer {
        found.push(schema.clone());
    }
    match schema {
        Value::Object(members) => members.values().for_each(|inner| integers(inner, found)),
        Value::Array(items) => items.iter().for_each(|inner| integers(inner, found)),
        _ => {}
    }
}

#[tokio::test]
async fn cursor_of_a_list_of_one_page_is_refused() {
    for house in [House::open(ASSUMES).await, carts().await] {
        let list = Post::method("tools/list", json!({"cursor": "made up"}));
        let answer = list.send(house.replicas[0]).await;
        assert_eq!(answer.code(), -32602, "{answer:?}");
    }
}

#[tokio::test]
async fn schemas_say_bounds_in_words_of_json_schema() {
    let (state, cart) = (House::open(ASSUMES).await, carts().await);
    for house in [&state, &cart] {
        let mut found = Vec::new();
        for tool in tools(house).await {
            integers(&tool["inputSchema"], &mut found);
            integers(&tool["outputSchema"], &mut found);
        }
        assert!(found.len() > 5, "{found:?}");
        for schema in found {
            assert_eq!(schema.get("format"), None, "{schema}");
            assert!(schema["minimum"].is_number(), "{schema}");
        }
    }
    let tools = tools(&state).await;
    let input =
        |name: &str| &tools.iter().find(|tool| tool["name"] == name).unwrap()["inputSchema"];
    let key = &input("retrieve")["properties"]["key"];
    assert_eq!(
        (&key["minLength"], &key["maxLength"]),
        (&json!(1), &json!(1024))
    );
    assert!(
        key["description"]
            .as_str()
            .unwrap()
            .contains("bytes of UTF-8"),
        "{key}"
    );
    let keys = &input("batch_retrieve")["properties"]["keys"];
    assert_eq!(keys["items"]["maxLength"], json!(1024), "{keys}");
}

#[tokio::test]
async fn an_integer_argument_may_be_written_as_a_double() {
    let house = House::open(ASSUMES).await;
    let calls = [
        (
            "store",
            json!({"key": "k", "value": 1, "ttl_ms": 1e5, "if_revision": 0.0}),
        ),
        ("list", json!({"limit": 10.0})),
    ];
    for (tool, arguments) in calls {
        let answer = Post::call(tool, &arguments).send(house.replicas[0]).await;
        assert_eq!(answer.body["result"]["isError"], json!(false), "{answer:?}");
    }
    for limit in [json!(10.5), json!(-1.0), json!("10")] {
        let answer = Post::call("list", &json!({"limit": limit}))
            .send(house.replicas[0])
            .await;
        let reason = &answer.body["result"]["_meta"]["helve.v1/reason"];
        assert_eq!(*reason, json!("BAD_ARGUMENT"), "{limit}");
    }
}

#[tokio::test]
async fn whatever_accepts_json_is_answered() {
    let house = House::open(ASSUMES).await;
    let exists = || Post::call("exists", &json!({"key": "k"})).without("accept");
    assert_eq!(
        exists().send(house.replicas[0]).await.status,
        StatusCode::OK
    );
    for accept in [
        "*/*",
        "application/*",
        "application/json",
        "text/html, */*;q=0.1",
    ] {
        let answer = exists()
            .with("accept", accept)
            .send(house.replicas[0])
            .await;
        assert_eq!(answer.status, StatusCode::OK, "{accept}");
        assert_eq!(answer.content_type.as_deref(), Some("application/json"));
    }
    for accept in ["text/html", "application/json;q=0, */*"] {
        let answer = exists()
            .with("accept", accept)
            .send(house.replicas[0])
            .await;
        assert_eq!(answer.status, StatusCode::NOT_ACCEPTABLE, "{accept}");
        assert!(answer.content_type.is_some());
        // JSON alone is enough.
        let why = answer.body.as_str().unwrap();
        assert!(why.contains("application/json"), "{why}");
        assert!(!why.contains("text/event-stream"), "{why}");
    }
}

#[tokio::test]
async fn undeclared_methods_and_malformed_parameters_are_told_apart() {
    for house in [House::open(ASSUMES).await, carts().await] {
        undeclared_methods_are_not_found(&house).await;
    }
    let house = House::open(ASSUMES).await;
    for (method, params) in [
        ("tools/call", json!({"name": 1})),
        ("tools/call", json!({})),
        ("tools/call", json!({"name": "store", "arguments": [1]})),
        ("tools/call", json!({"name": "store", "arguments": "k"})),
        ("tools/list", json!({"cursor": 1})),
        ("tools/list", json!({"cursor": {}})),
        ("subscriptions/listen", json!({"notifications": 1})),
    ] {
        let post = Post::method(method, params.clone());
        let name = params["name"].as_str().unwrap_or("n").to_owned();
        let answer = post.with("mcp-name", &name).send(house.replicas[0]).await;
        assert_eq!(answer.code(), -32602, "{method} {params}: {answer:?}");
        assert_eq!(answer.content_type.as_deref(), Some("application/json"));
    }
}

async fn undeclared_methods_are_not_found(house: &House) {
    for method in [
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "resources/subscribe",
        "completion/complete",
        "logging/setLevel",
        "tasks/get",
        "no/such/method",
    ] {
        let post = Post::method(method, json!({"name": "n", "uri": "u:n"})).with(
            "mcp-name",
            match method {
                "resources/read" | "resources/subscribe" => "u:n",
                _ => "n",
            },
        );
        let answer = post.send(house.replicas[0]).await;
        let found = (answer.status, answer.code());
        assert_eq!(
            found,
            (StatusCode::NOT_FOUND, -32601),
            "{method}: {answer:?}"
        );
        assert_eq!(answer.content_type.as_deref(), Some("application/json"));
    }
}

#[tokio::test]
async fn every_refusal_has_a_content_type() {
    let house = House::open(ASSUMES).await;
    let good = Post::call("store", &json!({"key": "k", "value": 1}));
    let send = |method: Method, post: Post, body: Vec<u8>| {
        let address = house.replicas[0];
        async move { request(method, address, &post.headers, body).await }
    };
    let body = good.body.to_string().into_bytes();
    let answers = [
        send(Method::GET, good.clone(), Vec::new()).await,
        send(Method::DELETE, good.clone(), Vec::new()).await,
        send(
            Method::POST,
            good.clone().with("host", "evil.example"),
            body.clone(),
        )
        .await,
        send(
            Method::POST,
            good.clone().with("content-type", "text/plain"),
            body.clone(),
        )
        .await,
        send(Method::POST, good.clone(), b"\"\xff\"".to_vec()).await,
        send(Method::POST, good.clone(), b"\xef\xbb\xbf{".to_vec()).await,
    ];
    for answer in &answers {
        assert!(answer.status.is_client_error(), "{answer:?}");
        assert!(answer.content_type.is_some(), "{answer:?}");
    }
    assert_eq!(house.keys().list("").await.unwrap(), [""; 0]);
    let with_mark = [b"\xef\xbb\xbf", &body[..]].concat();
    let answer = send(Method::POST, good, with_mark).await;
    assert_eq!(
        answer.status,
        StatusCode::OK,
        "a mark is no part of the text"
    );
}
