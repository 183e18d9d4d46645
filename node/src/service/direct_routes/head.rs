//! The bound on the head of a request, whichever version of HTTP brought it.
//!
//! The transport takes a little more, so that what is above the bound is refused in our words. What is above the transport's own bound
//! it refuses by itself, as it must: it holds that in memory before anything else sees the request.

use axum::http::{Request, Response};
use tonic::body::Body;

use crate::{
    bounds::GivenUp,
    limits::HEADER_LIST_BYTES_MAX,
    service::{budget::Budgets, status},
};

/// What HTTP/2 counts for each field beside its name and value (RFC 9113, section 6.5.2).
const FIELD_BYTES: usize = 32;

/// The refusal of a request whose head is over the bound; `None` if it is within.
pub(super) fn refused<B>(budgets: &Budgets, request: &Request<B>) -> Option<Response<Body>> {
    let (bytes, bytes_max) = (bytes(request), HEADER_LIST_BYTES_MAX as usize);
    if bytes <= bytes_max {
        return None;
    }
    budgets.give_up(GivenUp::LongHead);
    let message = format!(
        "the headers of the request take {bytes} bytes, with {FIELD_BYTES} for each, and may take {bytes_max}: it was not executed. \
         Send fewer or shorter headers; a proxy on the way may add some"
    );
    Some(status::too_large(&message).into_http())
}

/// Bytes of a head, as HTTP/2 counts them.
fn bytes<B>(request: &Request<B>) -> usize {
    let uri = request.uri();
    let authority = uri.authority().map(|name| name.as_str().len());
    let pseudo = [
        (":method", Some(request.method().as_str().len())),
        (":scheme", uri.scheme_str().map(str::len)),
        (":authority", authority),
        (
            ":path",
            uri.path_and_query().map(|path| path.as_str().len()),
        ),
    ];
    let pseudo = pseudo
        .into_iter()
        .filter_map(|(name, value)| Some((name.len(), value?)));
    let fields = request.headers().iter();
    let fields = fields.map(|(name, value)| (name.as_str().len(), value.len()));
    let all = pseudo.chain(fields);
    all.map(|(name, value)| name + value + FIELD_BYTES).sum()
}

#[cfg(test)]
mod tests {
    use tonic::{Code, Status};

    use super::*;
    use crate::bounds::Bounds;

    /// A request whose head takes this many bytes.
    fn request(head_bytes: usize) -> Request<()> {
        let with = |value: usize| {
            let request = Request::post("http://node:7400/helve.v1.HandleService/Get");
            let request = request.header("authorization", format!("Bearer {}", "x".repeat(value)));
            request.body(()).unwrap()
        };
        with(head_bytes - bytes(&with(0)))
    }

    #[test]
    fn longest_head_passes_and_one_byte_more_is_refused_and_counted() {
        let budgets = Budgets::new(Bounds::default());
        let longest = HEADER_LIST_BYTES_MAX as usize;
        assert!(refused(&budgets, &request(longest)).is_none());
        let refused = refused(&budgets, &request(longest + 1)).unwrap();
        let told = Status::from_header_map(refused.headers()).unwrap();
        assert_eq!(told.code(), Code::InvalidArgument);
        for part in ["8193 bytes", "8192", "not executed", "proxy"] {
            assert!(told.message().contains(part), "{told}");
        }
        let given_up = budgets.load().given_up;
        assert!(given_up.contains(&(GivenUp::LongHead, 1)), "{given_up:?}");
    }

    #[test]
    fn head_counts_each_field_as_http_2_does() {
        let request = Request::get("/a").header("b", "cd").body(()).unwrap();
        assert_eq!(bytes(&request), (7 + 3 + 32) + (5 + 2 + 32) + (1 + 2 + 32));
    }
}
