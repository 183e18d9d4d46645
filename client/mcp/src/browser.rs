//! Pages in browsers: which origins may call, and what a browser must be told before a page may read an answer (CORS).
//!
//! A browser asks with a preflight, which bears no token, and hides each answer from a page whose origin the answer does
//! not name, errors included. So this layer is the outermost, before authentication.

use std::{
    net::Ipv6Addr,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse as _, Response},
};
use helve_http::LogThrottle;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
    header::{ORIGIN, RETRY_AFTER, WWW_AUTHENTICATE},
};
use tower_http::cors::{AllowHeaders, AllowOrigin, AllowPrivateNetwork, CorsLayer};

use crate::{excerpt::Excerpt, serve::MCP_PATH, wire::host::is_port};

/// How long a browser may remember the answer to a preflight.
const PREFLIGHT_AGE: Duration = Duration::from_secs(600);
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// The same routes for pages of these origins, too.
///
/// Headers that a page wants to send are allowed as it asks for them: those of the SDKs, and `Mcp-Param-*`, which a tool
/// names (SEP-2243). The origin is what is checked.
pub(crate) fn open_to(origins: &[String], router: Router) -> Router {
    let allowed: Arc<[Origin]> = origins
        .iter()
        .filter_map(|text| Origin::allowed(text))
        .collect();
    let (named, near) = (Arc::clone(&allowed), Arc::clone(&allowed));
    let cors = CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(move |origin, _| {
            is_allowed(&named, origin)
        }))
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([SESSION_ID, WWW_AUTHENTICATE, RETRY_AFTER])
        .allow_private_network(AllowPrivateNetwork::predicate(move |origin, _| {
            is_allowed(&near, origin)
        }))
        .max_age(PREFLIGHT_AGE);
    #[cfg(feature = "planted")]
    if crate::planted::is_no_cors() {
        return router.layer(from_fn_with_state(allowed, check));
    }
    router.layer(cors).layer(from_fn_with_state(allowed, check))
}

/// Limits the log lines about refused origins.
static REFUSED: LogThrottle = LogThrottle::new();

/// Refuses a page of another origin, as the transport's specification demands, whatever else its request bears.
async fn check(State(allowed): State<Arc<[Origin]>>, request: Request, next: Next) -> Response {
    if is_mcp(request.uri().path()) && !passes(&allowed, request.headers()) {
        log(request.headers());
        let why = "pages of this Origin may not call: the server's --allowed-origin names those that may\n";
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    next.run(request).await
}

/// Names the refused origin. A browser hides the answer from the page, so that only the log tells.
fn log(headers: &HeaderMap) {
    if let Some(count) = REFUSED.count(Instant::now()) {
        let several = headers.get_all(ORIGIN).iter().nth(1).is_some();
        let origin = headers
            .get(ORIGIN)
            .map_or("", |origin| origin.to_str().unwrap_or("not ASCII"));
        let origin = Excerpt::name(origin);
        tracing::info!(
            count,
            %origin,
            several,
            "pages of origins that --allowed-origin does not name were refused, the last one of this"
        );
    }
}

fn is_mcp(path: &str) -> bool {
    path.strip_prefix(MCP_PATH)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether the request comes from an allowed page, or from no page at all.
fn passes(allowed: &[Origin], headers: &HeaderMap) -> bool {
    let mut origins = headers.get_all(ORIGIN).iter();
    match (origins.next(), origins.next()) {
        (None, _) => true,
        (Some(origin), None) => is_allowed(allowed, origin),
        (Some(_), Some(_)) => false,
    }
}

fn is_allowed(allowed: &[Origin], origin: &HeaderValue) -> bool {
    let origin = origin.to_str().ok().and_then(Origin::of);
    origin.is_some_and(|origin| allowed.iter().any(|allowed| allowed.admits(&origin)))
}

/// An origin (RFC 6454, section 4).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Origin {
    /// In lower case; empty for the opaque origin, which browsers send as `null`.
    scheme: String,
    host: String,
    /// That of the scheme where none is written; none if any is meant.
    port: Option<u16>,
}

impl Origin {
    /// What an operator allows: an origin, or one with `:*` for any port.
    fn allowed(text: &str) -> Option<Self> {
        let text = text.trim();
        match text.strip_suffix(":*") {
            Some(base) => Self::of(base).map(|origin| Self {
                port: None,
                ..origin
            }),
            None => Self::of(text),
        }
    }

    /// What a browser sends (RFC 6454, section 6.2): a scheme, a host and maybe a port, and nothing
    /// else. The case of letters does not count, nor whether the scheme's own port is written.
    fn of(text: &str) -> Option<Self> {
        if text == "null" {
            return Some(Self {
                scheme: String::new(),
                host: String::new(),
                port: Some(0),
            });
        }
        let (scheme, authority) = text.split_once("://")?;
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (authority, None),
        };
        if !is_scheme(scheme) || !is_host(host) {
            return None;
        }
        let scheme = scheme.to_ascii_lowercase();
        let of_scheme = match &*scheme {
            "http" => 80,
            "https" => 443,
            _ => 0,
        };
        let port = match port {
            Some(port) if is_port(port) => port.parse().ok()?,
            Some(_) => return None,
            None => of_scheme,
        };
        Some(Self {
            host: host.to_ascii_lowercase(),
            port: Some(port),
            scheme,
        })
    }

    fn admits(&self, other: &Self) -> bool {
        (&self.scheme, &self.host) == (&other.scheme, &other.host)
            && self.port.is_none_or(|port| other.port == Some(port))
    }
}

fn is_scheme(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.bytes().all(is_part)
}

/// Whether it is a name or an IPv4 address, or an IPv6 address in brackets.
fn is_host(text: &str) -> bool {
    if let Some(rest) = text.strip_prefix('[') {
        return rest
            .strip_suffix(']')
            .is_some_and(|address| address.parse::<Ipv6Addr>().is_ok());
    }
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !text.is_empty() && text.bytes().all(is_part)
}

/// Whether a server that allows one origin lets pages of another one call.
#[cfg(any(test, fuzzing))]
pub(crate) fn admits(allowed: &str, origin: &[u8]) -> bool {
    let allowed: Vec<_> = Origin::allowed(allowed).into_iter().collect();
    HeaderValue::from_bytes(origin).is_ok_and(|origin| is_allowed(&allowed, &origin))
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, routing::get};
    use hyper::service::Service as _;
    use hyper_util::service::TowerToHyperService;
    use proptest::prelude::*;

    use super::*;
    use crate::properties::check;

    #[test]
    fn origin_is_scheme_host_and_port() {
        for (allowed, origin, expected) in [
            ("https://app.example", "https://app.example", true),
            ("https://app.example", "https://APP.example", true),
            ("https://app.example:443", "https://app.example", true),
            ("https://app.example", "https://app.example:8443", false),
            ("https://app.example", "http://app.example", false),
            ("https://app.example", "https://app.example.evil", false),
            ("http://localhost:*", "http://localhost:5173", true),
            ("http://localhost:*", "http://localhost", true),
            ("http://localhost:*", "https://localhost:5173", false),
            ("http://[::1]:80", "http://[::1]", true),
            ("null", "null", true),
            ("https://app.example", "null", false),
            ("https://app.example", "", false),
            ("https://app.example", "app.example", false),
            ("https://app.example", "https://app.example:443", true),
            ("https://app.example", "https://app.example:99999", false),
            ("https://app.example", "https://app.example:65979", false),
            ("https://app.example", "https://app.example:0443", false),
            ("https://app.example", "https://app.example:+443", false),
            ("https://app.example", "https://app.example:", false),
            ("https://app.example", "https://app.example/", false),
            ("https://app.example", "https://app.example/path", false),
            ("https://app.example", "https://app.example?query", false),
            ("https://app.example", "https://app.example#fragment", false),
            ("https://app.example", "https://alice@app.example", false),
            ("https://app.example", "https://a:b@app.example", false),
            (
                "https://app.example",
                "https://app.example https://b",
                false,
            ),
            ("https://app.example", "https:app.example", false),
            ("http://[::1]", "http://[::1]:80", true),
            ("http://[::1]", "http://[::1]:", false),
            ("http://[::1]", "http://[::1", false),
            ("http://localhost:*", "http://localhost:99999", false),
            ("http://localhost:*", "http://localhost:80/", false),
            ("chrome-extension://abc", "chrome-extension://abc", true),
            ("chrome-extension://abc", "chrome-extension://abc/", false),
        ] {
            assert_eq!(
                admits(allowed, origin.as_bytes()),
                expected,
                "{allowed} for {origin}"
            );
        }
    }

    #[tokio::test]
    async fn preflight_of_another_origin_opens_no_private_network() {
        let router = Router::new().route("/readyz", get(|| async { "ready" }));
        let router = open_to(&["https://app.example".to_owned()], router);
        for (origin, expected) in [
            ("https://app.example", true),
            ("https://evil.example", false),
        ] {
            let request = Request::options("/readyz")
                .header(ORIGIN, origin)
                .header("access-control-request-method", "GET")
                .header("access-control-request-private-network", "true")
                .body(Body::empty())
                .expect("it is a request");
            let service = TowerToHyperService::new(router.clone());
            let response = service.call(request).await.expect("a router answers");
            let headers = response.headers();
            let is_open = headers.contains_key("access-control-allow-private-network");
            assert_eq!(is_open, expected, "{origin}");
            assert_eq!(
                headers.contains_key("access-control-allow-origin"),
                expected
            );
        }
    }

    #[test]
    fn no_origin_that_a_client_makes_up_is_allowed() {
        check(&".{0,60}", |origin| {
            let is_own = Origin::of(&origin) == Origin::of("https://app.example");
            prop_assert!(is_own || !admits("https://app.example", origin.as_bytes()));
            Ok(())
        });
    }
}
