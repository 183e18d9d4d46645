//! Answers of sessions as plain JSON.
//!
//! `rmcp` answers each request of a session with an event stream, which begins with an id and a delay for the case that it breaks.
//! A client then waits for a stream that cannot be resumed, since replicas keep no events. An answer that is one message is
//! therefore sent as JSON: a broken connection is an error at once, and no limit of an event's size applies.

use std::convert::Infallible;

use axum::{
    body::Body,
    response::{
        IntoResponse as _, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::{StreamExt as _, future, stream};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sse_stream::SseStream;

use super::{content_type::is_type, envelope::Envelope};

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The same answer as JSON, if it is an event stream of one message. Other streams are passed on, without ids.
pub(super) async fn settled(response: Response) -> Response {
    let is_stream = is_type(response.headers(), "text/event-stream");
    if response.status() != StatusCode::OK || !is_stream {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let events = SseStream::from_bytes_stream(body.into_data_stream());
    // A stream that fails is at its end: the connection breaks, and the client finds out.
    let data = events.filter_map(|event| future::ready(event.ok().and_then(|event| event.data)));
    let mut messages = Box::pin(data.filter(|data| future::ready(!data.is_empty())));
    let first = messages.next().await;
    if let Some(message) = first
        .as_ref()
        .filter(|message| is_answer(message.as_bytes()))
    {
        set_headers(&mut parts.headers);
        return Response::from_parts(parts, Body::from(message.clone()));
    }
    let events = stream::iter(first)
        .chain(messages)
        .map(|data| Ok::<_, Infallible>(Event::default().data(data)));
    let stream = Sse::new(events).keep_alive(KeepAlive::default());
    let body = stream.into_response().into_body();
    Response::from_parts(parts, body)
}

/// Whether a message of a server is the answer to a request.
pub(crate) fn is_answer(message: &[u8]) -> bool {
    let Envelope {
        has_method,
        has_outcome,
        ..
    } = Envelope::of(message);
    has_outcome && !has_method
}

fn set_headers(headers: &mut HeaderMap) {
    for name in [header::CACHE_CONTROL, header::CONNECTION] {
        headers.remove(name);
    }
    headers.remove("x-accel-buffering");
    headers.insert(header::CONTENT_TYPE, JSON);
}
