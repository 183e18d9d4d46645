//! Plain HTTP, as no well-behaved client sends it: what the specification names for each, and nothing stored.

use std::net::SocketAddr;

use helve_client::StateTool;
use helve_mcp::serve::BODY_BYTES_MAX;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::house::{ASSUMES, House};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// A request, which tests spoil.
#[derive(Clone)]
pub(crate) struct Post {
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Value,
}

/// What came back.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) session: Option<String>,
    pub(crate) content_type: Option<String>,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn code(&self) -> i64 {
        self.body["error"]["code"].as_i64().unwrap_or_default()
    }
}

impl Post {
    /// A call of a tool, as protocol 2026-07-28 wants it.
    pub(crate) fn call(tool: &str, arguments: &Value) -> Self {
        let params = json!({"name": tool, "arguments": arguments});
        let mut post = Self::method("tools/call", params);
        post.headers.push(("mcp-name", tool.to_owned()));
        post
    }

    /// A request of a method.
    pub(crate) fn method(method: &str, mut params: Value) -> Self {
        params["_meta"] =
            json!({VERSION: "2026-07-28", CAPABILITIES: {"elicitation": {"form": {}}}});
        Self {
            headers: vec![
                ("content-type", "application/json".to_owned()),
                ("accept", "application/json, text/event-stream".to_owned()),
                ("mcp-protocol-version", "2026-07-28".to_owned()),
                ("mcp-method", method.to_owned()),
            ],
            body: json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}),
        }
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(other, _)| *other != name);
        self
    }

    pub(crate) fn with(self, name: &'static str, value: &str) -> Self {
        let mut post = self.without(name);
        post.headers.push((name, value.to_owned()));
        post
    }

    pub(crate) fn meta(mut self, name: &str, value: Value) -> Self {
        let meta = self.body["params"]["_meta"].as_object_mut().unwrap();
        if value.is_null() {
            meta.remove(name);
        } else {
            meta.insert(name.to_owned(), value);
        }
        self
    }

    pub(crate) fn param(mut self, name: &str, value: Value) -> Self {
        self.body["params"][name] = value;
        self
    }

    pub(crate) async fn send(&self, address: SocketAddr) -> Answer {
        request(Method::POST, address, &self.headers, self.body.to_string()).await
    }
}

pub(crate) async fn request(
    method: Method,
    address: SocketAddr,
    headers: &[(&'static str, String)],
    body: impl Into<reqwest::Body>,
) -> Answer {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut request = http
        .request(method, format!("http://{address}/mcp"))
        .body(body);
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let response = request.send().await.unwrap();
    let header = |name| {
        let value = response.headers().get(name)?;
        Some(value.to_str().unwrap().to_owned())
    };
    let (session, content_type) = (header("mcp-session-id"), header("content-type"));
    let status = response.status();
    let text = response.text().await.unwrap();
    // Sessions are answered by an event stream; its last event is the answer.
    let mut events = text.lines().filter_map(|line| line.strip_prefix("data:"));
    let text = events.next_back().unwrap_or(&text).trim().to_owned();
    Answer {
        status,
        session,
        content_type,
        body: serde_json::from_str(&text).unwrap_or(Value::String(text)),
    }
}

fn store() -> Post {
    Post::call("store", &json!({"key": "k", "value": 1}))
}

#[tokio::test]
async fn headers_and_meta_that_are_missing_or_do_not_match_are_refused_as_the_specification_says() {
    let house = House::open(ASSUMES).await;
    let table = [
        (store().without("mcp-protocol-version"), 400, -32020),
        (
            store().with("mcp-protocol-version", "2025-11-25"),
            400,
            -32020,
        ),
        (store().without("mcp-method"), 400, -32020),
        (store().with("mcp-method", "tools/list"), 400, -32020),
        (store().without("mcp-name"), 400, -32020),
        (store().with("mcp-name", "retrieve"), 400, -32020),
        (store().meta(VERSION, Value::Null), 400, -32602),
        (store().meta(VERSION, json!("2025-11-25")), 400, -32020),
        (store().meta(CAPABILITIES, Value::Null), 400, -32602),
        (store().meta(CAPABILITIES, json!("none")), 400, -32602),
        (
            store()
                .meta(VERSION, json!("2031-01-01"))
                .with("mcp-protocol-version", "2031-01-01"),
            400,
            -32022,
        ),
        (Post::method("tools/drop", json!({})), 404, -32601),
        (
            Post::method("tools/list", json!({"cursor": "x"})),
            200,
            -32602,
        ),
        (Post::call("drop", &json!({})), 200, -32602),
    ];
    for (at, (post, status, code)) in table.into_iter().enumerate() {
        let answer = post.send(house.replicas[0]).await;
        assert_eq!(answer.status.as_u16(), status, "{at}: {answer:?}");
        assert_eq!(answer.code(), code, "{at}: {answer:?}");
    }
    let unsupported = store()
        .meta(VERSION, json!("2031-01-01"))
        .with("mcp-protocol-version", "2031-01-01");
    let answer = unsupported.send(house.replicas[0]).await;
    let supported = &answer.body["error"]["data"]["supported"];
    assert_eq!(*supported, json!(["2026-07-28"]));
    assert_eq!(house.keys().list("").await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn a_server_without_legacy_sessions_opens_none() {
    let house = House::open(ASSUMES).await;
    let parameters = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"},
    });
    let begin = Post {
        body: json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": parameters}),
        ..store()
            .without("mcp-protocol-version")
            .without("mcp-method")
            .without("mcp-name")
    };
    let answer = begin.send(house.replicas[0]).await;
    assert_eq!(
        (answer.code(), &answer.session),
        (-32022, &None),
        "{answer:?}"
    );
    // A session that a client names means nothing.
    let named = store()
        .with("mcp-session-id", "s")
        .send(house.replicas[0])
        .await;
    assert_eq!((named.status, named.session), (StatusCode::OK, None));
}

#[tokio::test]
async fn only_posts_from_allowed_hosts_and_origins_are_served() {
    let house = House::open(ASSUMES).await;
    for method in [Method::GET, Method::DELETE, Method::PUT] {
        let answer = request(method, house.replicas[0], &store().headers, String::new()).await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
    }
    for post in [
        store().with("host", "evil.example"),
        store().with("origin", "https://evil.example"),
        store().with("origin", "null"),
        store().with("origin", "http://localhost"),
    ] {
        let answer = post.send(house.replicas[0]).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{answer:?}");
    }
    assert_eq!(house.keys().list("").await.unwrap(), [""; 0]);
}

/// A store whose body is so long.
fn body_of(bytes: usize) -> Post {
    let store = |value: String| Post::call("store", &json!({"key": "k", "value": value}));
    let frame = store(String::new()).body.to_string().len();
    store("x".repeat(bytes - frame))
}

#[tokio::test]
async fn what_is_over_a_bound_is_refused_and_stored_in_no_part() {
    let house = House::open(ASSUMES).await;
    let answer = body_of(BODY_BYTES_MAX + 1).send(house.replicas[0]).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    let value = "x".repeat(1_000_000);
    let item = |at: usize| json!({"key": format!("k{at}"), "value": value});
    let batch = |items: usize| {
        let items: Vec<_> = (0..items).map(item).collect();
        Post::call("batch_store", &json!({"items": items}))
    };
    // Within the body's bound, and over that of a value and of a transaction.
    for post in [body_of(BODY_BYTES_MAX), batch(5)] {
        let answer = post.send(house.replicas[0]).await;
        let reason = &answer.body["result"]["_meta"]["helve.v1/reason"];
        assert_eq!(*reason, json!("BAD_ARGUMENT"));
    }
    assert_eq!(house.keys().list("").await.unwrap(), [""; 0]);
    let answer = batch(4).send(house.replicas[0]).await;
    assert_eq!(answer.body["result"]["isError"], json!(false));
    assert_eq!(house.keys().list("").await.unwrap().len(), 4);
}

#[tokio::test]
async fn what_is_too_long_to_name_is_not_repeated() {
    let house = House::open(ASSUMES).await;
    let long = "x".repeat(1 << 20);
    let task = Post::method("tasks/get", json!({"taskId": long}));
    let resource = Post::method("resources/read", json!({"uri": long}));
    for post in [
        Post::method(&long, json!({})).with("mcp-method", "tools/list"),
        Post::call(&long, &json!({})).with("mcp-name", "store"),
        task.with("mcp-name", "t"),
        resource.with("mcp-name", "file:///a"),
    ] {
        let answer = post.send(house.replicas[0]).await;
        let told = answer.body.to_string();
        assert!(told.len() < 2048, "{} bytes", told.len());
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{told}");
        assert_eq!(answer.code(), -32600, "{told}");
    }
}

#[tokio::test]
async fn what_is_no_request_is_refused() {
    let house = House::open(ASSUMES).await;
    let headers = store().headers;
    for body in ["", "{", "[]", "null", "{\"jsonrpc\":\"2.0\"}"] {
        let answer = request(Method::POST, house.replicas[0], &headers, body.to_owned()).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{body}: {answer:?}");
        assert_eq!(answer.content_type.as_deref(), Some("application/json"));
        assert!(
            matches!(answer.code(), -32700 | -32600),
            "{body}: {answer:?}"
        );
        assert_eq!(answer.body.get("id"), Some(&Value::Null), "{body}");
    }
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let body = store()
        .body
        .to_string()
        .replace("\"value\":1", &format!("\"value\":{deep}"));
    let answer = request(Method::POST, house.replicas[0], &headers, body).await;
    assert!(answer.status.is_client_error(), "{answer:?}");
    assert_eq!(house.keys().list("").await.unwrap(), [""; 0]);
}
