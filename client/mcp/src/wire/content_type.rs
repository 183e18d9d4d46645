//! The media type of a body.

use http::{HeaderMap, header};

/// Whether the body is of this media type.
pub(crate) fn is_type(headers: &HeaderMap, wanted: &str) -> bool {
    let value = headers.get(header::CONTENT_TYPE);
    let value = value.and_then(|value| value.to_str().ok());
    value.is_some_and(|value| {
        let essence = value.split(';').next().unwrap_or_default();
        essence.trim().eq_ignore_ascii_case(wanted)
    })
}
