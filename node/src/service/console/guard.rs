//! What every request of the console passes first, and what every answer bears: the browser is told to run nothing but this node's own
//! modules, to show the page in no other page, and to keep nothing of what the calls answer.
//!
//! No page of another origin calls the console: a browser says whose page sent a request (`Origin`, `Sec-Fetch-Site`). A name that was
//! pointed at this machine (DNS rebinding) is not one of the node's.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    body::Body,
    extract::{ConnectInfo, Request, State},
    http::{
        HeaderMap, HeaderName, HeaderValue, Response,
        header::{
            CACHE_CONTROL, CONTENT_SECURITY_POLICY, ORIGIN, REFERRER_POLICY,
            X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
        },
    },
    middleware::Next,
};

use super::{API, refused};
use crate::service::{failure::Failure, json::NodeNames};

const SITE: &str = "sec-fetch-site";

/// What the browser may load for the page, and what it may do: this node's files alone.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

const OTHER_NAME: &str = "the console of a node on loopback answers only to IP addresses, `localhost` and the hosts of its --advertise and \
                          its own seat in --peers: open it by one of these";
const OTHER_PAGE: &str = "a page of another origin sent this request, and the console's calls are for its own page and for scripts: call \
                          without `Origin` and `Sec-Fetch-Site`, or open /console/";

/// Whom the console answers.
pub(super) struct Guard {
    names: NodeNames,
}

impl Guard {
    /// Those who call a node by these names.
    pub(super) fn new(names: NodeNames) -> Self {
        Self { names }
    }

    fn check<B>(&self, request: &axum::http::Request<B>) -> Result<(), Failure> {
        let Some(host) = self.names.own(request)? else {
            return Err(Failure::Denied(OTHER_NAME.into()));
        };
        // The files are the same for everyone: a link to the page may be on any page.
        let is_call = request.uri().path().starts_with(API);
        match is_call && !is_own_page(request.headers(), &host) {
            true => Err(Failure::Denied(OTHER_PAGE.into())),
            false => Ok(()),
        }
    }
}

/// Whether a page of this host sent it, or none: a script, or the user.
fn is_own_page(headers: &HeaderMap, host: &str) -> bool {
    let is_own = |origin: &HeaderValue| {
        let name = origin
            .to_str()
            .ok()
            .and_then(|origin| origin.split_once("://"));
        name.is_some_and(|(scheme, name)| {
            matches!(scheme, "http" | "https") && name.eq_ignore_ascii_case(host)
        })
    };
    let mut sites = headers.get_all(SITE).iter();
    sites.all(|site| site == "same-origin" || site == "none")
        && headers.get_all(ORIGIN).iter().all(is_own)
        && headers.get_all(ORIGIN).iter().count() <= 1
}

/// Passes a request on, or refuses it; counts and logs what is refused.
pub(super) async fn pass(
    State(guard): State<Arc<Guard>>,
    request: Request,
    next: Next,
) -> Response<Body> {
    let is_call = request.uri().path().starts_with(API);
    let mut answer = match guard.check(&request) {
        Ok(()) => next.run(request).await,
        Err(failure) => {
            let from = request.extensions().get::<ConnectInfo<SocketAddr>>();
            guard
                .names
                .count(from.map(|ConnectInfo(from)| *from), &failure);
            refused(&failure.into())
        }
    };
    let headers = answer.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let kept = if is_call { "no-store" } else { "no-cache" };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(kept));
    answer
}

/// What every answer bears.
const HEADERS: [(HeaderName, &str); 6] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];
