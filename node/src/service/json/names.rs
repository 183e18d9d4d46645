//! Which requests a browser sent for a page, and by which names requests may call this node.
//!
//! A browser runs pages of strangers on its user's machine, from where they reach ports on loopback, and nodes that ask for no tokens.
//! With each POST it sends the page's `Origin` (Fetch, section 3.1). A page whose own name was pointed at this machine (DNS
//! rebinding) is of the node's origin for the browser, so that the origin's name alone tells nothing: any is refused. The name in
//! `Host` is checked as well, for browsers and programs that send no `Origin`.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Instant,
};

use axum::http::{
    HeaderMap, Request, Version,
    header::{HOST, ORIGIN},
    uri::Authority,
};
use helve_proto::is_loopback;
use prometheus_client::metrics::counter::Counter;

use crate::{
    config::{Auth, Config, host_and_port},
    connections::Info,
    log_throttle::LogThrottle,
    service::failure::Failure,
};

/// What browsers say of the page beside its origin (Fetch Metadata, section 2.3).
const SITE: &str = "sec-fetch-site";
/// Its value where no page sent the request: its user did.
const SITE_NONE: &str = "none";
const LOCALHOST: &str = "localhost";

const PAGE: &str = "pages in browsers cannot call a node, and this request has an `Origin` or `Sec-Fetch-Site` header, as theirs have: call from a server, or through a proxy that checks the origin and takes these headers off";
const OTHER_NAME: &str = "this node asks for no tokens and listens on loopback, so that it answers only to IP addresses, `localhost` and the host of its --advertise: call it by one of these, or start it with --advertise HOST:PORT or --auth tokens";
const NO_NAME: &str = "the request has no `Host` header, several, or one that is no HOST or HOST:PORT: send one (RFC 9112, section 3.2)";

/// The names by which callers in JSON may call this node. Cheap to clone.
#[derive(Debug, Clone)]
pub struct NodeNames {
    /// Those that are no IP addresses; `None`: any.
    known: Option<Arc<[String]>>,
    refused: Counter,
    log_throttle: Arc<LogThrottle>,
}

impl NodeNames {
    /// The names of a node so configured; refused requests are counted there.
    ///
    /// Any name will do if callers show tokens, which a browser does not send by itself, or come from beyond this machine, where
    /// names such as those of Kubernetes services are the network's. On loopback without tokens it is an IP address, which cannot
    /// be pointed elsewhere, `localhost`, or the host at which clients or peers are told to reach this node.
    #[must_use]
    pub fn of(config: &Config, refused: Counter) -> Self {
        let own = config.peers.get(&config.seat);
        let addresses = config.advertise.iter().chain(own);
        let is_open = is_open(&config.auth, config.listen);
        Self::new(is_open.then(|| addresses.map(String::as_str)), refused)
    }

    /// The names by which browsers may open the console of a node so configured; refused requests are counted there.
    ///
    /// On loopback they are as on a client port without tokens, whether there are tokens or not: the page keeps one.
    #[must_use]
    pub fn of_console(config: &Config, refused: Counter) -> Self {
        let own = config.peers.get(&config.seat);
        let addresses = config.advertise.iter().chain(own);
        let is_local = is_loopback(config.http_listen.ip());
        Self::new(is_local.then(|| addresses.map(String::as_str)), refused)
    }

    /// Those of these addresses, `HOST:PORT` each; any name if there are none given.
    fn new<'a>(addresses: Option<impl Iterator<Item = &'a str>>, refused: Counter) -> Self {
        let known = addresses.map(|addresses| {
            let hosts = addresses.filter_map(|address| host_and_port(address).ok());
            let hosts = hosts.map(|(host, _)| absolute(host).to_owned());
            hosts.chain([LOCALHOST.to_owned()]).collect()
        });
        Self {
            known,
            refused,
            log_throttle: Arc::default(),
        }
    }

    /// Refuses a request of a page, or by a name that is not this node's; counts and logs it. Nothing of its body was read.
    pub(super) fn check<B>(&self, request: &Request<B>) -> Result<(), Failure> {
        let checked = self.checked(request);
        if let Err(failure) = &checked {
            let from = request.extensions().get::<Info>().map(|info| info.from);
            self.count(from, failure);
        }
        checked
    }

    /// Counts and logs a request that was refused.
    pub(in crate::service) fn count(&self, from: Option<SocketAddr>, failure: &Failure) {
        self.refused.inc();
        match self.log_throttle.count(Instant::now()) {
            Some(count) => {
                tracing::warn!(count, ?from, why = %failure, "requests in JSON were refused, the last one from this address");
            }
            None => tracing::debug!(?from, why = %failure, "a request in JSON was refused"),
        }
    }

    /// The host by which a request calls this node, as it says it; `None` if that is no name of the node.
    ///
    /// # Errors
    /// If the request names no host, or several.
    pub(in crate::service) fn own<B>(
        &self,
        request: &Request<B>,
    ) -> Result<Option<String>, Failure> {
        let host = host(request)?.ok_or_else(|| Failure::Malformed(NO_NAME.into()))?;
        let mut names = [&host].into_iter().chain(request.uri().authority());
        let is_own = names.all(|name| self.knows(name.host()));
        Ok(is_own.then(|| host.as_str().to_owned()))
    }

    fn checked<B>(&self, request: &Request<B>) -> Result<(), Failure> {
        let host = host(request)?;
        if is_of_page(request.headers()) {
            return Err(Failure::Denied(PAGE.into()));
        }
        // That of the request's target counts before the header (RFC 9112, section 3.2.2), but no browser sends two.
        let mut names = host.iter().chain(request.uri().authority());
        match names.all(|name| self.knows(name.host())) {
            true => Ok(()),
            false => Err(Failure::Denied(OTHER_NAME.into())),
        }
    }

    fn knows(&self, host: &str) -> bool {
        let Some(known) = &self.known else {
            return true;
        };
        let inner = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        if inner.unwrap_or(host).parse::<IpAddr>().is_ok() {
            return true;
        }
        let host = absolute(host);
        known.iter().any(|name| name.eq_ignore_ascii_case(host))
    }
}

/// Whether any program of this machine may do everything, and a browser is one.
fn is_open(auth: &Auth, listen: SocketAddr) -> bool {
    *auth == Auth::None && is_loopback(listen.ip())
}

/// A name without the dot that ends it where it is absolute.
fn absolute(host: &str) -> &str {
    host.strip_suffix('.').unwrap_or(host)
}

/// Whether a browser sent it for a page.
pub(super) fn is_of_page(headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all(SITE).iter();
    headers.contains_key(ORIGIN) || sites.any(|site| site != SITE_NONE)
}

/// The host in the request's header, which only HTTP/1.1 must have.
fn host<B>(request: &Request<B>) -> Result<Option<Authority>, Failure> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (None, _) if request.version() != Version::HTTP_11 => return Ok(None),
        (Some(host), None) => Authority::try_from(host.as_bytes()).ok(),
        _ => None,
    };
    let host = host.filter(is_host_and_port);
    host.map(Some)
        .ok_or_else(|| Failure::Malformed(NO_NAME.into()))
}

/// Whether it is a host, and perhaps a port, and nothing else: the parser also takes a user's name, and text behind an address.
fn is_host_and_port(authority: &Authority) -> bool {
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let behind = authority.as_str().strip_prefix(authority.host());
    !authority.host().is_empty()
        && behind.is_some_and(|behind| {
            behind.is_empty() || behind.strip_prefix(':').is_some_and(is_port)
        })
}

#[cfg(test)]
impl NodeNames {
    /// Of a node that may be called by any name.
    pub(super) fn any() -> Self {
        Self::new(None::<std::iter::Empty<&str>>, Counter::default())
    }

    /// Of a node on loopback that has no other names.
    pub(in crate::service) fn local() -> Self {
        Self::new(Some(std::iter::empty()), Counter::default())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::properties::check;

    const CALL: &str = "/helve.v1.StateService/Store";

    /// On loopback, without tokens.
    fn open() -> NodeNames {
        let addresses = ["node-1.example:7400", "[::1]:7401"];
        NodeNames::new(Some(addresses.into_iter()), Counter::default())
    }

    /// Of HTTP/1.1, with these headers.
    fn request(target: &str, headers: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::post(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    }

    /// The beginning of why a request is refused; empty if it is not.
    fn refused(names: &NodeNames, request: &Request<()>) -> &'static str {
        let before = names.refused.get();
        let refused = match names.check(request) {
            Ok(()) => "",
            Err(Failure::Denied(why)) if why == PAGE => "page",
            Err(Failure::Denied(why)) if why == OTHER_NAME => "name",
            Err(Failure::Malformed(why)) if why == NO_NAME => "none",
            Err(other) => panic!("{other}"),
        };
        assert_eq!(names.refused.get() - before, u64::from(!refused.is_empty()));
        refused
    }

    #[test]
    fn page_of_any_origin_is_refused() {
        let host = ("host", "localhost:7400");
        for (name, value, expected) in [
            ("origin", "https://evil.example", "page"),
            ("origin", "http://localhost:7400", "page"),
            ("origin", "null", "page"),
            ("origin", "", "page"),
            ("sec-fetch-site", "cross-site", "page"),
            ("sec-fetch-site", "same-site", "page"),
            ("sec-fetch-site", "same-origin", "page"),
            ("sec-fetch-site", "none", ""),
            ("sec-fetch-mode", "cors", ""),
            ("referer", "https://shop.example/", ""),
        ] {
            let headers = [host, (name, value)];
            for names in [open(), NodeNames::any()] {
                let found = refused(&names, &request(CALL, &headers));
                assert_eq!(found, expected, "{name}: {value}");
            }
        }
        let twice = [host, ("sec-fetch-site", "none"), ("sec-fetch-site", "x")];
        assert_eq!(refused(&open(), &request(CALL, &twice)), "page");
    }

    #[test]
    fn open_node_answers_to_its_own_names_only() {
        for (host, expected) in [
            ("127.0.0.1:7400", ""),
            ("127.0.0.1", ""),
            ("[::1]:7400", ""),
            ("[fd00::7]", ""),
            ("10.0.0.7:80", ""),
            ("localhost", ""),
            ("LOCALHOST:7400", ""),
            ("localhost.:7400", ""),
            ("Node-1.example", ""),
            ("node-1.example.:80", ""),
            ("evil.example:18400", "name"),
            ("localhost.evil.example", "name"),
            ("127.0.0.1.evil.example", "name"),
            ("x.node-1.example", "name"),
            ("127.1", "name"),
            ("0x7f.0.0.1", "name"),
            ("2130706433", "name"),
            ("localhost..", "name"),
        ] {
            let request = request(CALL, &[("host", host)]);
            assert_eq!(refused(&open(), &request), expected, "{host}");
            assert_eq!(refused(&NodeNames::any(), &request), "", "{host}");
        }
    }

    #[test]
    fn name_in_the_target_counts_too() {
        let own = [("host", "localhost")];
        let evil = "http://evil.example/helve.v1.StateService/Store";
        assert_eq!(refused(&open(), &request(evil, &own)), "name");
        let evil_host = [("host", "evil.example")];
        let local = "http://localhost/helve.v1.StateService/Store";
        assert_eq!(refused(&open(), &request(local, &evil_host)), "name");
        // In HTTP/2 it may be the only one.
        for (target, expected) in [(evil, "name"), (local, ""), (CALL, "")] {
            let mut request = request(target, &[]);
            *request.version_mut() = Version::HTTP_2;
            assert_eq!(refused(&open(), &request), expected, "{target}");
        }
    }

    #[test]
    fn http_1_1_needs_one_host() {
        for names in [open(), NodeNames::any()] {
            assert_eq!(refused(&names, &request(CALL, &[])), "none");
            let twice = [("host", "localhost"), ("host", "localhost")];
            assert_eq!(refused(&names, &request(CALL, &twice)), "none");
            for odd in ["", "a b", "user@localhost", ":7400", "a/b", "[::1]x", "a:x"] {
                let request = request(CALL, &[("host", odd)]);
                assert_eq!(refused(&names, &request), "none", "{odd}");
            }
            let mut older = request(CALL, &[]);
            *older.version_mut() = Version::HTTP_10;
            assert_eq!(refused(&names, &older), "");
        }
    }

    #[test]
    fn names_are_checked_on_loopback_without_tokens() {
        let tokens = Auth::Tokens { operator: None };
        for (auth, listen, expected) in [
            (&Auth::None, "127.0.0.1:7400", true),
            (&Auth::None, "127.3.2.1:7400", true),
            (&Auth::None, "[::1]:7400", true),
            (&Auth::None, "[::ffff:127.0.0.1]:7400", true),
            (&Auth::None, "0.0.0.0:7400", false),
            (&Auth::None, "10.0.0.7:7400", false),
            (&tokens, "127.0.0.1:7400", false),
        ] {
            let found = is_open(auth, listen.parse().unwrap());
            assert_eq!(found, expected, "{auth:?} {listen}");
        }
    }

    #[test]
    fn no_host_that_a_client_makes_up_passes_for_another() {
        let names = open();
        let host = r"(127\.0\.0\.1|localhost|\[::1\]|[a-z0-9.\-:@\[\]%]{0,12}){0,3}(:[0-9]{0,5})?";
        check(&host, |host| {
            if let Ok(request) = Request::post(CALL).header("host", &host).body(())
                && names.check(&request).is_ok()
            {
                let authority: Authority = host.parse().expect("it passed");
                let name = authority.host().trim_matches(['[', ']']);
                let own = ["localhost", "localhost.", "node-1.example"];
                prop_assert!(own.contains(&name) || name.parse::<IpAddr>().is_ok());
            }
            Ok(())
        });
    }
}
