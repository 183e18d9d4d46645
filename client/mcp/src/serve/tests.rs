//! Callers who hang up, and callers who send what no tool takes.

use std::net::SocketAddr;

use helve_client::MemoryBuilder;
use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolRequestParams, CallToolResponse, CallToolResult},
    service::RequestContext,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::Notify,
    task::{JoinHandle, yield_now},
};

use super::*;
use crate::cart::{self, CartServer};

/// A server whose one tool waits until it is told to go on.
#[derive(Clone, Default)]
struct Slow {
    begun: Arc<Notify>,
    go_on: Arc<Notify>,
}

impl ServerHandler for Slow {
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // A tool that `rmcp` routes is left its arguments alone.
        drop(context);
        self.begun.notify_one();
        self.go_on.notified().await;
        drop(request);
        Ok(CallToolResult::success(Vec::new()).into())
    }
}

struct Served {
    address: SocketAddr,
    metrics: Metrics,
    shutdown: Shutdown,
    serving: JoinHandle<io::Result<()>>,
}

impl Served {
    async fn of(server: impl ServerHandler + Clone) -> Self {
        let (access, shutdown) = (Access::default(), Shutdown::new());
        let router = router(server, &access, &shutdown);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (counted, stopped) = (access.metrics.clone(), shutdown.clone());
        let serving = tokio::spawn(async move {
            let (bounds, drain) = (Bounds::default(), Drain::default());
            serve_counted(listener, router, bounds, drain, stopped, &counted).await
        });
        Self {
            address,
            metrics: access.metrics,
            shutdown,
            serving,
        }
    }

    /// A connection over which a tool has been called, and what becomes of it: `close` or
    /// `keep-alive`.
    async fn called(&self, tool: &str, arguments: &Value, connection: &str) -> TcpStream {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let body = call.to_string();
        let head = [
            "POST /mcp HTTP/1.1".to_owned(),
            format!("Host: {}", self.address),
            "Content-Type: application/json".to_owned(),
            "Accept: application/json, text/event-stream".to_owned(),
            "Mcp-Protocol-Version: 2026-07-28".to_owned(),
            "Mcp-Method: tools/call".to_owned(),
            format!("Mcp-Name: {tool}"),
            format!("Connection: {connection}"),
            format!("Content-Length: {}", body.len()),
        ];
        let request = format!("{}\r\n\r\n{body}", head.join("\r\n"));
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }
}

#[tokio::test]
async fn room_of_a_gone_caller_is_held_until_its_handler_ends() {
    let slow = Slow::default();
    let served = Served::of(slow.clone()).await;
    let traffic = served.metrics.traffic();
    let caller = served.called("slow", &json!({}), "keep-alive").await;
    slow.begun.notified().await;
    let held = traffic.request_bytes();
    assert_ne!(held, 0, "the message is charged");
    drop(caller);
    while traffic.connections() > 0 {
        yield_now().await;
    }
    assert_eq!(traffic.request_bytes(), held, "the handler has the message");
    slow.go_on.notify_one();
    while traffic.request_bytes() > 0 {
        yield_now().await;
    }
    served.shutdown.begin();
    served.serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn unknown_argument_is_not_repeated_whole() {
    let client = MemoryBuilder::new().build().unwrap();
    let served = Served::of(CartServer::new(client, cart::Settings::shared())).await;
    let name = "a".repeat(1 << 20);
    let arguments = json!({name: 1});
    let mut caller = served.called("create_cart", &arguments, "close").await;
    let mut answer = String::new();
    caller.read_to_string(&mut answer).await.unwrap();
    let begun = &answer[..answer.len().min(1000)];
    assert!(begun.starts_with("HTTP/1.1 200 "), "{begun}");
    assert!(answer.contains("unknown field"), "{begun}");
    assert!(answer.len() < 16 << 10, "{}", answer.len());
}
