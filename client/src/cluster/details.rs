//! Details of errors that are no base64, which tonic does not expect.

use std::{
    mem,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Body as _, Frame, SizeHint};
use tonic::{
    Status,
    body::Body,
    codegen::http::{HeaderMap, Response},
    metadata::MetadataMap,
};
use tracing::debug;

/// How gRPC names what explains an error, as a `google.rpc.Status` in base64.
const DETAILS: &str = "grpc-status-details-bin";

/// The response without details that are no base64, in its headers and in its trailers. A proxy may
/// write anything there, and tonic 0.14 panics on it (`Status::from_header_map`). Code and message
/// of the error are kept, as grpc-go keeps them.
pub(crate) fn readable(mut response: Response<Body>) -> Response<Body> {
    drop_unreadable(response.headers_mut());
    // A response that ends with its headers has no trailers.
    if response.body().is_end_stream() {
        return response;
    }
    response.map(|body| Body::new(WithTrailers(body)))
}

fn drop_unreadable(headers: &mut HeaderMap) {
    if !headers.contains_key(DETAILS) {
        return;
    }
    let metadata = MetadataMap::from_headers(mem::take(headers));
    let is_readable = metadata
        .get_all_bin(DETAILS)
        .iter()
        .all(|details| details.to_bytes().is_ok());
    *headers = metadata.into_headers();
    if !is_readable {
        debug!("the details of an error are no base64, and were left out");
        headers.remove(DETAILS);
    }
}

/// A body whose trailers are read by [`drop_unreadable`].
struct WithTrailers(Body);

impl hyper::body::Body for WithTrailers {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.0).poll_frame(context);
        polled.map_ok(|mut frame| {
            frame.trailers_mut().map(drop_unreadable);
            frame
        })
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, Full};
    use tonic::{Code, codegen::http::HeaderValue};

    use super::*;
    use crate::properties::check;

    /// Of an error with these details.
    fn of_error(details: &'static str) -> HeaderMap {
        let fields = [
            ("grpc-status", "14"),
            ("grpc-message", "m"),
            (DETAILS, details),
        ];
        let field = |(name, value)| (name, HeaderValue::from_static(value));
        let fields = fields.map(field).into_iter();
        fields
            .map(|(name, value)| (name.parse().expect("a name"), value))
            .collect()
    }

    fn read(fields: &HeaderMap) -> Status {
        Status::from_header_map(fields).expect("it has a code")
    }

    #[test]
    fn details_that_a_node_makes_up_leave_code_and_message() {
        check(&"[ -~]{0,40}|[A-Za-z0-9+/]{0,24}={0,3}", |details| {
            let mut fields = of_error("aGVsdmU=");
            let value = HeaderValue::try_from(details).expect("it is visible");
            fields.insert(DETAILS, value.clone());
            drop_unreadable(&mut fields);
            assert_eq!(
                (read(&fields).code(), read(&fields).message()),
                (Code::Unavailable, "m")
            );
            // A field may come twice.
            let mut twice = of_error("aGVsdmU=");
            twice.append(DETAILS, value);
            drop_unreadable(&mut twice);
            assert_eq!(
                (read(&twice).code(), read(&twice).message()),
                (Code::Unavailable, "m")
            );
            Ok(())
        });
    }

    #[tokio::test]
    async fn details_that_are_no_base64_are_left_out_and_the_error_stays() {
        for (details, read_details) in [
            ("aGVsdmU=", &b"helve"[..]),
            ("aGVsdmU", b"helve"),
            ("", b""),
            ("no base64!", b""),
            ("<html>", b""),
            ("a", b""),
            ("aGVsdmU=, aGVsdmU=", b""),
        ] {
            let mut response = Response::new(Body::empty());
            *response.headers_mut() = of_error(details);
            let status = read(readable(response).headers());
            assert_eq!(
                (status.message(), status.details()),
                ("m", read_details),
                "{details}"
            );

            let trailers = async move { Some(Ok(of_error(details))) };
            let body = Full::new(Bytes::from_static(b"body")).with_trailers(trailers);
            let response = readable(Response::new(Body::new(body)));
            let whole = response.into_body().collect().await.expect("it is whole");
            let status = read(whole.trailers().expect("it has trailers"));
            assert_eq!(
                (status.message(), status.details()),
                ("m", read_details),
                "{details}"
            );
            assert_eq!(whole.to_bytes(), "body");
        }
    }
}
