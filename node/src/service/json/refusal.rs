//! Requests over HTTP that are no calls: what is wrong with each, and what to send instead.

use axum::http::{
    HeaderName, HeaderValue, Response, StatusCode,
    header::{ALLOW, CONTENT_TYPE},
};
use serde_json::json;
use tonic::body::Body;

use super::codec::JSON;

/// Why a request is no call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The path names no call.
    NoSuchCall,
    /// The path names a stream.
    Stream,
    /// Calls are posted.
    Method,
    /// The content type is none that calls have.
    ContentType,
    /// Bodies are compressed.
    Encoding,
    /// Another version of the protocol.
    Version,
    /// The timeout is no number of milliseconds.
    Timeout,
}

impl Refusal {
    const fn status(self) -> (StatusCode, &'static str) {
        match self {
            Self::NoSuchCall => (StatusCode::NOT_FOUND, "unimplemented"),
            Self::Stream => (StatusCode::NOT_IMPLEMENTED, "unimplemented"),
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "unimplemented"),
            Self::ContentType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unimplemented"),
            Self::Encoding => (StatusCode::NOT_IMPLEMENTED, "unimplemented"),
            Self::Version | Self::Timeout => (StatusCode::BAD_REQUEST, "invalid_argument"),
        }
    }

    const fn message(self) -> &'static str {
        match self {
            Self::NoSuchCall => {
                "no call has this path: POST to /helve.v1.SERVICE/CALL, as in /helve.v1.HandleService/Get"
            }
            Self::Stream => "this call is a stream, which JSON cannot carry: use gRPC",
            Self::Method => "calls are made by POST",
            Self::ContentType => {
                "the Content-Type is none of a call: send application/json, application/proto, or gRPC over HTTP/2"
            }
            Self::Encoding => "bodies are not compressed here: supported encodings: identity",
            Self::Version => {
                "this is version 1 of the Connect protocol: send Connect-Protocol-Version: 1, or leave it out"
            }
            Self::Timeout => "Connect-Timeout-Ms is a number of milliseconds of at most ten digits",
        }
    }

    /// The answer to such a request.
    pub(super) fn into_response(self) -> Response<Body> {
        let (status, code) = self.status();
        let text = json!({ "code": code, "message": self.message() }).to_string();
        let mut response = Response::new(Body::new(axum::body::Body::from(text)));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        match self {
            Self::Method => {
                headers.insert(ALLOW, HeaderValue::from_static("POST"));
            }
            Self::ContentType => {
                let types = HeaderValue::from_static("application/json, application/proto");
                headers.insert(HeaderName::from_static("accept-post"), types);
            }
            _ => {}
        }
        response
    }
}
