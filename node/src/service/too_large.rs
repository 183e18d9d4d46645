//! Messages over the limit. The transport refuses them before any service sees them, in its own words; the caller hears ours.

use axum::http::Response;
use tonic::{Code, body::Body};

use super::status;
use crate::limits::MESSAGE_BYTES_MAX;

/// The answer to a unary call, with our code, reason and advice if the transport found the request too large. No answer of ours has
/// the transport's code for that.
pub(super) fn explain(answer: Response<Body>) -> Response<Body> {
    let code = answer.headers().get("grpc-status");
    let is_refused = code.is_some_and(|code| Code::from_bytes(code.as_bytes()) == Code::OutOfRange);
    if !is_refused {
        return answer;
    }
    let message = format!(
        "the request is larger than the {MESSAGE_BYTES_MAX} bytes of a message, and was not executed: send less at once"
    );
    status::too_large(&message).into_http()
}
