//! Callers who go away, as a session begins and while a request of it runs.

use std::{pin::pin, time::Duration};

use axum::body::{Body, to_bytes};
use futures::FutureExt as _;
use helve_client::MemoryBuilder;
use http::header;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock},
    service::RequestContext,
};
use serde_json::{Value, json};
use tokio::{sync::Notify, task::yield_now, time::timeout};

use super::*;
use crate::serve::Versions;

#[derive(Clone)]
struct Empty;

impl ServerHandler for Empty {
    fn supported_protocol_versions(&self) -> std::borrow::Cow<'static, [ProtocolVersion]> {
        Versions::All.supported().into()
    }
}

/// A server whose tools answer with their names; `slow` waits until it is told to go on.
#[derive(Clone, Default)]
struct Slow {
    begun: Arc<Notify>,
    go_on: Arc<Notify>,
}

impl ServerHandler for Slow {
    fn supported_protocol_versions(&self) -> std::borrow::Cow<'static, [ProtocolVersion]> {
        Versions::All.supported().into()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name == "slow" {
            self.begun.notify_one();
            self.go_on.notified().await;
        }
        let name = request.name.to_string();
        Ok(CallToolResult::success(vec![ContentBlock::text(name)]).into())
    }
}

/// Sessions of one owner, in a host of their own.
fn sessions() -> LegacySessions {
    let client = MemoryBuilder::new().build().unwrap();
    let callers = Callers::One(Owner::shared());
    LegacySessions::new(&client, Duration::from_secs(3600), callers)
}

fn initialize() -> Request {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "old", "version": "1"},
    });
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    post(None, &message)
}

/// A call of a tool, under the id 2.
fn call(session: &str, tool: &str) -> Request {
    let params = json!({"name": tool, "arguments": {}});
    let message = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
    post(Some(session), &message)
}

fn post(session: Option<&str>, message: &Value) -> Request {
    let mut request = Request::post(MCP_PATH)
        .header(header::HOST, "localhost")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, text/event-stream");
    if let Some(session) = session {
        request = request
            .header(SESSION_ID, session)
            .header(PROTOCOL_VERSION, "2025-11-25");
    }
    request.body(Body::from(message.to_string())).unwrap()
}

#[tokio::test]
async fn session_is_counted_though_its_caller_goes_away() {
    let shutdown = Shutdown::new();
    let (router, state) = routes(Empty, &Access::default(), sessions(), &shutdown);
    let held = &state.copies.sessions.sessions;
    let mut response = Box::pin(TowerToHyperService::new(router).call(initialize()));
    // The copy exists, and the caller has not taken the response.
    let id = loop {
        assert!((&mut response).now_or_never().is_none(), "it was answered");
        yield_now().await;
        if let Some(id) = held.read().await.keys().next() {
            break id.to_string();
        }
    };
    drop(response);
    let counted = async {
        while !state.copies.is_counted(&id) {
            yield_now().await;
        }
    };
    let within = timeout(Duration::from_secs(10), counted).await;
    assert!(within.is_ok(), "{id} is in memory, and in no count");
}

/// `rmcp` runs a request on when its caller goes away. Its answer is no other request's.
#[tokio::test]
async fn id_is_in_use_until_an_abandoned_request_ends() {
    let (server, shutdown) = (Slow::default(), Shutdown::new());
    let (router, _) = routes(server.clone(), &Access::default(), sessions(), &shutdown);
    let service = TowerToHyperService::new(router);
    let begun = service.call(initialize()).await.unwrap();
    let session = session_id(begun.headers()).unwrap();
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let told = service.call(post(Some(&session), &initialized)).await;
    assert_eq!(told.unwrap().status(), StatusCode::ACCEPTED);
    {
        let mut slow = pin!(service.call(call(&session, "slow")));
        tokio::select! {
            answer = &mut slow => panic!("it was answered: {answer:?}"),
            () = server.begun.notified() => {}
        }
    }
    let ask = async || {
        let answer = service.call(call(&session, "quick")).await.unwrap();
        let (status, body) = (answer.status(), answer.into_body());
        let body = to_bytes(body, usize::MAX).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        (status, body)
    };
    let (status, body) = ask().await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
    assert_eq!(body["error"]["code"], -32600, "{body}");
    server.go_on.notify_one();
    let answered = async {
        loop {
            let (status, body) = ask().await;
            if status == StatusCode::OK {
                return body;
            }
            yield_now().await;
        }
    };
    let body = timeout(Duration::from_secs(60), answered).await.unwrap();
    assert_eq!(body["result"]["content"][0]["text"], "quick", "{body}");
}
