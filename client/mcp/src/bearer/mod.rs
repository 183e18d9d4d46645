//! Who calls, by bearer token: an HTTP layer that lets a request pass only with a JWT that holds, and tells the handler whose it is.
//!
//! The layer answers 401 itself, as RFC 6750 says, and with the resource metadata of RFC 9728, so that an MCP client finds the
//! authorization server. A request that passes carries its [`Principal`] in its extensions, which `rmcp` hands to tools with the
//! request's parts; the token itself goes no further.

mod form;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod issuer;
mod jwks;
mod jwks_url;
mod key;
mod key_file;
mod owner;
mod provider;
mod rejected;
mod resource;
mod scopes;
mod secret_form;
mod source;
mod tried;
mod verifier;

use std::{sync::Arc, time::Instant};

use axum::{
    Json, Router,
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
};
use helve_http::LogThrottle;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde_json::json;

pub use self::{
    issuer::{Owners, TrustError, Trusted},
    jwks_url::{FetchError, JwksUrl, JwksUrlError},
    key_file::KeyFileError,
    rejected::Rejected,
    resource::{Resource, ResourceError},
    scopes::{NoScope, Scopes},
    source::{KEYS_KEPT_MAX, KeySource, KeysError, KeysRead},
    verifier::{Principal, Verifier},
};
use crate::{excerpt::Excerpt, wire::http::read_message};

/// What guards a server's MCP endpoint.
#[derive(Debug)]
pub struct Guard {
    verifier: Verifier,
    resource: Option<Resource>,
    authorization_servers: Vec<String>,
    scopes: Option<Scopes>,
}

impl Guard {
    /// Lets pass whom `verifier` knows. `authorization_servers` are the issuers' URLs that the metadata names; it is served if
    /// there is one, and the resource has a URL: that of [`resource`](Self::resource), or the verifier's audience if that is one.
    #[must_use]
    pub fn new(verifier: Verifier, authorization_servers: Vec<String>) -> Self {
        Self {
            resource: Resource::parse(verifier.audience()).ok(),
            verifier,
            authorization_servers,
            scopes: None,
        }
    }

    /// Lets a request pass only if its token has the scopes for it; others are answered with 403 and `insufficient_scope`, and told
    /// which. Bodies that are no message are then refused before the server sees them.
    #[must_use]
    pub fn scopes(self, scopes: Scopes) -> Self {
        Self {
            scopes: Some(scopes),
            ..self
        }
    }

    /// Says where clients reach the server, where tokens name something else in `aud`.
    #[must_use]
    pub fn resource(self, resource: Resource) -> Self {
        Self {
            resource: Some(resource),
            ..self
        }
    }

    /// Reads all keys again at once, as an operator asks for with SIGHUP. They are read again now and then without that.
    pub async fn read_keys_again(&self) -> Vec<KeysRead> {
        self.verifier.read_keys_again().await
    }

    /// The same routes only for callers with a token, but for `/livez` and `/readyz`; and the resource's metadata, for anybody,
    /// at the path that the challenge names. A path that has no route is 404, token or not.
    ///
    /// For pages in browsers give the guard to [`Access`](crate::serve::Access) instead, which puts it behind what browsers ask
    /// first.
    ///
    /// # Panics
    /// If there are no routes.
    pub fn protect(self, router: Router) -> Router {
        Arc::new(self).cover(router)
    }

    pub(crate) fn cover(self: Arc<Self>, router: Router) -> Router {
        router
            .route_layer(from_fn_with_state(Arc::clone(&self), admit))
            .layer(from_fn_with_state(self, describe))
    }

    /// The resource, if its metadata is served.
    fn described(&self) -> Option<&Resource> {
        let has_servers = !self.authorization_servers.is_empty();
        self.resource.as_ref().filter(|_| has_servers)
    }

    /// The challenge of RFC 6750, section 3: it names no error for who sent no token. With it a
    /// client knows at once which scope to ask for, and asks for no more than it needs to begin.
    fn refuse(&self, error: Option<&str>) -> Response {
        let why = "a valid bearer token is needed\n".to_owned();
        let scope = self.scopes.as_ref().and_then(Scopes::to_call);
        self.challenge((StatusCode::UNAUTHORIZED, why), error, scope)
    }

    /// The challenge of a token that holds and is not good for this: it names the scopes that are.
    fn demand(&self, scope: &str) -> Response {
        let why = format!("a token with the scope {scope:?} is needed\n");
        let answer = (StatusCode::FORBIDDEN, why);
        self.challenge(answer, Some("insufficient_scope"), Some(scope))
    }

    fn challenge(
        &self,
        answer: (StatusCode, String),
        error: Option<&str>,
        scope: Option<&str>,
    ) -> Response {
        let mut challenge = "Bearer".to_owned();
        let mut separator = ' ';
        let mut add = |name: &str, value: &str| {
            challenge.push_str(&format!("{separator}{name}=\"{value}\""));
            separator = ',';
        };
        if let Some(error) = error {
            add("error", error);
        }
        if let Some(scope) = scope {
            add("scope", scope);
        }
        if let Some(url) = self.described().map(Resource::metadata_url) {
            add("resource_metadata", &url);
        }
        let mut response = answer.into_response();
        // What cannot stand in a header cannot stand in an URL either: the challenge is then the bare scheme.
        let challenge = HeaderValue::from_str(&challenge)
            .unwrap_or_else(|_| HeaderValue::from_static("Bearer"));
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, challenge);
        response
    }
}

/// Answers who asks for the metadata (RFC 9728, section 3.2).
async fn describe(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let Some(resource) = guard
        .described()
        .filter(|resource| resource.is_metadata(path))
    else {
        return next.run(request).await;
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return (
            StatusCode::METHOD_NOT_ALLOWED,
            [(header::ALLOW, "GET, HEAD")],
        )
            .into_response();
    }
    let mut metadata = json!({
        "resource": resource.url(),
        "authorization_servers": guard.authorization_servers,
        "bearer_methods_supported": ["header"],
    });
    if let Some(scopes) = &guard.scopes {
        metadata["scopes_supported"] = json!(scopes.supported());
    }
    Json(metadata).into_response()
}

/// Each kind of refusal has one line for many.
static REJECTED: LogThrottle = LogThrottle::new();
static UNSCOPED: LogThrottle = LogThrottle::new();
static UNCHECKED: LogThrottle = LogThrottle::new();

async fn admit(State(guard): State<Arc<Guard>>, mut request: Request, next: Next) -> Response {
    if !is_guarded(request.uri().path()) {
        return next.run(request).await;
    }
    let Some(token) = bearer_token(request.headers()) else {
        return guard.refuse(None);
    };
    match guard.verifier.check(token).await {
        Ok(principal) => {
            request.headers_mut().remove(header::AUTHORIZATION);
            if let Some(scopes) = &guard.scopes {
                let (read, message) = match read_message(request).await {
                    Ok(read) => read,
                    Err(refused) => return refused,
                };
                if let Some(scope) = scopes.missing(principal.scopes(), message.as_ref()) {
                    if let Some(count) = UNSCOPED.count(Instant::now()) {
                        let principal = Excerpt::name(principal.owner());
                        tracing::info!(count, %principal, scope, "tokens lack a scope, the last one this");
                    }
                    return guard.demand(&scope);
                }
                request = read;
            }
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        Err(why @ Rejected::KeysTooOld) => {
            if let Some(count) = UNCHECKED.count(Instant::now()) {
                tracing::error!(count, %why, "no bearer token can be checked");
            }
            let retry = [(header::RETRY_AFTER, "30")];
            let message = "bearer tokens cannot be checked now\n";
            (StatusCode::SERVICE_UNAVAILABLE, retry, message).into_response()
        }
        Err(why) => {
            // A stranger sends as many as it likes.
            if let Some(count) = REJECTED.count(Instant::now()) {
                let why = Excerpt::reason(why);
                tracing::info!(count, %why, "bearer tokens were rejected, the last one for this");
            }
            guard.refuse(Some("invalid_token"))
        }
    }
}

/// All routes but the probes, so that one which is added later is not open by oversight.
fn is_guarded(path: &str) -> bool {
    !matches!(path, "/livez" | "/readyz")
}

/// The token of the one `Authorization` header; none if there are several, or another scheme.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().filter(|_| values.next().is_none())?;
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    let token = token.trim_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
