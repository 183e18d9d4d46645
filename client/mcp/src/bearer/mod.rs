//! Who calls, by bearer token: an HTTP layer that lets a request pass only with a JWT that holds, and tells the handler whose it is.
//!
//! The layer answers 401 itself, as RFC 6750 says, and with the resource metadata of RFC 9728, so that an MCP client finds the
//! authorization server. A request that passes carries its [`Principal`] in its extensions, which `rmcp` hands to tools with the
//! request's parts; the token itself goes no further.

mod key_file;
mod verifier;

use std::sync::Arc;

use axum::{
    Json, Router,
    body::Body,
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::get,
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::json;

pub use self::{
    key_file::KeyFileError,
    verifier::{Principal, Rejected, Verifier},
};
use crate::serve::MCP_PATH;

/// Where a client that was refused finds out which authorization server to ask (RFC 9728, section 3).
const METADATA_PATH: &str = "/.well-known/oauth-protected-resource";

/// What guards a server's MCP endpoint.
#[derive(Debug)]
pub struct Guard {
    verifier: Verifier,
    resource: String,
    authorization_servers: Vec<String>,
}

impl Guard {
    /// Lets pass whom `verifier` knows. Its audience is the resource's name, an URL as clients reach it; `authorization_servers`
    /// are the issuers' URLs that the metadata names; it is served if there is one.
    #[must_use]
    pub fn new(verifier: Verifier, authorization_servers: Vec<String>) -> Self {
        let resource = verifier.audience().to_owned();
        Self {
            verifier,
            resource,
            authorization_servers,
        }
    }

    /// The same routes, those of the MCP endpoint only for callers with a token. `/livez` stays open.
    pub fn protect(self, router: Router) -> Router {
        let guard = Arc::new(self);
        let protected = router.layer(from_fn_with_state(Arc::clone(&guard), admit));
        if guard.authorization_servers.is_empty() {
            return protected;
        }
        let metadata = json!({
            "resource": guard.resource,
            "authorization_servers": guard.authorization_servers,
            "bearer_methods_supported": ["header"],
        });
        let answer = get(move || async move { Json(metadata) });
        protected
            .route(METADATA_PATH, answer.clone())
            .route(&format!("{METADATA_PATH}{MCP_PATH}"), answer)
    }

    /// The challenge of RFC 6750, section 3: it names no error for who sent no token.
    fn refuse(&self, error: Option<&str>) -> Response {
        let mut challenge = "Bearer".to_owned();
        let mut separator = ' ';
        let mut add = |name: &str, value: &str| {
            challenge.push_str(&format!("{separator}{name}=\"{value}\""));
            separator = ',';
        };
        if let Some(error) = error {
            add("error", error);
        }
        if let Some(url) = self.metadata_url() {
            add("resource_metadata", &url);
        }
        let mut response = StatusCode::UNAUTHORIZED.into_response();
        // What cannot stand in a header cannot stand in an URL either: the challenge is then the bare scheme.
        let challenge = HeaderValue::from_str(&challenge)
            .unwrap_or_else(|_| HeaderValue::from_static("Bearer"));
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, challenge);
        *response.body_mut() = Body::from("a valid bearer token is needed\n");
        response
    }

    /// The well-known URL of this resource: the path goes behind the well-known one.
    fn metadata_url(&self) -> Option<String> {
        if self.authorization_servers.is_empty() {
            return None;
        }
        let resource = self.resource.parse::<http::Uri>().ok()?;
        let (scheme, authority) = (resource.scheme_str()?, resource.authority()?);
        let path = resource.path().trim_end_matches('/');
        Some(format!("{scheme}://{authority}{METADATA_PATH}{path}"))
    }
}

async fn admit(State(guard): State<Arc<Guard>>, mut request: Request, next: Next) -> Response {
    if !is_guarded(request.uri().path()) {
        return next.run(request).await;
    }
    let Some(token) = bearer_token(request.headers()) else {
        return guard.refuse(None);
    };
    match guard.verifier.verify(token) {
        Ok(principal) => {
            request.headers_mut().remove(header::AUTHORIZATION);
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        Err(why) => {
            tracing::info!(%why, "a bearer token was rejected");
            guard.refuse(Some("invalid_token"))
        }
    }
}

/// All but the probe, so that a route which is added later is not open by oversight.
fn is_guarded(path: &str) -> bool {
    path != "/livez"
}

/// The token of the one `Authorization` header; none if there are several, or another scheme.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().filter(|_| values.next().is_none())?;
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    let token = token.trim_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
