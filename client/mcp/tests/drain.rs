//! A server that stops while a tool is at work: the call is answered, whatever protocol its client speaks.

#![allow(clippy::unwrap_used)]

use std::{net::SocketAddr, sync::Arc, time::Duration};

use helve_client::{MemoryBuilder, Owner};
use helve_mcp::{
    Callers,
    legacy::{self, LegacySessions},
    serve::{Access, Shutdown, serve},
};
use reqwest::{RequestBuilder, StatusCode};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock},
    service::RequestContext,
};
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Notify,
};

/// A server whose one tool waits until it is told to go on.
#[derive(Clone, Default)]
struct Slow {
    begun: Arc<Notify>,
    go_on: Arc<Notify>,
}

impl ServerHandler for Slow {
    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.begun.notify_one();
        self.go_on.notified().await;
        Ok(CallToolResult::success(vec![ContentBlock::text("stored")]).into())
    }
}

fn post(address: SocketAddr, version: &'static str, session: &str, body: &Value) -> RequestBuilder {
    let method = body["method"].as_str().unwrap_or_default().to_owned();
    let mut request = reqwest::Client::builder()
        .no_proxy()
        .build()
        .unwrap()
        .post(format!("http://{address}/mcp"))
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-method", method)
        .body(body.to_string());
    if body["method"] == "tools/call" {
        request = request
            .header("mcp-name", "store")
            .header("mcp-protocol-version", version);
    }
    if !session.is_empty() {
        request = request.header("mcp-session-id", session);
    }
    request
}

/// A protocol version with sessions.
const OLDER: &str = "2025-11-25";

fn call(meta: &Value) -> Value {
    let params = json!({"name": "store", "arguments": {}, "_meta": meta});
    json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
}

/// Begins a session of an older client.
async fn begin(address: SocketAddr) -> String {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let begun = post(address, "", "", &initialize).send().await.unwrap();
    let session = begun.headers()["mcp-session-id"]
        .to_str()
        .unwrap()
        .to_owned();
    drop(begun);
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let told = post(address, "", &session, &initialized)
        .send()
        .await
        .unwrap();
    assert_eq!(told.status(), StatusCode::ACCEPTED);
    session
}

fn anybody() -> Callers {
    Callers::One(Owner::shared())
}

async fn answer_of_call_under_way(version: &'static str) -> (StatusCode, String) {
    let client = MemoryBuilder::new().build().unwrap();
    let sessions = LegacySessions::new(&client, Duration::from_secs(3_600), anybody());
    let (slow, shutdown) = (Slow::default(), Shutdown::new());
    let router = legacy::router(slow.clone(), &Access::default(), Some(sessions), &shutdown);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(serve(listener, router, shutdown.clone()));
    let request = if version == OLDER {
        let session = begin(address).await;
        post(address, version, &session, &call(&json!({})))
    } else {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        post(address, version, "", &call(&meta))
    };
    let answering = tokio::spawn(async move {
        let answer = request.send().await.unwrap();
        (answer.status(), answer.text().await.unwrap())
    });
    slow.begun.notified().await;
    let ready = reqwest::get(format!("http://{address}/readyz"))
        .await
        .unwrap();
    assert_eq!(ready.status(), StatusCode::OK);
    shutdown.begin();
    // The listener has closed, so the server is past asking and waits for the call.
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    slow.go_on.notify_one();
    let answer = answering.await.unwrap();
    serving.await.unwrap().unwrap();
    answer
}

#[tokio::test]
async fn call_under_way_is_answered_before_the_server_stops() {
    for version in [OLDER, "2026-07-28"] {
        let (status, answer) = answer_of_call_under_way(version).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        assert!(answer.contains("stored"), "{version}: {answer}");
    }
}
