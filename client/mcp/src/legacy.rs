//! Serving clients before protocol 2026-07-28, too, whose sessions live in the cluster.
//!
//! Such a client begins a session, and names it with each request. The session belongs to whoever began it: it is kept under
//! their principal, and each request is checked against the cluster, so that a session's id gives nothing to anybody else, and a
//! session that was ended through one replica is over on all. What a replica keeps in memory is a copy, made anew wherever the
//! next request lands. Requests of protocol 2026-07-28 are served as ever, beside them.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use axum::{
    Router,
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
};
use helve_client::{Client, Owner};
use http::{HeaderMap, StatusCode};
use rmcp::{
    ServerHandler,
    model::ProtocolVersion,
    transport::streamable_http_server::{
        StreamableHttpService,
        session::{SessionState, SessionStore, SessionStoreError, local::LocalSessionManager},
    },
};
use tokio_util::sync::CancellationToken;

use crate::{
    bearer::Principal,
    callers::Callers,
    serve::{self, Access, MCP_PATH, config, with_probe},
    storage::{SessionOptions, Sessions},
};

const SESSION_ID: &str = "mcp-session-id";
const LAST_EVENT_ID: &str = "last-event-id";
const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// Sessions that one replica has copies of. An unused copy goes after five minutes.
const COPIES_MAX: usize = 10_000;

tokio::task_local! {
    /// Whose request this is.
    static OWNER: Owner;
}

/// Sessions in the cluster, each under its owner.
#[derive(Debug, Clone)]
pub struct LegacySessions {
    client: Client,
    idle_ttl: Duration,
    callers: Callers,
}

impl LegacySessions {
    /// Sessions that this client reaches; one that its client does not use for `idle_ttl` is over. A session belongs to the caller who
    /// began it: where callers authenticate, a request that bears no principal is answered with 500, for the server lacks its guard.
    #[must_use]
    pub fn new(client: &Client, idle_ttl: Duration, callers: Callers) -> Self {
        Self {
            client: client.clone(),
            idle_ttl,
            callers,
        }
    }

    fn of(&self, owner: &Owner) -> Sessions {
        let options = SessionOptions::new(owner.clone());
        Sessions::new(&self.client, options.idle_ttl(self.idle_ttl))
    }

    fn of_caller(&self) -> Result<Sessions, SessionStoreError> {
        OWNER
            .try_with(|owner| self.of(owner))
            .map_err(|_| discreet(&"a session outside a request"))
    }
}

/// The error goes to the log; rmcp would send it to the client.
fn discreet(error: &dyn std::fmt::Display) -> SessionStoreError {
    tracing::warn!(%error, "sessions cannot be had");
    "the session store cannot answer now".into()
}

#[async_trait]
impl SessionStore for LegacySessions {
    async fn load(&self, session_id: &str) -> Result<Option<SessionState>, SessionStoreError> {
        let loaded = self.of_caller()?.load(session_id).await;
        loaded.map_err(|error| discreet(&error))
    }

    async fn store(&self, session_id: &str, state: &SessionState) -> Result<(), SessionStoreError> {
        let stored = self.of_caller()?.store(session_id, state).await;
        stored.map_err(|error| discreet(&error))
    }

    async fn delete(&self, session_id: &str) -> Result<(), SessionStoreError> {
        let deleted = self.of_caller()?.delete(session_id).await;
        deleted.map_err(|error| discreet(&error))
    }
}

/// As [`serve::router`], for clients with sessions, too, if it is said where those are.
pub fn router<S>(
    server: S,
    access: &Access,
    sessions: Option<LegacySessions>,
    shutdown: &CancellationToken,
) -> Router
where
    S: ServerHandler + Clone + Send + Sync + 'static,
{
    let Some(sessions) = sessions else {
        return serve::router(server, access, shutdown);
    };
    let copies = Arc::new(LocalSessionManager::default());
    let mut config = config(access, shutdown);
    config.session_store = Some(Arc::new(sessions.clone()));
    let service =
        StreamableHttpService::new(move || Ok(server.clone()), Arc::clone(&copies), config);
    let door = Arc::new(Door { sessions, copies });
    let router = Router::new()
        .nest_service(MCP_PATH, service)
        .layer(from_fn_with_state(door, enter));
    with_probe(router)
}

struct Door {
    sessions: LegacySessions,
    copies: Arc<LocalSessionManager>,
}

/// Lets a request of a session pass only if the session is the caller's, and not over.
async fn enter(State(door): State<Arc<Door>>, mut request: Request, next: Next) -> Response {
    let principal = request.extensions().get::<Principal>();
    let Some(owner) = door.sessions.callers.of(principal) else {
        tracing::error!("callers shall be authenticated, and nothing before this server does so");
        return refuse(
            StatusCode::INTERNAL_SERVER_ERROR,
            "this server cannot tell who calls",
        );
    };
    if is_modern(request.headers()) {
        // Protocol 2026-07-28 knows neither, and says to ignore them.
        request.headers_mut().remove(SESSION_ID);
        request.headers_mut().remove(LAST_EVENT_ID);
    }
    let id = request.headers().get(SESSION_ID);
    let id = id.and_then(|id| id.to_str().ok().map(str::to_owned));
    let mut is_copied = false;
    if let Some(id) = id {
        match door.sessions.of(&owner).load(&id).await {
            Ok(Some(_)) => {}
            Ok(None) => {
                return refuse(StatusCode::NOT_FOUND, "there is no such session: begin one");
            }
            Err(error) => {
                discreet(&error);
                return refuse(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "sessions cannot be had now",
                );
            }
        }
        is_copied = door.copies.sessions.read().await.contains_key(&*id);
    }
    if !is_copied && door.copies.sessions.read().await.len() >= COPIES_MAX {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "too many sessions at once");
    }
    OWNER.scope(owner, next.run(request)).await
}

fn is_modern(headers: &HeaderMap) -> bool {
    headers
        .get(PROTOCOL_VERSION)
        .and_then(|version| version.to_str().ok())
        .is_some_and(|version| version >= ProtocolVersion::V_2026_07_28.as_str())
}

fn refuse(status: StatusCode, why: &'static str) -> Response {
    (status, why).into_response()
}
