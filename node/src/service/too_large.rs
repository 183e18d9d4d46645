//! Messages over the limit. The transport refuses them before any service sees them, in its own words; the caller hears ours.

use axum::http::Response;
use tonic::{Code, Status, body::Body};

use super::status;

/// The answer to a unary call, with our code, reason and advice if the transport found the request too large. No answer of ours has
/// the transport's code for that.
pub(super) fn explain(answer: Response<Body>) -> Response<Body> {
    let code = answer.headers().get("grpc-status");
    let is_refused = code.is_some_and(|code| Code::from_bytes(code.as_bytes()) == Code::OutOfRange);
    if !is_refused {
        return answer;
    }
    let told = Status::from_header_map(answer.headers());
    let why = told.as_ref().map_or("", Status::message);
    let message =
        format!("the request is too large, and was not executed: send less at once ({why})");
    status::too_large(&message).into_http()
}
