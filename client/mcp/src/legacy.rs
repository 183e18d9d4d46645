//! Serving clients before protocol 2026-07-28, too, whose sessions live in the cluster.
//!
//! Such a client begins a session, and names it with each request. The session belongs to whoever began it: it is kept under
//! their principal, and each request is checked against the cluster, so that a session's id gives nothing to anybody else, and a
//! session that was ended through one replica is over on all. What a replica keeps in memory is a copy, made anew wherever the
//! next request lands. Requests of protocol 2026-07-28 are served as ever, beside them.

mod copies;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
};
use futures::StreamExt as _;
use helve_client::{Client, Owner};
use http::{HeaderMap, Method, StatusCode, header::RETRY_AFTER};
use rmcp::{
    ServerHandler,
    model::ProtocolVersion,
    transport::streamable_http_server::{
        StreamableHttpService,
        session::{SessionState, SessionStore, SessionStoreError, local::LocalSessionManager},
    },
};

use self::copies::{Busy, Call, Copies, LIMITS};
use crate::{
    bearer::Principal,
    callers::Callers,
    serve::{self, Access, MCP_PATH, Shutdown, config, finish},
    storage::{SessionOptions, Sessions},
    wire::http::shape,
};

const SESSION_ID: &str = "mcp-session-id";
const LAST_EVENT_ID: &str = "last-event-id";
const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// Sessions that one principal may have in the cluster; over it, the idlest tenth ends.
const SESSIONS_OF_PRINCIPAL_MAX: u64 = 1_000;
/// Sessions in the cluster where callers do not authenticate, and so are one principal.
const SESSIONS_OF_ALL_MAX: u64 = 10_000;

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
    /// Of one owner.
    max: u64,
}

impl LegacySessions {
    /// Sessions that this client reaches; one that its client does not use for `idle_ttl` is over. A session belongs to the caller who
    /// began it: where callers authenticate, a request that bears no principal is answered with 500, for the server lacks its guard.
    #[must_use]
    pub fn new(client: &Client, idle_ttl: Duration, callers: Callers) -> Self {
        let max = match callers {
            Callers::One(_) => SESSIONS_OF_ALL_MAX,
            Callers::Authenticated => SESSIONS_OF_PRINCIPAL_MAX,
        };
        Self {
            client: client.clone(),
            idle_ttl,
            callers,
            max,
        }
    }

    /// As many sessions as one owner may have in the cluster: 1,000 by default, or 10,000 where callers do not authenticate and so are
    /// one owner. An owner that begins one more loses the idlest tenth of its own.
    #[must_use]
    pub fn max(mut self, max: u64) -> Self {
        self.max = max;
        self
    }

    fn of(&self, owner: &Owner) -> Sessions {
        let options = SessionOptions::new(owner.clone());
        Sessions::new(&self.client, options.idle_ttl(self.idle_ttl))
    }

    /// Ends the idlest sessions of an owner who has too many. Without the cluster none is begun there, either.
    async fn make_room(&self, owner: &Owner) {
        let max = self.max;
        match self.of(owner).keep(max).await {
            Ok(0) => {}
            Ok(ended) => tracing::warn!(
                ended,
                max,
                "a caller has too many sessions: the idlest have ended"
            ),
            Err(error) => tracing::warn!(%error, "sessions cannot be counted"),
        }
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
    shutdown: &Shutdown,
) -> Router
where
    S: ServerHandler + Clone + Send + Sync + 'static,
{
    let Some(sessions) = sessions else {
        return serve::router(server, access, shutdown);
    };
    let mut copies = LocalSessionManager::default();
    let mut config = config(access, shutdown);
    // Nothing can be resumed, so no stream begins with an id to resume it by.
    copies.session_config.sse_retry = None;
    config.sse_retry = None;
    let copies = Arc::new(copies);
    config.session_store = Some(Arc::new(sessions.clone()));
    let service =
        StreamableHttpService::new(move || Ok(server.clone()), Arc::clone(&copies), config);
    let door = Arc::new(Door {
        sessions,
        copies: Copies::new(copies, LIMITS),
        begun: AtomicU64::new(0),
    });
    let router = Router::new()
        .nest_service(MCP_PATH, service)
        .route_layer(from_fn(shape))
        .route_layer(from_fn_with_state(door, enter));
    finish(router, access, shutdown)
}

struct Door {
    sessions: LegacySessions,
    copies: Copies,
    /// Names the sessions that have no id yet.
    begun: AtomicU64,
}

/// Lets a request of a session pass only if the session is the caller's, and not over. A request of protocol 2026-07-28 passes
/// without being counted.
async fn enter(State(door): State<Arc<Door>>, mut request: Request, next: Next) -> Response {
    let principal = request.extensions().get::<Principal>().cloned();
    let Some(owner) = door.sessions.callers.of(principal.as_ref()) else {
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
        return OWNER.scope(owner, next.run(request)).await;
    }
    // Where callers do not authenticate no one has a share.
    let sharer = principal.map_or_else(String::new, |principal| principal.owner().to_owned());
    // A stream that only listens may go with its copy, and the client asks for it again.
    let is_listening = request.method() == Method::GET;
    let begins = request.method() == Method::POST;
    let call = match session_id(request.headers()) {
        Some(id) => {
            if let Err(refusal) = door.check(&owner, &id).await {
                return refusal;
            }
            door.copies
                .call(&id, &sharer)
                .await
                .map(|call| (call, false))
        }
        None if begins => {
            door.sessions.make_room(&owner).await;
            let number = door.begun.fetch_add(1, Ordering::Relaxed);
            let call = door.copies.call(&format!("begun {number}"), &sharer).await;
            call.map(|call| (call, true))
        }
        None => return OWNER.scope(owner, next.run(request)).await,
    };
    let (call, is_new) = match call {
        Ok(call) => call,
        Err(busy) => return crowded(busy),
    };
    let response = OWNER.scope(owner, next.run(request)).await;
    let call = match session_id(response.headers()) {
        Some(id) if is_new => call.named(&id),
        _ => call,
    };
    if is_listening {
        return response;
    }
    held_until_answered(response, call)
}

impl Door {
    async fn check(&self, owner: &Owner, id: &str) -> Result<(), Response> {
        match self.sessions.of(owner).load(id).await {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(refuse(
                StatusCode::NOT_FOUND,
                "there is no such session: begin one",
            )),
            Err(error) => {
                discreet(&error);
                let why = "sessions cannot be had now";
                Err(refuse(StatusCode::SERVICE_UNAVAILABLE, why))
            }
        }
    }
}

fn session_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(SESSION_ID)?;
    id.to_str().ok().map(str::to_owned)
}

/// The same answer, which keeps the call under way until it has gone out.
fn held_until_answered(response: Response, call: Call) -> Response {
    response.map(|body| {
        let frames = body.into_data_stream().map(move |frame| {
            let _held = &call;
            frame
        });
        Body::from_stream(frames)
    })
}

fn crowded(busy: Busy) -> Response {
    let (status, why) = match busy {
        Busy::Principal => (
            StatusCode::TOO_MANY_REQUESTS,
            "calls are under way in all sessions that this caller may have here: send it again later",
        ),
        Busy::Replica => (
            StatusCode::SERVICE_UNAVAILABLE,
            "calls are under way in all sessions that this server may have: send it again later",
        ),
    };
    (status, [(RETRY_AFTER, "1")], why).into_response()
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
