//! The layer before the MCP endpoint: what of a request `rmcp` would refuse without need, or without a JSON-RPC error.

use std::{fmt, time::Instant};

use axum::{
    Json,
    body::Body,
    extract::Request,
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use helve_http::{LogThrottle, NotWhole, Room, read_whole};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ConstString as _, RequestId};
use serde_json::Value;

use super::{
    MESSAGE_BYTES_MAX,
    charged::Charge,
    content_type::{IDENTITY, is_encoded, is_type},
    host, message,
    message::Refusal,
    sse,
    weight::weigh,
};
use crate::{
    excerpt::Excerpt,
    metrics::{RequestFacts, outcome_of},
};

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const LAST_EVENT_ID: &str = "last-event-id";
/// What `rmcp` wants to read, whatever else a client accepts.
const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// A refusal as its fields, which are written only as far as they are shown.
struct Shown<'a>(&'a Refusal);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.0, formatter)
    }
}

/// Bodies that are refused have one line for many.
static REFUSED: LogThrottle = LogThrottle::new();
/// So have requests that are answered with an error: `rmcp` would have one for each, as long as a caller likes.
static FAILED: LogThrottle = LogThrottle::new();

/// What a message says that matters to sessions of the protocols before 2026-07-28. [`shape`] puts
/// it into the request's extensions.
#[derive(Debug, Clone)]
struct Says {
    /// The id, if it is a request.
    id: Option<RequestId>,
    /// Whether it may begin a session. The method alone says so: `rmcp` begins one for each
    /// `initialize`, whichever version the headers or the parameters name.
    begins: bool,
}

/// Whether a request may begin a session, as far as is known: what was not read may.
pub(crate) fn may_begin_session(request: &Request) -> bool {
    let is_post = request.method() == Method::POST;
    let read: Option<&Says> = request.extensions().get();
    is_post && read.is_none_or(|says| says.begins)
}

/// The id of the message, if it is a request.
pub(crate) fn request_id(request: &Request) -> Option<RequestId> {
    let read: Option<&Says> = request.extensions().get();
    read.and_then(|says| says.id.clone())
}

/// The answer to a request whose id another one of the same session has that is under way, or had
/// that ended without an answer.
pub(crate) fn in_use(id: &RequestId) -> Response {
    let refusal = Refusal::in_use(id);
    log(&refusal);
    refused(StatusCode::BAD_REQUEST, &refusal)
}

/// Reads a request before `rmcp` does, and gives its answer the form that clients expect.
pub(crate) async fn shape(mut request: Request, next: Next) -> Response {
    let method = request.method().clone();
    if host::is_malformed(request.uri(), request.headers()) {
        let host = request.headers().get(header::HOST);
        log_failed(StatusCode::BAD_REQUEST, None, host);
        let why = "send one Host header, with a host and maybe a port, those of the target\n";
        return (StatusCode::BAD_REQUEST, why).into_response();
    }
    // Nothing can be resumed: an id that a client names is of a stream that is gone.
    request.headers_mut().remove(LAST_EVENT_ID);
    let needed = if method == Method::GET { EVENTS } else { JSON };
    if accepts(request.headers(), needed) {
        request.headers_mut().insert(header::ACCEPT, BOTH);
    }
    let (mut request, message) = match read_message(request).await {
        Ok(read) => read,
        Err(refused) => return refused,
    };
    if let Some(message) = &message {
        request.extensions_mut().insert(says(message));
    }
    let host = request.headers().get(header::HOST).cloned();
    let named = message.as_ref().and_then(method_of).map(str::to_owned);
    // `rmcp` parses it again: it is not held twice.
    drop(message);
    let mut response = next.run(request).await;
    let status = response.status();
    let mut has_failed = false;
    if method == Method::DELETE && response.status() == StatusCode::ACCEPTED {
        return StatusCode::NO_CONTENT.into_response();
    }
    if method == Method::POST {
        let (settled, outcome) = outcome_of(sse::settled(response).await).await;
        has_failed = outcome == Some("error");
        response = settled;
        let told = RequestFacts::new(named.as_deref(), outcome);
        response.extensions_mut().insert(told);
    }
    if status == StatusCode::NOT_ACCEPTABLE {
        // `rmcp` names two media types, of which one is enough here.
        let why = format!("answers here are {needed}: accept that, or send no Accept header\n");
        *response.body_mut() = Body::from(why);
    }
    let is_error = status.is_client_error() || status.is_server_error();
    if is_error || has_failed {
        log_failed(status, named.as_deref(), host.as_ref());
    }
    if is_error && !response.headers().contains_key(header::CONTENT_TYPE) {
        response.headers_mut().insert(header::CONTENT_TYPE, TEXT);
    }
    response
}

fn says(message: &ClientJsonRpcMessage) -> Says {
    match message {
        ClientJsonRpcMessage::Request(request) => Says {
            id: Some(request.id.clone()),
            begins: matches!(request.request, ClientRequest::InitializeRequest(_)),
        },
        _ => Says {
            id: None,
            begins: false,
        },
    }
}

/// The method that a message names, if it is a request or a notification that the specification knows.
fn method_of(message: &ClientJsonRpcMessage) -> Option<&str> {
    use rmcp::model::ClientNotification::{
        CancelledNotification, CustomNotification, InitializedNotification, ProgressNotification,
        RootsListChangedNotification,
    };
    match message {
        ClientJsonRpcMessage::Request(request) => Some(request.request.method()),
        ClientJsonRpcMessage::Notification(notification) => match &notification.notification {
            CancelledNotification(it) => Some(it.method.as_str()),
            ProgressNotification(it) => Some(it.method.as_str()),
            InitializedNotification(it) => Some(it.method.as_str()),
            RootsListChangedNotification(it) => Some(it.method.as_str()),
            CustomNotification(it) => Some(it.method.as_str()),
            _ => None,
        },
        _ => None,
    }
}

/// The same request, and its message if it bears one as JSON.
///
/// # Errors
/// The answer to a body that is encoded, does not arrive, is too large, or is no message.
pub(crate) async fn read_message(
    mut request: Request,
) -> Result<(Request, Option<ClientJsonRpcMessage>), Response> {
    let room = request.extensions_mut().remove::<Room>();
    if request.method() != Method::POST || !is_type(request.headers(), JSON) {
        return Ok((request, None));
    }
    if is_encoded(request.headers()) {
        let refusal = Refusal::encoded();
        log(&refusal);
        let mut answer = refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, &refusal);
        // It was the coding, not the media type (RFC 9110, section 15.5.16).
        let headers = answer.headers_mut();
        headers.insert(header::ACCEPT_ENCODING, IDENTITY);
        return Err(answer);
    }
    let (mut parts, body) = request.into_parts();
    let body = match read_whole(body, MESSAGE_BYTES_MAX).await {
        Ok(body) => body,
        Err(NotWhole::TooLarge) => {
            let refusal = Refusal::too_large(Value::Null);
            return Err(refused(StatusCode::PAYLOAD_TOO_LARGE, &refusal));
        }
        Err(NotWhole::Broken(error)) => {
            tracing::debug!(%error, "a body did not arrive");
            let why = "the body did not arrive whole: send it again\n";
            return Err((StatusCode::BAD_REQUEST, why).into_response());
        }
    };
    let body = body.slice_ref(message::unmarked(&body));
    let weight = weigh(&body).map_err(|refusal| {
        log(&refusal);
        refused(StatusCode::PAYLOAD_TOO_LARGE, &refusal)
    })?;
    // Once for each request: what guards the server may have read it before.
    if let Some(room) = room {
        if let Err(error) = room.claim(weight) {
            return Err((StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response());
        }
        parts.extensions.insert(Charge::new(room));
    }
    match message::read(&body) {
        Ok(message) => Ok((Request::from_parts(parts, Body::from(body)), Some(message))),
        Err(refusal) => {
            log(&refusal);
            let status = match refusal.is_too_large() {
                true => StatusCode::PAYLOAD_TOO_LARGE,
                false => StatusCode::BAD_REQUEST,
            };
            Err(refused(status, &refusal))
        }
    }
}

fn log(refusal: &Refusal) {
    if let Some(count) = REFUSED.count(Instant::now()) {
        let why = Excerpt::reason(Shown(refusal));
        tracing::info!(count, %why, "bodies were refused, the last one for this");
    }
}

/// What operators are told of errors: which method, and by which name the server was called.
fn log_failed(status: StatusCode, method: Option<&str>, host: Option<&HeaderValue>) {
    if let Some(count) = FAILED.count(Instant::now()) {
        let status = status.as_u16();
        let method = Excerpt::name(method.unwrap_or_default());
        let host = host.map_or("", |host| host.to_str().unwrap_or("not ASCII"));
        let host = Excerpt::name(host);
        tracing::info!(count, status, %method, %host, "requests were answered with an error, the last one with this");
    }
}

fn refused(status: StatusCode, refusal: &Refusal) -> Response {
    // JSON-RPC wants null for what was not parsed, though a part of it can be read.
    let id = if refusal.is_unparsed() {
        &Value::Null
    } else {
        &refusal.envelope.id
    };
    (status, Json(refusal.answer(id))).into_response()
}

/// Whether the client accepts this media type (RFC 9110, section 12.5.1): the most specific range that matches decides, and no
/// header accepts everything.
fn accepts(headers: &HeaderMap, wanted: &str) -> bool {
    let mut best: Option<(usize, bool)> = None;
    for value in headers.get_all(header::ACCEPT) {
        for range in value.to_str().unwrap_or_default().split(',') {
            let mut parameters = range.split(';').map(str::trim);
            let Some(specificity) = specificity(parameters.next().unwrap_or_default(), wanted)
            else {
                continue;
            };
            let is_wanted = !parameters.any(is_zero_weight);
            if best.is_none_or(|(least, _)| specificity > least) {
                best = Some((specificity, is_wanted));
            }
        }
    }
    best.map_or(!headers.contains_key(header::ACCEPT), |(_, is_wanted)| {
        is_wanted
    })
}

/// How narrow a range is, if the type is in it.
fn specificity(range: &str, wanted: &str) -> Option<usize> {
    let (group, _) = wanted.split_once('/')?;
    if range == "*/*" {
        Some(0)
    } else if range.eq_ignore_ascii_case(&format!("{group}/*")) {
        Some(1)
    } else {
        range.eq_ignore_ascii_case(wanted).then_some(2)
    }
}

fn is_zero_weight(parameter: &str) -> bool {
    let Some((name, weight)) = parameter.split_once('=') else {
        return false;
    };
    let weight = weight.trim();
    let is_zero = weight.starts_with('0') && weight.chars().all(|c| matches!(c, '0' | '.'));
    name.trim().eq_ignore_ascii_case("q") && is_zero
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::pieces::pieces;

    #[tokio::test]
    async fn message_in_pieces_is_held_once() {
        let mut request = Request::new(pieces(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#));
        *request.method_mut() = Method::POST;
        let json = HeaderValue::from_static(JSON);
        request.headers_mut().insert(header::CONTENT_TYPE, json);
        let (_, message) = read_message(request).await.unwrap();
        assert!(message.is_some());
    }

    #[test]
    fn accept_headers_mean_what_http_says() {
        let headers = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().expect("it is text"));
            headers
        };
        for accept in [
            "*/*",
            "application/*",
            "application/json",
            "text/html, */*;q=0.1",
            "APPLICATION/JSON ; q=0.5",
            "*/*;q=0, application/json",
            "application/json, text/event-stream",
        ] {
            assert!(accepts(&headers(accept), JSON), "{accept}");
        }
        for accept in [
            "text/html",
            "text/event-stream",
            "application/json;q=0",
            "*/*, application/json;q=0.000",
            "application/*;q=0, */*",
            "",
        ] {
            assert!(!accepts(&headers(accept), JSON), "{accept}");
        }
        assert!(accepts(&HeaderMap::new(), JSON));
        assert!(accepts(&headers("text/*"), EVENTS));
    }
}
