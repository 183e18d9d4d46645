//! HTTP with JSON beside gRPC: the unary calls of the Connect protocol (<https://connectrpc.com/docs/protocol>), over HTTP/1.1 and HTTP/2.
//!
//! A request is made one of gRPC, and goes the way of those: the same credentials, budgets, deadlines, audit log and errors. Lists are
//! streams of gRPC; here each is one page. Other streams are for gRPC alone.

mod call;
mod codec;
mod exact;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzzing;
mod intake;
mod lines;
mod names;
mod refusal;
mod reply;
mod schema;
mod shape;
mod texts;

use std::{sync::Arc, time::Duration};

use axum::http::{
    HeaderMap, HeaderValue, Method, Request, Response, Version,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, TE},
};
use tokio::time::Instant;
use tonic::{Code, Status, body::Body};

pub use self::names::NodeNames;
pub(super) use self::{call::JsonCall, reply::refused};
use self::{
    codec::{Codec, JSON, PROTO},
    refusal::Refusal,
    schema::Rpc,
};
use super::{account::Account, arriving::Arriving, failure::Failure};
use crate::limits;

const GRPC: &str = "application/grpc";
const VERSION: &str = "connect-protocol-version";
const TIMEOUT: &str = "connect-timeout-ms";

/// Whether this is a request of gRPC. Over HTTP/2 that is what a request without a content type is taken for: gRPC refuses it.
///
/// Pages in browsers can send any content type to their own origin, but HTTP/2 only over TLS, with a certificate for the page's name.
/// Elsewhere they can send no content type at all, or one of a few that are none of gRPC, unless this node allowed more.
fn is_grpc(request: &Request<Arriving>) -> bool {
    let headers = request.headers();
    request.version() == Version::HTTP_2
        && match headers.get(CONTENT_TYPE) {
            Some(content_type) => content_type.as_bytes().starts_with(GRPC.as_bytes()),
            None => request.method() == Method::POST && !names::is_of_page(headers),
        }
}

/// Gives a request that is none of gRPC the headers of one, and remembers how to answer it. `None`: it is one of gRPC, or was answered
/// with the refusal.
pub(super) fn adopt(
    request: &mut Request<Arriving>,
    names: &NodeNames,
) -> Result<Option<JsonCall>, Response<Body>> {
    if is_grpc(request) {
        return Ok(None);
    }
    names
        .check(request)
        .map_err(|failure| refused(&failure.into()))?;
    let rpc = Rpc::of(request.uri().path()).map_err(Refusal::into_response)?;
    begin(request, rpc).map(Some)
}

/// Gives a request of the console, whose path names a call, the headers of gRPC. Here a call may be a stream, too.
pub(super) fn adopt_for_console(
    request: &mut Request<Arriving>,
) -> Result<JsonCall, Response<Body>> {
    let rpc = Rpc::named(request.uri().path()).map_err(Refusal::into_response)?;
    begin(request, rpc)
}

fn begin(request: &mut Request<Arriving>, rpc: Rpc) -> Result<JsonCall, Response<Body>> {
    let call = recognize(request, rpc).map_err(Refusal::into_response)?;
    let headers = request.headers_mut();
    for name in [CONTENT_LENGTH, CONTENT_ENCODING, ACCEPT_ENCODING, EXPECT] {
        headers.remove(name);
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(GRPC));
    headers.insert(TE, HeaderValue::from_static("trailers"));
    request.extensions_mut().insert(call.clone());
    Ok(call)
}

fn recognize(request: &mut Request<Arriving>, rpc: Rpc) -> Result<JsonCall, Refusal> {
    if request.method() != Method::POST {
        return Err(Refusal::Method);
    }
    let headers = request.headers_mut();
    let codec = codec(headers)?;
    if let Some(version) = headers.get(VERSION)
        && version != "1"
    {
        return Err(Refusal::Version);
    }
    if let Some(encoding) = headers.get(CONTENT_ENCODING)
        && !encoding.as_bytes().eq_ignore_ascii_case(b"identity")
    {
        return Err(Refusal::Encoding);
    }
    let time = timeout(headers)?;
    let time = time.unwrap_or(limits::DEADLINE_DEFAULT);
    Ok(JsonCall {
        rpc,
        codec,
        until: Instant::now() + time.min(limits::LIST_TIME_MAX),
    })
}

/// The encoding that the content type names. Parameters are allowed, since many clients name a character set: JSON has but one.
fn codec(headers: &HeaderMap) -> Result<Codec, Refusal> {
    let content_type = headers.get(CONTENT_TYPE).ok_or(Refusal::ContentType)?;
    let content_type = content_type.to_str().map_err(|_| Refusal::ContentType)?;
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    match () {
        () if essence.eq_ignore_ascii_case(JSON) => Ok(Codec::Json),
        () if essence.eq_ignore_ascii_case(PROTO) => Ok(Codec::Proto),
        () => Err(Refusal::ContentType),
    }
}

/// Replaces the caller's timeout by gRPC's header, and returns it.
fn timeout(headers: &mut HeaderMap) -> Result<Option<Duration>, Refusal> {
    const DIGITS_MAX: usize = 10;
    let Some(text) = headers.remove(TIMEOUT) else {
        return Ok(None);
    };
    let digits = text.to_str().ok().filter(|text| {
        (1..=DIGITS_MAX).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_digit())
    });
    let ms: u64 = digits
        .and_then(|digits| digits.parse().ok())
        .ok_or(Refusal::Timeout)?;
    // The header of gRPC has at most eight digits.
    let grpc = match ms {
        0..=99_999_999 => format!("{ms}m"),
        _ => format!("{}S", ms / 1000),
    };
    let grpc = HeaderValue::try_from(grpc).map_err(|_| Refusal::Timeout)?;
    headers.insert("grpc-timeout", grpc);
    Ok(Some(Duration::from_millis(ms)))
}

impl JsonCall {
    /// The same request with its message as gRPC frames it. What is read and made of it is charged to the account before.
    ///
    /// # Errors
    /// If the message is too large, too slow, no JSON of this call, or there is no room for it.
    pub(super) async fn framed(
        &self,
        request: Request<Arriving>,
    ) -> Result<Request<Arriving>, Failure> {
        let (parts, body) = request.into_parts();
        let (body, intake) = body.unframed()?;
        let framed = intake::framed(self, body, &intake).await?;
        let mut body = Arriving::new(framed);
        body.begin(intake);
        Ok(Request::from_parts(parts, body))
    }

    /// The answer to the caller, from that of gRPC.
    pub(super) async fn answer(self, response: Response<Body>) -> Response<Body> {
        let (mut parts, body) = response.into_parts();
        let account = parts.extensions.get::<Arc<Account>>();
        if self.rpc.is_stream() && Status::from_header_map(&parts.headers).is_none() {
            let lines = lines::response(self.rpc, body, account.cloned());
            let (head, body) = lines.into_parts();
            parts.headers = head.headers;
            return Response::from_parts(parts, body);
        }
        let answered = match Status::from_header_map(&parts.headers) {
            Some(status) if status.code() != Code::Ok => Err(status),
            _ => reply::read(&self, body, account).await,
        };
        let answer = match answered {
            Ok(message) => reply::response(self.codec, message),
            Err(status) => refused(&status),
        };
        let (head, body) = answer.into_parts();
        parts.status = head.status;
        parts.headers = head.headers;
        Response::from_parts(parts, body)
    }
}

#[cfg(test)]
mod tests;
