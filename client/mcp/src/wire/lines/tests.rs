//! Every line that wants an answer gets one, with its id where that can be known.

use std::time::Duration;

use rmcp::{
    ErrorData, ServerHandler,
    model::{
        ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
        SubscriptionFilter,
    },
    service::RequestContext,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex},
    sync::Notify,
    task::JoinHandle,
    time::timeout,
};

use super::*;
use crate::stdio::serve_lines;

const LINE_BYTES_MAX: usize = 1000;
/// Ample, for slow machines.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
struct Bare;

impl ServerHandler for Bare {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }
}

/// What a server says to these lines, until it ends at their end.
async fn answers(lines: &[&[u8]]) -> Vec<Value> {
    let (mut client, server) = duplex(1 << 20);
    let (input, output) = tokio::io::split(server);
    let shutdown = Shutdown::new();
    let lines_of = Lines::new(input, output, LINE_BYTES_MAX, shutdown.clone());
    let serving = tokio::spawn(serve_lines(Bare, lines_of, shutdown, PATIENCE));
    client.write_all(&lines.join(&b'\n')).await.unwrap();
    client.shutdown().await.unwrap();
    let mut said = String::new();
    client.read_to_string(&mut said).await.unwrap();
    serving.await.unwrap().unwrap();
    said.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn request(id: u32, method: &str) -> Vec<u8> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"_meta": meta});
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        .to_string()
        .into_bytes()
}

fn ids(answers: &[Value]) -> Vec<(Value, i64)> {
    let code = |answer: &Value| answer["error"]["code"].as_i64().unwrap_or_default();
    answers
        .iter()
        .map(|answer| (answer["id"].clone(), code(answer)))
        .collect()
}

#[tokio::test]
async fn lines_that_do_not_parse_are_answered_with_their_id() {
    let deep = [b"{\"id\":4,\"params\":".as_slice(), &[b'['; 300]].concat();
    let last = request(9, "tools/list");
    let lines: [&[u8]; 12] = [
        br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\ud800"}}"#,
        b"{\"jsonrpc\":\"2.0\",\"id\":\"two\",\"method\":\"\xff\"}",
        br#"{"jsonrpc":"2.0","id":3,"method":"ping","method":"ping"}"#,
        &deep,
        b"garbage",
        b"[]",
        b"",
        br#"{"method":"notifications/x","params":{"x":"\ud800"}}"#,
        // Ids that are none: a parser might take each for a notification.
        br#"{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}"#,
        br#"{"jsonrpc":"2.0","id":null,"method":"notifications/initialized"}"#,
        br#"{"jsonrpc":"2.0","id":[7],"method":"made/up"}"#,
        &last,
    ];
    let said = answers(&lines).await;
    let expected = [
        (json!(1), -32700),
        (json!("two"), -32700),
        (json!(3), -32600),
        (json!(4), -32700),
        (Value::Null, -32700),
        (Value::Null, -32600),
        (Value::Null, -32600),
        (Value::Null, -32600),
        (Value::Null, -32600),
        (json!(9), 0),
    ];
    assert_eq!(ids(&said), expected);
    assert!(said[4].as_object().unwrap().contains_key("id"));
}

#[tokio::test]
async fn a_line_that_is_too_long_is_answered_and_the_next_one_read() {
    let filler = "x".repeat(LINE_BYTES_MAX);
    let first = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":["{filler}"]}}"#);
    let last = format!(r#"{{"method":"m","params":["{filler}"],"jsonrpc":"2.0","id":2}}"#);
    let none = filler.repeat(20);
    let good = request(3, "tools/list");
    let said = answers(&[
        first.as_bytes(),
        last.as_bytes(),
        none.as_bytes(),
        &good,
        last.as_bytes(),
    ])
    .await;
    let mut expected = vec![
        (json!(1), -32600),
        (json!(2), -32600),
        (Value::Null, -32600),
        (json!(3), 0),
        (json!(2), -32600),
    ];
    let mut found = ids(&said);
    // The answer of a tool may be written after that to a later line.
    let order = |answer: &(Value, i64)| (answer.0.to_string(), answer.1);
    found.sort_by_key(order);
    expected.sort_by_key(order);
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_session_begins_after_whatever_comes_first() {
    let initialize = |id: u32, version: &str| {
        let params = json!({
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"},
        });
        json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params})
            .to_string()
            .into_bytes()
    };
    let first: [&[u8]; 5] = [
        br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
        br#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
        br#"{"jsonrpc":"2.0","id":8,"method":"tools/list"}"#,
        &initialize(9, "2026-07-28"),
    ];
    let begin = initialize(1, "2025-11-25");
    let said = answers(&[&first[..], &[&begin]].concat()).await;
    let last = said.last().unwrap();
    assert_eq!(said[0]["id"], json!(8), "{said:?}");
    assert_eq!(last["id"], json!(1), "{said:?}");
    assert_eq!(last["result"]["protocolVersion"], json!("2025-11-25"));
}

/// A server whose list of tools waits until it is told to go on.
#[derive(Debug, Clone, Default)]
struct Waits {
    begun: Arc<Notify>,
    go_on: Arc<Notify>,
}

impl ServerHandler for Waits {
    fn get_info(&self) -> ServerConfig {
        Bare.get_info()
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.begun.notify_one();
        self.go_on.notified().await;
        Ok(ListToolsResult::default())
    }
}

impl Waits {
    /// Serves a client, which is returned with what stops the server, and its end.
    fn serve(
        &self,
        drain_timeout: Duration,
    ) -> (DuplexStream, Shutdown, JoinHandle<io::Result<()>>) {
        let (client, server) = duplex(1 << 20);
        let (input, output) = tokio::io::split(server);
        let shutdown = Shutdown::new();
        let lines = Lines::new(input, output, LINE_BYTES_MAX, shutdown.clone());
        let serving = serve_lines(self.clone(), lines, shutdown.clone(), drain_timeout);
        (client, shutdown, tokio::spawn(serving))
    }
}

#[tokio::test]
async fn a_request_under_way_at_a_stop_is_answered_and_others_refused() {
    let waits = Waits::default();
    let (client, shutdown, serving) = waits.serve(PATIENCE);
    let (said, mut say) = tokio::io::split(client);
    let mut said = BufReader::new(said).lines();
    let mut ask = async |id| {
        let line = [&request(id, "tools/list"), &b"\n"[..]].concat();
        say.write_all(&line).await.unwrap();
    };
    let mut next = async || -> Option<Value> {
        let line = timeout(PATIENCE, said.next_line()).await.unwrap().unwrap();
        line.map(|line| serde_json::from_str(&line).unwrap())
    };
    ask(1).await;
    waits.begun.notified().await;
    shutdown.begin();
    ask(2).await;
    assert_eq!(ids(&[next().await.unwrap()]), [(json!(2), -32603)]);
    waits.go_on.notify_one();
    let first = next().await.unwrap();
    assert!(first["result"].is_object() && first["id"] == 1, "{first}");
    // Standard input is open, and the server ends all the same.
    timeout(PATIENCE, serving).await.unwrap().unwrap().unwrap();
    assert_eq!(next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_request_over_the_drain_timeout_is_cut_off() {
    let waits = Waits::default();
    let (mut client, shutdown, serving) = waits.serve(PATIENCE);
    let line = [&request(1, "tools/list"), &b"\n"[..]].concat();
    client.write_all(&line).await.unwrap();
    waits.begun.notified().await;
    shutdown.begin();
    // Twice the time, as rmcp waits a little for what is cut off.
    timeout(2 * PATIENCE, serving)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn a_stop_with_nothing_under_way_ends_at_once() {
    let (_client, shutdown, serving) = Waits::default().serve(Duration::MAX);
    shutdown.begin();
    timeout(PATIENCE, serving).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn two_requests_of_one_id_are_both_answered() {
    let waits = Waits::default();
    let (client, ..) = waits.serve(PATIENCE);
    let (said, mut say) = tokio::io::split(client);
    let mut said = BufReader::new(said).lines();
    let mut ask = async |line: &[u8]| say.write_all(&[line, b"\n"].concat()).await.unwrap();
    let list = request(1, "tools/list");
    ask(&list).await;
    waits.begun.notified().await;
    ask(&list).await;
    let mut next = async || -> Value {
        let line = timeout(PATIENCE, said.next_line()).await.unwrap().unwrap();
        serde_json::from_str(&line.unwrap()).unwrap()
    };
    assert_eq!(ids(&[next().await]), [(json!(1), -32600)]);
    waits.go_on.notify_one();
    let first = next().await;
    assert!(first["result"].is_object(), "{first}");
    // Once it is answered, the id is free.
    ask(&list).await;
    waits.begun.notified().await;
    // Once it is cancelled, it is not: the handler goes on, and its answer is not that of another.
    ask(br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#).await;
    ask(&list).await;
    assert_eq!(ids(&[next().await]), [(json!(1), -32600)]);
    waits.go_on.notify_one();
    ask(&request(2, "tools/list")).await;
    waits.begun.notified().await;
    waits.go_on.notify_one();
    let last = next().await;
    assert!(last["result"].is_object() && last["id"] == 2, "{last}");
}

/// A server that lets clients listen.
#[derive(Debug, Clone)]
struct Tells;

impl ServerHandler for Tells {
    fn get_info(&self) -> ServerConfig {
        Bare.get_info()
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }
}

#[tokio::test]
async fn a_subscription_ends_at_a_stop_and_does_not_hold_it_up() {
    let (client, server) = duplex(1 << 20);
    let (input, output) = tokio::io::split(server);
    let shutdown = Shutdown::new();
    let lines = Lines::new(input, output, LINE_BYTES_MAX, shutdown.clone());
    let serving = serve_lines(Tells, lines, shutdown.clone(), Duration::MAX);
    let serving = tokio::spawn(serving);
    let (said, mut say) = tokio::io::split(client);
    let mut said = BufReader::new(said).lines();
    let mut next = async || -> Option<Value> {
        let line = timeout(PATIENCE, said.next_line()).await.unwrap().unwrap();
        line.map(|line| serde_json::from_str(&line).unwrap())
    };
    let mut listen: Value = serde_json::from_slice(&request(1, "subscriptions/listen")).unwrap();
    listen["params"]["notifications"] = json!({"toolsListChanged": true});
    let line = format!("{listen}\n");
    say.write_all(line.as_bytes()).await.unwrap();
    let acknowledged = next().await.unwrap();
    let method = json!("notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["method"], method, "{acknowledged}");
    // Its id is in use all the while.
    say.write_all(line.as_bytes()).await.unwrap();
    assert_eq!(ids(&[next().await.unwrap()]), [(json!(1), -32600)]);
    shutdown.begin();
    // Had it been left to rmcp, it would be cut off without an answer.
    let last = next().await.unwrap();
    assert!(last["result"].is_object() && last["id"] == 1, "{last}");
    timeout(PATIENCE, serving).await.unwrap().unwrap().unwrap();
    assert_eq!(next().await, None);
}
