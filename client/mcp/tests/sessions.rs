//! Sessions of clients before protocol 2026-07-28, over several replicas on one store.

#![allow(clippy::unwrap_used)]

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use helve_client::{Client, ErrorKind, HandleOptions, HandleStore, MemoryBuilder};
use helve_mcp::{
    serve::{Shutdown, serve},
    storage::{SESSIONS, SessionOptions, Sessions},
};
use reqwest::{Response, StatusCode};
use rmcp::{
    ServerHandler,
    model::InitializeRequestParams,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService,
        session::{SessionState, SessionStore, local::LocalSessionManager},
    },
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, time::advance};

/// A server that can do nothing but keep sessions.
#[derive(Clone)]
struct Plain;

impl ServerHandler for Plain {}

fn memory() -> Client {
    MemoryBuilder::new().build().unwrap()
}

fn parameters(name: &str) -> Value {
    json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": name, "version": "1"},
    })
}

fn state(name: &str) -> SessionState {
    let parameters: InitializeRequestParams = serde_json::from_value(parameters(name)).unwrap();
    SessionState::new(parameters)
}

async fn replica(sessions: Sessions) -> SocketAddr {
    let mut config = StreamableHttpServerConfig::default().with_json_response(true);
    config.session_store = Some(Arc::new(sessions));
    let service = StreamableHttpService::new(
        || Ok(Plain),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().nest_service("/mcp", service);
    tokio::spawn(serve(listener, router, Shutdown::new()));
    address
}

async fn send(address: SocketAddr, session: Option<&str>, message: &Value) -> Response {
    let mut request = reqwest::Client::new()
        .post(format!("http://{address}/mcp"))
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .body(message.to_string());
    if let Some(session) = session {
        request = request.header("mcp-session-id", session);
    }
    request.send().await.unwrap()
}

async fn begin(address: SocketAddr) -> String {
    let message =
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": parameters("c")});
    let response = send(address, None, &message).await;
    assert_eq!(response.status(), StatusCode::OK);
    let session = response.headers()["mcp-session-id"].to_str().unwrap();
    let session = session.to_owned();
    let message = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let response = send(address, Some(&session), &message).await;
    assert_eq!(response.status(), StatusCode::ACCEPTED);
    session
}

async fn ping(address: SocketAddr, session: &str) -> StatusCode {
    let message = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
    send(address, Some(session), &message).await.status()
}

#[tokio::test]
async fn a_session_begun_on_one_replica_goes_on_on_another_until_it_is_ended() {
    let client = memory();
    let sessions = Sessions::new(&client, SessionOptions::shared());
    let (first, second) = (
        replica(sessions.clone()).await,
        replica(sessions.clone()).await,
    );
    let session = begin(first).await;
    assert_eq!(ping(second, &session).await, StatusCode::OK);
    assert_eq!(ping(second, "another").await, StatusCode::NOT_FOUND);

    let handles = client.handles::<Value>(HandleOptions::shared(SESSIONS));
    let listed = handles.list().await.unwrap();
    assert_eq!(listed.items.len(), 1);
    assert!(
        !listed.items[0].name.contains(&session),
        "a listing gives no session away"
    );

    let response = reqwest::Client::new()
        .delete(format!("http://{second}/mcp"))
        .header("mcp-session-id", &session)
        .send();
    assert!(response.await.unwrap().status().is_success());
    let third = replica(sessions).await;
    assert_eq!(ping(third, &session).await, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_session_of_another_owner_or_store_is_unknown() {
    let client = memory();
    let options = SessionOptions::shared;
    let mine = Sessions::new(&client, options().owner("ann"));
    mine.store("s", &state("c")).await.unwrap();
    for other in [
        options(),
        options().owner("bob"),
        options().owner("ann").store("other"),
    ] {
        let other = Sessions::new(&client, other);
        assert!(other.load("s").await.unwrap().is_none());
        other.delete("s").await.unwrap();
    }
    assert!(mine.load("s").await.unwrap().is_some());
}

#[tokio::test]
async fn a_session_may_be_stored_again_and_is_unknown_once_deleted() {
    let sessions = Sessions::new(&memory(), SessionOptions::shared());
    assert!(sessions.load("s").await.unwrap().is_none());
    for name in ["first", "second"] {
        sessions.store("s", &state(name)).await.unwrap();
        let loaded = sessions.load("s").await.unwrap().unwrap();
        assert_eq!(loaded.initialize_params.client_info.name, name);
    }
    sessions.delete("s").await.unwrap();
    sessions.delete("s").await.unwrap();
    assert!(sessions.load("s").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_lapses_and_is_not_brought_back() {
    let options = SessionOptions::shared().idle_ttl(Duration::from_secs(10));
    let sessions = Sessions::new(&memory(), options);
    sessions.store("s", &state("c")).await.unwrap();
    advance(Duration::from_secs(9)).await;
    assert!(
        sessions.load("s").await.unwrap().is_some(),
        "which restarts its time"
    );
    advance(Duration::from_secs(9)).await;
    assert!(sessions.load("s").await.unwrap().is_some());
    advance(Duration::from_secs(11)).await;
    assert!(sessions.load("s").await.unwrap().is_none());
    let refused = sessions.store("s", &state("c")).await.unwrap_err();
    let refused = refused.downcast::<helve_client::Error>().unwrap();
    assert!(
        matches!(refused.kind(), ErrorKind::Conflict { .. }),
        "{refused:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn owner_keeps_nine_tenths_of_its_bound_and_loses_the_idlest() {
    let client = memory();
    let options = || SessionOptions::shared().idle_ttl(Duration::from_secs(100));
    let sessions = Sessions::new(&client, options().owner("ann"));
    let other = Sessions::new(&client, options().owner("bob"));
    other.store("other", &state("c")).await.unwrap();
    for number in 0..20 {
        sessions
            .store(&format!("{number}"), &state("c"))
            .await
            .unwrap();
        advance(Duration::from_secs(4)).await;
    }
    assert_eq!(sessions.keep(21).await.unwrap(), 0, "one is still free");
    // It was used just now.
    assert!(sessions.load("0").await.unwrap().is_some());
    assert_eq!(sessions.keep(20).await.unwrap(), 2);
    assert_eq!(sessions.keep(20).await.unwrap(), 0);
    for (id, is_kept) in [("0", true), ("1", false), ("2", false), ("3", true)] {
        let loaded = sessions.load(id).await.unwrap();
        assert_eq!(loaded.is_some(), is_kept, "{id}");
    }
    assert!(other.load("other").await.unwrap().is_some());
}

#[tokio::test]
async fn a_store_that_cannot_answer_does_not_call_a_session_unknown() {
    let client = memory();
    let sessions = Sessions::new(&client, SessionOptions::shared());
    sessions.store("s", &state("c")).await.unwrap();
    client.close();
    let error = sessions.load("s").await.unwrap_err();
    let error = error.downcast::<helve_client::Error>().unwrap();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert!(sessions.store("s", &state("c")).await.is_err());
    assert!(sessions.delete("s").await.is_err());
}
