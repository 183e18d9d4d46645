//! Counting requests by method and outcome.

use std::time::Instant;

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, Method as Verb, StatusCode};
use http_body_util::BodyExt as _;
use serde::{Deserialize, de::IgnoredAny};

use super::{Method, Metrics, Request as Counted};
use crate::wire::content_type::is_type;

/// The header in which a client names the method (SEP-2243).
const METHOD: &str = "mcp-method";
/// Methods that have a count of their own. Callers can name any number of others.
const KNOWN: [&str; 25] = [
    "completion/complete",
    "initialize",
    "logging/setLevel",
    "notifications/cancelled",
    "notifications/initialized",
    "notifications/progress",
    "notifications/roots/list_changed",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/directory/read",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "server/discover",
    "skills/get",
    "skills/list",
    "subscriptions/listen",
    "tasks/cancel",
    "tasks/get",
    "tasks/update",
    "tools/call",
    "tools/list",
];
/// Every other method.
const OTHER: &str = "other";
/// Paths that probes ask for.
const PROBES: [&str; 2] = ["/livez", "/readyz"];

/// What is known of a request and its answer further in than here. It travels in the answer's
/// extensions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RequestFacts {
    method: Option<&'static str>,
    outcome: Option<&'static str>,
}

impl RequestFacts {
    pub(crate) fn new(method: Option<&str>, outcome: Option<&'static str>) -> Self {
        Self {
            method: method.map(known),
            outcome,
        }
    }
}

fn known(method: &str) -> &'static str {
    KNOWN
        .iter()
        .find(|known| **known == method)
        .map_or(OTHER, |known| *known)
}

/// The method as the head says, or else the HTTP method.
fn named(verb: &Verb, headers: &HeaderMap) -> &'static str {
    match headers.get(METHOD).map(http::HeaderValue::to_str) {
        Some(Ok(method)) => known(method),
        Some(Err(_)) => OTHER,
        None => match *verb {
            Verb::GET => "GET",
            Verb::POST => "POST",
            Verb::DELETE => "DELETE",
            Verb::OPTIONS => "OPTIONS",
            _ => OTHER,
        },
    }
}

fn outcome(status: StatusCode) -> &'static str {
    match status.as_u16() {
        200..300 => "ok",
        401 => "unauthenticated",
        403 => "denied",
        404 => "not_found",
        408 => "late",
        413 | 431 => "too_large",
        429 | 503 => "overloaded",
        400..500 => "invalid",
        _ => "failed",
    }
}

/// An axum middleware that counts each request, with the server's [`Metrics`] as its state. The
/// routers of this crate have it; put it around a router of your own, outside of everything that
/// refuses requests. Probes are not counted.
pub async fn count(State(metrics): State<Metrics>, request: Request, next: Next) -> Response {
    if PROBES.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    let mut timed = Timed::begin(&metrics, named(request.method(), request.headers()));
    let response = next.run(request).await;
    let told = response.extensions().get::<RequestFacts>().copied();
    let RequestFacts {
        method,
        outcome: said,
    } = told.unwrap_or_default();
    timed.method = method.unwrap_or(timed.method);
    timed.outcome = said.unwrap_or_else(|| outcome(response.status()));
    response
}

/// A request under way. It counts as cancelled unless it was answered: its caller went away.
struct Timed<'a> {
    metrics: &'a Metrics,
    method: &'static str,
    outcome: &'static str,
    begun: Instant,
}

impl<'a> Timed<'a> {
    fn begin(metrics: &'a Metrics, method: &'static str) -> Self {
        metrics.0.in_flight.inc();
        Self {
            metrics,
            method,
            outcome: "cancelled",
            begun: Instant::now(),
        }
    }
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        let Self {
            metrics,
            method,
            outcome,
            begun,
        } = *self;
        let counters = &metrics.0;
        counters.in_flight.dec();
        let request = Counted { method, outcome };
        counters.requests.get_or_create(&request).inc();
        let seconds = counters.seconds.get_or_create(&Method { method });
        seconds.observe(begun.elapsed().as_secs_f64());
    }
}

#[derive(Deserialize)]
struct Answer {
    error: Option<IgnoredAny>,
    result: Option<Outcome>,
}

#[derive(Deserialize)]
struct Outcome {
    #[serde(rename = "isError")]
    is_error: Option<bool>,
}

/// The same answer, and its outcome where the status does not say: a JSON-RPC error, or a tool that
/// failed. A stream is passed on.
pub(crate) async fn outcome_of(response: Response) -> (Response, Option<&'static str>) {
    if response.status() != StatusCode::OK || !is_type(response.headers(), "application/json") {
        return (response, None);
    }
    let (parts, body) = response.into_parts();
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => {
            tracing::warn!(%error, "an answer broke off before it was sent");
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            let broken = (status, "the answer broke off: call again\n").into_response();
            return (broken, Some(outcome(status)));
        }
    };
    let outcome = said(&body);
    (Response::from_parts(parts, Body::from(body)), outcome)
}

fn said(body: &[u8]) -> Option<&'static str> {
    match serde_json::from_slice::<Answer>(body).ok()? {
        Answer { error: Some(_), .. } => Some("error"),
        Answer {
            result: Some(Outcome {
                is_error: Some(true),
            }),
            ..
        } => Some("tool_error"),
        Answer { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_that_callers_make_up_share_one_count() {
        assert_eq!(known("tools/call"), "tools/call");
        assert_eq!(known("tools/call "), OTHER);
        let headers = HeaderMap::new();
        assert_eq!(named(&Verb::GET, &headers), "GET");
        assert_eq!(named(&Verb::PATCH, &headers), OTHER);
        let made_up = [(METHOD, "made/up")].map(|(name, value)| {
            (
                http::HeaderName::from_static(name),
                http::HeaderValue::from_static(value),
            )
        });
        assert_eq!(named(&Verb::POST, &HeaderMap::from_iter(made_up)), OTHER);
    }

    #[tokio::test]
    async fn an_answer_of_200_says_what_failed_and_stays_as_it_is() {
        for (body, expected) in [
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"isError":false}}"#,
                None,
            ),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#, None),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}"#,
                Some("tool_error"),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"m"}}"#,
                Some("error"),
            ),
            ("no JSON", None),
        ] {
            let mut response = Response::new(Body::from(body));
            let json = http::HeaderValue::from_static("application/json");
            response
                .headers_mut()
                .insert(http::header::CONTENT_TYPE, json);
            let (response, said) = outcome_of(response).await;
            assert_eq!(said, expected, "{body}");
            let passed_on = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(passed_on, body);
        }
    }
}
