//! Messages that no service sees: those over the limit, and those that cannot be decoded. The transport refuses them in its own words;
//! the caller hears ours.

use axum::http::Response;
use tonic::{Code, Status, body::Body};

use super::status;

/// How the transport begins what it says of a message that it cannot decode. Its code is that of faults of a node, by which a caller
/// could not tell that nothing was executed.
const UNDECODED: &str = "failed to decode Protobuf message: ";

/// The answer to a call, with our code, reason and advice if the transport refused the request's message. No answer of ours has the
/// transport's code for one that is too large, nor its words for one that cannot be decoded.
pub(super) fn explain(answer: Response<Body>) -> Response<Body> {
    let code = answer.headers().get("grpc-status");
    let code = code.map(|code| Code::from_bytes(code.as_bytes()));
    if !matches!(code, Some(Code::OutOfRange | Code::Internal)) {
        return answer;
    }
    let told = Status::from_header_map(answer.headers());
    let why = told.as_ref().map_or("", Status::message);
    if code == Some(Code::OutOfRange) {
        let message =
            format!("the request is too large, and was not executed: send less at once ({why})");
        return status::too_large(&message).into_http();
    }
    match why.strip_prefix(UNDECODED) {
        Some(why) => {
            let message = format!(
                "the message is not what the contract says, and was not executed: it cannot be decoded ({why})"
            );
            status::undecodable(&message).into_http()
        }
        None => answer,
    }
}

#[cfg(test)]
mod tests {
    use helve_proto::v1::RetrieveRequest;
    use prost::Message as _;
    use tonic_types::StatusExt as _;

    use super::*;

    fn told(status: Status) -> (Code, Option<String>) {
        let answer = explain(status.into_http());
        let told = Status::from_header_map(answer.headers()).unwrap();
        let reason = told.get_details_error_info().map(|info| info.reason);
        (told.code(), reason)
    }

    #[test]
    fn message_that_cannot_be_decoded_is_refused_as_a_bad_request() {
        // A key that is no UTF-8, and one that is a number on the wire.
        for wire in [&b"\x12\x02\xff\xfe"[..], b"\x10\x01"] {
            let wrong = RetrieveRequest::decode(wire).unwrap_err();
            let expected = (Code::InvalidArgument, Some("BAD_REQUEST".to_owned()));
            assert_eq!(
                told(Status::internal(wrong.to_string())),
                expected,
                "{wrong}"
            );
        }
        let fault = told(Status::internal("a fault of this node"));
        assert_eq!(fault, (Code::Internal, None));
        let large = told(Status::out_of_range("decoded message length too large"));
        assert_eq!(large, (Code::InvalidArgument, Some("TOO_LARGE".to_owned())));
    }
}
