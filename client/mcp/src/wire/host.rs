//! The `Host` header and the target's host, before `rmcp` compares one of them with those that are
//! allowed.

use http::{
    HeaderMap, Uri,
    header::HOST,
    uri::{Authority, Scheme},
};

/// Whether the request has several `Host` headers, one that is more than a host and a port, or a
/// target that names another host. The answer is 400 (RFC 9112, section 3.2): a proxy before this
/// server may have read another name, and the target's counts before the header's, which alone is
/// compared with those that are allowed.
pub(super) fn is_malformed(target: &Uri, headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (None, _) => None,
        (Some(host), None) => match Authority::try_from(host.as_bytes()) {
            Ok(host) if is_plain(&host) => Some(host),
            _ => return true,
        },
        (Some(_), Some(_)) => return true,
    };
    target.authority().is_some_and(|named| {
        let port_of = |authority: &Authority| authority.port_u16().or(usual_port(target));
        let is_same = |host: &Authority| {
            host.host().eq_ignore_ascii_case(named.host()) && port_of(host) == port_of(named)
        };
        !is_plain(named) || host.is_some_and(|host| !is_same(&host))
    })
}

/// The port that the scheme of a target means where none is said.
fn usual_port(target: &Uri) -> Option<u16> {
    let scheme = target.scheme()?;
    if *scheme == Scheme::HTTP {
        return Some(80);
    }
    (*scheme == Scheme::HTTPS).then_some(443)
}

fn is_plain(authority: &Authority) -> bool {
    let behind = authority.as_str().strip_prefix(authority.host());
    behind.is_some_and(|behind| match behind.strip_prefix(':') {
        Some(port) => port.is_empty() || is_port(port),
        None => behind.is_empty(),
    })
}

/// Whether this is the number of a port, as a URL has it.
pub(crate) fn is_port(text: &str) -> bool {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    is_number && text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;
    use crate::properties::check;

    #[test]
    fn several_hosts_and_more_than_a_host_are_malformed() {
        for (hosts, expected) in [
            (&[] as &[&str], false),
            (&["shop.example"][..], false),
            (&["[::1]:8080"][..], false),
            (&["shop.example:"][..], false),
            (&["shop.example", "evil.example"][..], true),
            (&["alice@shop.example"][..], true),
            (&["shop.example:abc"][..], true),
            (&["shop.example:99999"][..], true),
            (&[""][..], true),
        ] {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(HOST, HeaderValue::from_static(host));
            }
            let target = Uri::from_static("/mcp");
            assert_eq!(is_malformed(&target, &headers), expected, "{hosts:?}");
        }
    }

    #[test]
    fn a_target_names_the_host_of_the_header() {
        for (target, host, expected) in [
            ("http://shop.example/mcp", "shop.example", false),
            ("http://SHOP.example:80/mcp", "shop.example", false),
            ("https://shop.example/mcp", "shop.example:443", false),
            ("http://shop.example:8080/mcp", "shop.example:8080", false),
            ("http://evil.example/mcp", "shop.example", true),
            ("http://shop.example:81/mcp", "shop.example", true),
            ("http://alice@shop.example/mcp", "shop.example", true),
        ] {
            let mut headers = HeaderMap::new();
            let uri = Uri::from_static(target);
            let is_plain = !target.contains('@');
            assert_eq!(is_malformed(&uri, &headers), !is_plain, "{target} alone");
            headers.insert(HOST, HeaderValue::from_static(host));
            assert_eq!(is_malformed(&uri, &headers), expected, "{target} {host}");
        }
    }

    #[test]
    fn no_host_that_a_client_makes_up_is_taken_for_the_targets() {
        let target = Uri::from_static("http://shop.example/mcp");
        check(&"(shop|evil)\\.example(:[0-9]{0,5})?|.{0,60}", |host| {
            let Ok(value) = HeaderValue::from_str(&host) else {
                return Ok(());
            };
            let mut headers = HeaderMap::new();
            headers.insert(HOST, value);
            let is_same = ["shop.example", "shop.example:", "shop.example:80"]
                .iter()
                .any(|same| same.eq_ignore_ascii_case(&host));
            prop_assert_eq!(!is_malformed(&target, &headers), is_same);
            Ok(())
        });
    }
}
