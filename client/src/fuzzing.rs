//! What fuzz targets call, in builds for tests and fuzzing alone. Each function takes bytes that a
//! node, a client or an operator wrote, and panics if they are taken for what they are not.

#[cfg(feature = "cluster")]
use helve_proto::{ERROR_DOMAIN, Reason};
#[cfg(feature = "cluster")]
use tonic::{
    Code, Status,
    body::Body,
    codegen::http::{HeaderValue, Response},
};
#[cfg(feature = "cluster")]
use tonic_types::StatusExt as _;

#[cfg(feature = "cluster")]
pub use crate::cluster::exchange_reply;
#[cfg(feature = "cluster")]
use crate::cluster::{details::readable, line_error::LineError, verdict::Verdict};

/// Bytes of a message that a caller is shown.
const SHOWN_BYTES_MAX: usize = 400;

/// Reads the details of a failed call: the first byte is its code. They are also read as a proxy
/// may write them, in a response.
///
/// # Panics
/// If the call counts as not executed without a reason of ours, is no proxy's limit of rates, and
/// the other side knows the call; or if its code is lost.
#[cfg(feature = "cluster")]
pub fn error_details(bytes: &[u8]) {
    let Some((code, details)) = bytes.split_first() else {
        return;
    };
    let code = Code::from_i32(i32::from(code % 20));
    assert_readable(code, details);
    let status = Status::with_details(code, "what to do", details.to_vec().into());
    let info = status.get_details_error_info();
    let info = info.filter(|info| info.domain == ERROR_DOMAIN);
    let is_of_rate = code == Code::ResourceExhausted && info.is_none();
    let reason = info.and_then(|info| Reason::parse(&info.reason));
    let is_not_done = matches!(Verdict::of("a:1", &status), Verdict::NotDone { .. });
    let is_unknown_call = code == Code::Unimplemented;
    let may_be = reason.is_some() || is_of_rate || is_unknown_call;
    assert!(!is_not_done || may_be, "{status:?}");
}

#[cfg(feature = "cluster")]
fn assert_readable(code: Code, details: &[u8]) {
    let Ok(details) = HeaderValue::from_bytes(details) else {
        return;
    };
    let mut response = Response::new(Body::empty());
    let fields = response.headers_mut();
    fields.insert("grpc-status", HeaderValue::from(i32::from(code)));
    fields.insert("grpc-status-details-bin", details);
    let response = readable(response);
    let status = Status::from_header_map(response.headers());
    assert_eq!(status.map(|status| status.code()), Some(code));
}

/// Reads the head of a response: two bytes of status, and two headers with a line end between them.
///
/// # Panics
/// If the error that is shown for it is long or has several lines.
#[cfg(feature = "cluster")]
pub fn response_head(bytes: &[u8]) {
    use tonic::codegen::http::header;

    let Some((status, headers)) = bytes.split_first_chunk::<2>() else {
        return;
    };
    let mut headers = headers.splitn(2, |byte| *byte == b'\n');
    let mut header = || headers.next().unwrap_or_default();
    let response = Response::builder()
        .status(100 + u16::from_be_bytes(*status) % 900)
        .header(header::CONTENT_TYPE, header())
        .header(header::RETRY_AFTER, header())
        .body(());
    let Ok(response) = response else {
        return;
    };
    let error = LineError::of_response("a:1", &response);
    let message = error.map(|error| error.to_string()).unwrap_or_default();
    let is_short = message.len() < SHOWN_BYTES_MAX && !message.contains('\n');
    assert!(is_short, "{message}");
}

/// Checks a JSON text that is to be stored.
///
/// # Panics
/// If it passes and a parser changes it.
pub fn exact_json(bytes: &[u8]) {
    if crate::exact::check(bytes).is_err() {
        return;
    }
    let value: serde_json::Value = serde_json::from_slice(bytes).expect("it passed");
    let written = serde_json::to_vec(&value).expect("a value has a form");
    crate::exact::check(&written).expect("what was read passes again");
    let again: serde_json::Value = serde_json::from_slice(&written).expect("it passed");
    assert_eq!(value, again);
}

#[cfg(test)]
mod tests {
    use crate::seeds;

    #[test]
    fn seeds_of_each_target_hold() {
        seeds::each("exact_json", super::exact_json);
        #[cfg(feature = "cluster")]
        {
            seeds::each("error_details", super::error_details);
            seeds::each("response_head", super::response_head);
            seeds::each("exchange_reply", super::exchange_reply);
        }
    }
}
