//! The media type of a body, and its coding.

use http::{HeaderMap, HeaderValue, header};

/// The coding of a body that is sent as it is.
pub(crate) const IDENTITY: HeaderValue = HeaderValue::from_static("identity");

/// Whether the body is of this media type.
pub(crate) fn is_type(headers: &HeaderMap, wanted: &str) -> bool {
    let value = headers.get(header::CONTENT_TYPE);
    let value = value.and_then(|value| value.to_str().ok());
    value.is_some_and(|value| {
        let essence = value.split(';').next().unwrap_or_default();
        essence.trim().eq_ignore_ascii_case(wanted)
    })
}

/// Whether the body is compressed, or encoded in another way, so that it cannot be read as it is.
pub(crate) fn is_encoded(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(header::CONTENT_ENCODING).iter();
    values.any(|value| {
        // Bytes that are no text name no coding that is known.
        let codings = value.to_str().unwrap_or("?").split(',').map(str::trim);
        let mut named = codings.filter(|coding| !coding.is_empty());
        named.any(|coding| !coding.eq_ignore_ascii_case("identity"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_coding_but_identity_is_one() {
        for (values, expected) in [
            (&[] as &[&str], false),
            (&["identity"][..], false),
            (&["Identity, "][..], false),
            (&[""][..], false),
            (&["gzip"][..], true),
            (&["identity, br"][..], true),
            (&["identity", "zstd"][..], true),
            (&["\u{e9}"][..], true),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                let value = HeaderValue::from_bytes(value.as_bytes()).expect("it is opaque");
                headers.append(header::CONTENT_ENCODING, value);
            }
            assert_eq!(is_encoded(&headers), expected, "{values:?}");
        }
    }
}
