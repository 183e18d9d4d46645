//! Two requests of one session with the same id at once: each is answered, with its own answer.

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

#[tokio::test]
async fn two_requests_of_one_session_with_one_id_are_both_answered() {
    let client = memory();
    let (slow, shutdown) = (Slow::default(), Shutdown::new());
    let sessions = LegacySessions::new(&client, Duration::from_secs(3600), anybody());
    let router = router(slow.clone(), &Access::default(), Some(sessions), &shutdown);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, router, shutdown.clone()));
    let _shutdown = shutdown.end_on_drop();
    let session = Session::begin(address, None).await;
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
