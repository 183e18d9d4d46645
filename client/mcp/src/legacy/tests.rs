//! Sessions that begin and whose callers go away.

use std::time::Duration;

use futures::FutureExt as _;
use helve_client::MemoryBuilder;
use http::header;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::{task::yield_now, time::timeout};

use super::*;
use crate::serve::Versions;

#[derive(Clone)]
struct Empty;

impl ServerHandler for Empty {
    fn supported_protocol_versions(&self) -> std::borrow::Cow<'static, [ProtocolVersion]> {
        Versions::All.supported().into()
    }
}

fn initialize() -> Request {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "old", "version": "1"},
    });
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let request = Request::post(MCP_PATH)
        .header(header::HOST, "localhost")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, text/event-stream");
    request.body(Body::from(message.to_string())).unwrap()
}

#[tokio::test]
async fn session_is_counted_though_its_caller_goes_away() {
    let client = MemoryBuilder::new().build().unwrap();
    let callers = Callers::One(Owner::shared());
    let sessions = LegacySessions::new(&client, Duration::from_secs(3600), callers);
    let shutdown = Shutdown::new();
    let (router, state) = routes(Empty, &Access::default(), sessions, &shutdown);
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
