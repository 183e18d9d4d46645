//! Serving clients before protocol 2026-07-28, too, whose sessions live in the cluster.
//!
//! Such a client begins a session, and names it with each request. The session belongs to the
//! principal that began it, and is kept under it, and each request is checked against the cluster,
//! so that a session's id gives nothing to any other caller, and a session that was ended through
//! one replica is over on all. What a replica keeps in memory is a copy, made again wherever the
//! next request lands. Requests of protocol 2026-07-28 are served as ever, beside them.
//!
//! Each copy is counted before it is made, and `initialize` makes one whatever version it names.

mod copies;
mod held;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use axum::{
    Router,
    extract::{Request, State},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
};
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

use self::{
    copies::{Busy, Copies, LIMITS},
    held::held_until_answered,
};
use crate::{
    bearer::Principal,
    callers::Callers,
    serve::{self, Access, MCP_PATH, MCP_PATH_SLASH, Shutdown, config, finish},
    storage::{SessionOptions, Sessions},
    wire::{
        charged::Charged,
        http::{in_use, may_begin_session, request_id, shape},
    },
};

const SESSION_ID: &str = "mcp-session-id";
const LAST_EVENT_ID: &str = "last-event-id";
const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// Sessions that one principal may have in the cluster; over it, the idlest tenth ends.
const SESSIONS_OF_PRINCIPAL_MAX: u64 = 1_000;
/// Sessions in the cluster where callers do not authenticate, and so are one principal.
const SESSIONS_OF_ALL_MAX: u64 = 10_000;

tokio::task_local! {
    /// The request under way.
    static ASKED: Asked;
}

/// A request under way, as the store of sessions sees it.
struct Asked {
    /// Whose it is.
    owner: Owner,
    /// Whether the store failed. `rmcp` logs that, and answers as if it had not.
    has_failed: Arc<AtomicBool>,
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
        ASKED
            .try_with(|asked| self.of(&asked.owner))
            .map_err(|_| discreet(&"a session outside a request"))
    }
}

/// What the store did. A failure is noted for the answer.
fn told<T>(done: Result<T, SessionStoreError>) -> Result<T, SessionStoreError> {
    done.map_err(|error| {
        // The store is asked within a request alone.
        let _noted = ASKED.try_with(|asked| asked.has_failed.store(true, Ordering::Relaxed));
        discreet(&error)
    })
}

/// The error goes to the log; rmcp would send it to the client.
fn discreet(error: &dyn std::fmt::Display) -> SessionStoreError {
    tracing::warn!(%error, "sessions cannot be had");
    "the session store cannot answer now".into()
}

#[async_trait]
impl SessionStore for LegacySessions {
    async fn load(&self, session_id: &str) -> Result<Option<SessionState>, SessionStoreError> {
        told(self.of_caller()?.load(session_id).await)
    }

    async fn store(&self, session_id: &str, state: &SessionState) -> Result<(), SessionStoreError> {
        told(self.of_caller()?.store(session_id, state).await)
    }

    async fn delete(&self, session_id: &str) -> Result<(), SessionStoreError> {
        told(self.of_caller()?.delete(session_id).await)
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
    let (router, _) = routes(server, access, sessions, shutdown);
    finish(router, access, shutdown)
}

/// The MCP routes, and what counts the sessions that begin there.
fn routes<S>(
    server: S,
    access: &Access,
    sessions: LegacySessions,
    shutdown: &Shutdown,
) -> (Router, Arc<LegacyState>)
where
    S: ServerHandler + Clone + Send + Sync + 'static,
{
    let mut copies = LocalSessionManager::default();
    let mut config = config(access, shutdown);
    // Nothing can be resumed, so no stream begins with an id to resume it by.
    copies.session_config.sse_retry = None;
    config.sse_retry = None;
    let copies = Arc::new(copies);
    config.session_store = Some(Arc::new(sessions.clone()));
    let service = StreamableHttpService::new(
        move || Ok(Charged(server.clone())),
        Arc::clone(&copies),
        config,
    );
    let state = Arc::new(LegacyState {
        sessions,
        copies: Copies::new(copies, LIMITS, access.metrics.clone()),
        begun: AtomicU64::new(0),
    });
    // Messages are read first: what they are decides what is counted.
    let router = Router::new()
        .route_service(MCP_PATH, service.clone())
        .route_service(MCP_PATH_SLASH, service)
        .route_layer(from_fn_with_state(Arc::clone(&state), enter))
        .route_layer(from_fn(shape));
    (router, state)
}

struct LegacyState {
    sessions: LegacySessions,
    copies: Copies,
    /// Names the sessions that have no id yet.
    begun: AtomicU64,
}

/// Lets a request of a session pass only if the session is the caller's, and not over. Lets one that
/// begins a session pass only if there is room. Other requests of protocol 2026-07-28 are not
/// counted.
async fn enter(
    State(state): State<Arc<LegacyState>>,
    mut request: Request,
    next: Next,
) -> Response {
    let principal = request.extensions().get::<Principal>().cloned();
    let Some(owner) = state.sessions.callers.of(principal.as_ref()) else {
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
    // Where callers do not authenticate no one has a share.
    let sharer = principal.map_or_else(String::new, |principal| principal.owner().to_owned());
    // A stream that only listens may go with its copy, and the client asks for it again.
    let is_listening = request.method() == Method::GET;
    let Some(id) = session_id(request.headers()) else {
        if may_begin_session(&request) {
            return state.begin(owner, &sharer, request, next).await;
        }
        return state.run(owner, request, next).await;
    };
    if let Err(refusal) = state.check(&owner, &id).await {
        return refusal;
    }
    let call = match state.copies.call(&id, &sharer).await {
        Ok(call) => call,
        Err(busy) => return crowded(busy),
    };
    // `rmcp` tells requests of a session apart by their ids alone. Of two with one id it would
    // answer one, with the answer of either.
    let call = match call.with_id(request_id(&request)) {
        Ok(call) => call,
        Err(id) => return in_use(&id),
    };
    let hold = move |response: Response| match is_listening {
        true => response,
        false => held_until_answered(response, call),
    };
    state.run_to_end(owner, request, next, hold).await
}

impl LegacyState {
    /// Begins a session, within the bounds of its owner.
    async fn begin(
        self: &Arc<Self>,
        owner: Owner,
        sharer: &str,
        request: Request,
        next: Next,
    ) -> Response {
        self.sessions.make_room(&owner).await;
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let call = match self.copies.call(&format!("begun {number}"), sharer).await {
            Ok(call) => call,
            Err(busy) => return crowded(busy),
        };
        let hold = move |response: Response| {
            let call = match session_id(response.headers()) {
                Some(id) => call.named(&id),
                None => call,
            };
            held_until_answered(response, call)
        };
        self.run_to_end(owner, request, next, hold).await
    }

    /// Runs a request in a task of its own, so that it goes on even if its caller goes away. Only
    /// the response tells what it holds: which copy was made, whose call it is, and until when an
    /// id is in use.
    async fn run_to_end(
        self: &Arc<Self>,
        owner: Owner,
        request: Request,
        next: Next,
        hold: impl FnOnce(Response) -> Response + Send + 'static,
    ) -> Response {
        let state = Arc::clone(self);
        let run = tokio::spawn(async move { hold(state.run(owner, request, next).await) });
        run.await.unwrap_or_else(|error| {
            tracing::error!(%error, "a request of a session broke off");
            let why = "the request broke off, and may have been carried out";
            refuse(StatusCode::INTERNAL_SERVER_ERROR, why)
        })
    }

    /// Runs a request for its owner. Where the store of sessions fails, the answer says so. A session
    /// that was not kept would be unknown to the next request, one that was not deleted not over.
    async fn run(&self, owner: Owner, request: Request, next: Next) -> Response {
        let has_failed = Arc::<AtomicBool>::default();
        let asked = Asked {
            owner,
            has_failed: Arc::clone(&has_failed),
        };
        let response = ASKED.scope(asked, next.run(request)).await;
        if !has_failed.load(Ordering::Relaxed) {
            return response;
        }
        if let Some(id) = session_id(response.headers()) {
            self.copies.close(&id).await;
        }
        unavailable()
    }

    async fn check(&self, owner: &Owner, id: &str) -> Result<(), Response> {
        match self.sessions.of(owner).load(id).await {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(refuse(
                StatusCode::NOT_FOUND,
                "there is no such session: begin one",
            )),
            Err(error) => {
                discreet(&error);
                Err(unavailable())
            }
        }
    }
}

fn session_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(SESSION_ID)?;
    id.to_str().ok().map(str::to_owned)
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

fn unavailable() -> Response {
    let why = "sessions cannot be had now: send it again later";
    let retry = [(RETRY_AFTER, "1")];
    (StatusCode::SERVICE_UNAVAILABLE, retry, why).into_response()
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

#[cfg(test)]
mod tests;
