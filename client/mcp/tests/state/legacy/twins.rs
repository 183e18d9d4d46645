//! Two requests of one session with the same id: neither is answered with what the other led to.

use std::sync::Arc;

use helve_mcp::serve::serve;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock},
    service::RequestContext,
};
use tokio::{net::TcpListener, sync::Notify, time::timeout};

use super::*;

/// Ample, for slow machines.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server whose tools answer with their names; `slow` waits until it is told to go on.
#[derive(Clone, Default)]
struct Slow {
    begun: Arc<Notify>,
    go_on: Arc<Notify>,
}

impl ServerHandler for Slow {
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

/// The server, and a session with it.
async fn begin(slow: &Slow) -> (SocketAddr, Session, Shutdown) {
    let client = memory();
    let shutdown = Shutdown::new();
    let sessions = LegacySessions::new(&client, Duration::from_secs(3600), anybody());
    let router = router(slow.clone(), &Access::default(), Some(sessions), &shutdown);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, router, shutdown.clone()));
    let session = Session::begin(address, None).await;
    (address, session, shutdown)
}

#[tokio::test]
async fn two_requests_of_one_session_with_one_id_are_both_answered() {
    let slow = Slow::default();
    let (address, session, shutdown) = begin(&slow).await;
    let _shutdown = shutdown.end_on_drop();
    let first = session.clone();
    let first = tokio::spawn(async move { first.call(address, "slow", json!({})).await });
    slow.begun.notified().await;
    let second = session.call(address, "quick", json!({}));
    let second = timeout(PATIENCE, second).await.unwrap();
    assert_eq!(second.status, StatusCode::BAD_REQUEST, "{second:?}");
    assert_eq!((second.code(), &second.body["id"]), (-32600, &json!(2)));
    slow.go_on.notify_one();
    let first = timeout(PATIENCE, first).await.unwrap().unwrap();
    let said = &first.body["result"]["content"][0]["text"];
    assert_eq!(*said, json!("slow"), "{first:?}");
    // Once it is answered the id is free.
    let third = session.call(address, "quick", json!({}));
    let third = timeout(PATIENCE, third).await.unwrap();
    let said = &third.body["result"]["content"][0]["text"];
    assert_eq!(*said, json!("quick"), "{third:?}");
}

/// `rmcp` does not stop what was cancelled, and its answer is no other request's.
#[tokio::test]
async fn id_of_a_cancelled_request_is_not_taken_again() {
    let slow = Slow::default();
    let (address, session, shutdown) = begin(&slow).await;
    let _shutdown = shutdown.end_on_drop();
    let first = session.clone();
    let first = tokio::spawn(async move { first.call(address, "slow", json!({})).await });
    timeout(PATIENCE, slow.begun.notified()).await.unwrap();
    let params = json!({"requestId": 2});
    let cancelled = session.send(address, "notifications/cancelled", None, params);
    let cancelled = timeout(PATIENCE, cancelled).await.unwrap();
    assert_eq!(cancelled.status, StatusCode::ACCEPTED, "{cancelled:?}");
    let first = timeout(PATIENCE, first).await.unwrap().unwrap();
    assert_eq!(first.body, json!(""), "it has no answer");
    let second = session.call(address, "quick", json!({}));
    let second = timeout(PATIENCE, second).await.unwrap();
    assert_eq!(second.status, StatusCode::BAD_REQUEST, "{second:?}");
    assert_eq!((second.code(), &second.body["id"]), (-32600, &json!(2)));
    slow.go_on.notify_one();
    let params = json!({"name": "quick", "arguments": {}});
    let third = session.send(address, "tools/call", Some(3), params);
    let third = timeout(PATIENCE, third).await.unwrap();
    let said = &third.body["result"]["content"][0]["text"];
    assert_eq!(*said, json!("quick"), "{third:?}");
}
