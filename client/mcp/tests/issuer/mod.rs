//! An authorization server in this process, which counts what it is asked and takes every refresh token once.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use helve_client::Client;
use helve_mcp::storage::{Credentials, Logins, resume};
use helve_request_state::{
    client_state::{ClientState, ClientStateOptions, Seal},
    state_codec::OperatorKey,
};
use http::{Response, StatusCode};
use rmcp::transport::auth::{
    AuthorizationManager, OAuthClientConfig, OAuthHttpClient, OAuthHttpClientFuture,
    OAuthHttpRequest,
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

pub(crate) const SERVER: &str = "https://mcp.example.com/mcp";
pub(crate) const ISSUER: &str = "https://login.example.com";

/// Of a token that is worth nothing by the time it is used: rmcp refreshes what lives for less than 30 s.
const STALE_S: u64 = 0;
const FRESH_S: u64 = 3600;

pub(crate) struct Issuer {
    /// What the server's metadata names.
    name: Mutex<&'static str>,
    pub(crate) codes: AtomicUsize,
    pub(crate) refreshes: AtomicUsize,
    /// The one refresh token that is good, if any is.
    refresh_token: Mutex<Option<String>>,
    /// A refresh waits for one of these, if they are held back.
    pub(crate) gate: Semaphore,
    gated: AtomicBool,
}

impl Issuer {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            name: Mutex::new(ISSUER),
            codes: AtomicUsize::new(0),
            refreshes: AtomicUsize::new(0),
            refresh_token: Mutex::new(None),
            gate: Semaphore::new(0),
            gated: AtomicBool::new(false),
        })
    }

    pub(crate) fn rename(&self, name: &'static str) {
        *self.name.lock().unwrap() = name;
    }

    pub(crate) fn hold_refreshes(&self) {
        self.gated.store(true, Ordering::SeqCst);
    }

    pub(crate) fn revoke(&self) {
        *self.refresh_token.lock().unwrap() = None;
    }

    pub(crate) fn asked(&self) -> (usize, usize) {
        let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
        (count(&self.codes), count(&self.refreshes))
    }

    async fn answer(&self, url: &str, form: &str) -> (StatusCode, Value) {
        let name = *self.name.lock().unwrap();
        if url == "https://mcp.example.com/.well-known/oauth-protected-resource/mcp" {
            let named = json!({"resource": SERVER, "authorization_servers": [name]});
            return (StatusCode::OK, named);
        }
        if url == format!("{name}/.well-known/oauth-authorization-server") {
            let metadata = json!({
                "issuer": name,
                "authorization_endpoint": format!("{name}/authorize"),
                "token_endpoint": format!("{name}/token"),
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
            });
            return (StatusCode::OK, metadata);
        }
        if url != format!("{name}/token") {
            return (StatusCode::NOT_FOUND, json!({}));
        }
        if form.contains("grant_type=authorization_code") {
            let count = self.codes.fetch_add(1, Ordering::SeqCst) + 1;
            return (
                StatusCode::OK,
                self.issue(&format!("login-{count}"), STALE_S),
            );
        }
        let count = self.refreshes.fetch_add(1, Ordering::SeqCst) + 1;
        if self.gated.load(Ordering::SeqCst) {
            self.gate.acquire().await.unwrap().forget();
        }
        let good = self.refresh_token.lock().unwrap().take();
        match good {
            Some(good) if form.contains(&format!("refresh_token={good}")) => (
                StatusCode::OK,
                self.issue(&format!("refreshed-{count}"), FRESH_S),
            ),
            // Presented twice: somebody has stolen it. Nothing is good any more.
            _ => (StatusCode::BAD_REQUEST, json!({"error": "invalid_grant"})),
        }
    }

    fn issue(&self, name: &str, expires_in: u64) -> Value {
        let refresh_token = format!("refresh-{name}");
        *self.refresh_token.lock().unwrap() = Some(refresh_token.clone());
        json!({
            "access_token": format!("access-{name}"), "token_type": "bearer",
            "expires_in": expires_in, "refresh_token": refresh_token,
        })
    }
}

/// The way to it.
pub(crate) struct Wire(pub(crate) Arc<Issuer>);

impl OAuthHttpClient for Wire {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let (parts, body) = request.request.into_parts();
            let form = String::from_utf8(body)?;
            let (status, body) = self.0.answer(&parts.uri.to_string(), &form).await;
            let response = Response::builder()
                .status(status)
                .header("content-type", "application/json");
            Ok(response.body(body.to_string().into_bytes())?)
        })
    }
}

pub(crate) fn state(client: &Client) -> ClientState {
    let seal = Seal::new(&OperatorKey::new([7; 32]).unwrap());
    ClientState::new(client, ClientStateOptions::new("agent", SERVER), seal).unwrap()
}

/// A process that begins: its manager, and whether it must log in.
pub(crate) async fn replica(client: &Client, issuer: &Arc<Issuer>) -> (AuthorizationManager, bool) {
    let mut manager = manager(issuer).await;
    let resumed = resume(&mut manager, &state(client), |it| it).await;
    (manager, resumed.unwrap())
}

pub(crate) async fn manager(issuer: &Arc<Issuer>) -> AuthorizationManager {
    let wire = Arc::new(Wire(Arc::clone(issuer)));
    let manager = AuthorizationManager::new_with_oauth_http_client(SERVER, wire);
    manager.await.unwrap()
}

/// Begins a login; answers its CSRF token.
pub(crate) async fn begin_login(manager: &mut AuthorizationManager) -> String {
    let config = OAuthClientConfig::new("agent", "http://localhost/callback");
    manager.configure_client(config).unwrap();
    let url = manager.get_authorization_url(&[]).await.unwrap();
    let (_, state) = url.split_once("state=").unwrap();
    state.split('&').next().unwrap().to_owned()
}

pub(crate) async fn log_in(client: &Client, issuer: &Arc<Issuer>) {
    let (mut manager, _) = replica(client, issuer).await;
    let csrf = begin_login(&mut manager).await;
    manager
        .exchange_code_for_token("code", &csrf)
        .await
        .unwrap();
}

pub(crate) fn credentials(client: &Client) -> Credentials {
    Credentials::new(&state(client), ISSUER).unwrap()
}

pub(crate) fn logins(client: &Client) -> Logins {
    Logins::new(&state(client))
}
