//! The `Host` and `Origin` headers that a server accepts, checked before it starts.
//!
//! A value that no client ever sends would refuse everybody, and one that is wider than it reads
//! would admit pages that the operator did not mean. Both are refused, with what to write instead.

use std::net::Ipv6Addr;

use url::{Host, Url};

use crate::serve::Access;

/// Bytes of a label of a name (RFC 1035, section 2.3.4).
const LABEL_BYTES_MAX: usize = 63;

/// Why a value cannot be an allowed host or origin. The message says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{value:?} {problem}")]
pub struct NameError {
    value: String,
    problem: String,
}

impl NameError {
    fn new(value: &str, problem: impl Into<String>) -> Self {
        Self {
            value: value.to_owned(),
            problem: problem.into(),
        }
    }
}

impl Access {
    /// Access for clients that call the server by these names, and for pages of these origins.
    ///
    /// # Errors
    /// If one of them could never match, or is a wildcard: see [`host`] and [`origin`].
    pub fn checked<'a>(
        hosts: impl IntoIterator<Item = &'a str>,
        origins: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, NameError> {
        Ok(Self {
            hosts: hosts.into_iter().map(host).collect::<Result<_, _>>()?,
            origins: origins.into_iter().map(origin).collect::<Result<_, _>>()?,
            ..Self::default()
        })
    }
}

/// A `Host` header to accept, in the form in which clients send it: `shop.example`, `127.0.0.1` or
/// `[::1]`, each with a port or without. Without one, any port is accepted: this check is against
/// names that were pointed at this machine (DNS rebinding), and those differ in the name.
///
/// # Errors
/// If the value is empty, has a scheme, a path, a user name, a wildcard or port 0, or is another
/// spelling than the one that clients send.
pub fn host(value: &str) -> Result<String, NameError> {
    let text = value.trim();
    let refused = |problem: &str| Err(NameError::new(value, problem));
    if text.is_empty() {
        return refused("is no host: name one, or unset the variable that is empty");
    }
    if let Some((_, rest)) = text.split_once("://") {
        let name = rest.split(['/', '?', '#']).next().unwrap_or_default();
        return refused(&format!(
            "has a scheme, which no Host header has: write {name}"
        ));
    }
    if text.contains('*') {
        return refused("is a wildcard, and matches no Host header: name each host");
    }
    if text.contains(['/', '?', '#', '@', '\\']) || text.contains(char::is_whitespace) {
        return refused("is more than a host: write its name, and its port if it matters");
    }
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Ok(Host::<String>::Ipv6(address).to_string());
    }
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (text, None),
    };
    let parsed = Host::parse(name).ok();
    let Some(sent) = parsed
        .map(|host| host.to_string())
        .filter(|host| is_name(host))
    else {
        return refused("is no host name: write one such as shop.example or shop.example:8443");
    };
    if name.to_ascii_lowercase() != sent {
        return refused(&format!("is sent by clients as {sent}: write that"));
    }
    let Some(port) = port else {
        return Ok(sent);
    };
    if !is_port(port) {
        return refused("has no port from 1 to 65535 behind its colon");
    }
    Ok(format!("{sent}:{port}"))
}

/// An `Origin` header to accept, in the form in which browsers send it (RFC 6454, section 6.2):
/// `https://app.example`, with a port only if it is not the scheme's own. `http://localhost:*` is
/// any port.
///
/// # Errors
/// If the value is empty, `null`, a wildcard, or anything but a scheme, a host and a port; or if it
/// is another spelling than the one that browsers send.
pub fn origin(value: &str) -> Result<String, NameError> {
    let text = value.trim();
    let refused = |problem: &str| Err(NameError::new(value, problem));
    if text.is_empty() {
        return refused("is no origin: name one, or unset the variable that is empty");
    }
    if text.eq_ignore_ascii_case("null") {
        return refused("is the origin of every file and sandboxed frame: name the page's own");
    }
    if let Some(base) = text.strip_suffix(":*").filter(|base| base.contains("://")) {
        let sent = origin(base)?;
        let has_port = base
            .rsplit(']')
            .next()
            .is_some_and(|end| end.matches(':').count() > 1);
        if has_port || Url::parse(&sent).is_ok_and(|url| url.port().is_some()) {
            return refused("has a port and a wildcard for one: write either");
        }
        return Ok(format!("{sent}:*"));
    }
    if text.contains('*') {
        return refused("is a wildcard, and matches no Origin header: name each origin");
    }
    if !text.contains("://") {
        return refused(&format!(
            "has no scheme, which every Origin header has: write https://{text}"
        ));
    }
    let Ok(url) = Url::parse(text) else {
        return refused("is no origin: write one such as https://app.example");
    };
    if is_opaque(url.scheme()) || url.host_str().is_none_or(str::is_empty) {
        return refused("has no host: browsers send `null` for its pages, which anybody's have");
    }
    if !url.host_str().is_some_and(is_name) {
        return refused("has a host that no page has: write one such as https://app.example");
    }
    if let Some(of_pages) = scheme_of_pages(url.scheme()) {
        return refused(&format!(
            "has a scheme that no page has, and matches no Origin header: write {of_pages}"
        ));
    }
    if url.port() == Some(0) {
        return refused("has port 0, which no page has");
    }
    let sent = serialized(&url);
    let lower = text.to_ascii_lowercase();
    let spelled_out = default_port(url.scheme()).map(|port| format!("{sent}:{port}"));
    if lower != sent && Some(lower) != spelled_out {
        return refused(&format!("is sent by browsers as {sent}: write that"));
    }
    Ok(sent)
}

/// What rmcp is given for an origin: with its port, since it takes one without a port for any port.
pub(crate) fn with_port(sent: &str) -> String {
    match Url::parse(sent) {
        Ok(url) if url.port().is_none() => match default_port(url.scheme()) {
            Some(port) => format!("{sent}:{port}"),
            None => sent.to_owned(),
        },
        _ => sent.to_owned(),
    }
}

fn serialized(url: &Url) -> String {
    if default_port(url.scheme()).is_some() {
        return url.origin().ascii_serialization();
    }
    // Of an extension or an app: the URL standard calls these opaque, and browsers send them so.
    let port = url.port().map(|port| format!(":{port}"));
    let host = url.host_str().unwrap_or_default().to_ascii_lowercase();
    format!("{}://{host}{}", url.scheme(), port.unwrap_or_default())
}

/// Whether pages of the scheme have no origin but `null`.
fn is_opaque(scheme: &str) -> bool {
    matches!(scheme, "about" | "blob" | "data" | "file" | "javascript")
}

/// Whether a host is an address, or labels of what names are made of. The URL standard takes more,
/// which no client resolves.
fn is_name(host: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_label = |label: &str| (1..=LABEL_BYTES_MAX).contains(&label.len());
    // The dot behind the last label is sent as it is written.
    let mut labels = host.strip_suffix('.').unwrap_or(host).split('.');
    host.starts_with('[') || labels.all(|label| is_label(label) && label.bytes().all(is_part))
}

/// What to write for a scheme that is of connections, and never of the page that opens them, and
/// for one that is a slip of the pen.
fn scheme_of_pages(scheme: &str) -> Option<&'static str> {
    match scheme {
        "http" | "https" => None,
        "ws" => Some("http://"),
        "wss" | "ftp" => Some("https://"),
        _ if is_one_edit(scheme, "https") => Some("https://"),
        _ if is_one_edit(scheme, "http") => Some("http://"),
        _ => None,
    }
}

/// Whether one letter more, less or other, or two that change places, make one text the other.
fn is_one_edit(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let same = |(a, b): &(&u8, &u8)| a == b;
    let begin = one.iter().zip(other).take_while(same).count();
    let (one, other) = (&one[begin..], &other[begin..]);
    let end = one
        .iter()
        .rev()
        .zip(other.iter().rev())
        .take_while(same)
        .count();
    let (one, other) = (&one[..one.len() - end], &other[..other.len() - end]);
    match (one, other) {
        ([a, b], [c, d]) => a == d && b == c,
        _ => one.len() <= 1 && other.len() <= 1,
    }
}

fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

fn is_port(text: &str) -> bool {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    is_number && text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_taken_as_clients_send_them() {
        let table = [
            ("shop.example", "shop.example"),
            (" Shop.Example:8443 ", "shop.example:8443"),
            ("shop_1", "shop_1"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("10.0.0.1:80", "10.0.0.1:80"),
            ("::1", "[::1]"),
            ("2001:DB8:0:0:0:0:0:1", "[2001:db8::1]"),
            ("::ffff:10.0.0.1", "[::ffff:a00:1]"),
            ("shop.example.", "shop.example."),
            ("[::1]", "[::1]"),
            ("[::1]:8080", "[::1]:8080"),
        ];
        for (value, sent) in table {
            assert_eq!(host(value).as_deref(), Ok(sent), "{value}");
        }
    }

    #[test]
    fn hosts_that_never_match_are_refused_with_a_remedy() {
        let long = "a".repeat(64);
        let table = [
            ("", "unset"),
            ("  ", "unset"),
            ("https://shop.example/mcp", "write shop.example"),
            ("*", "each host"),
            ("*.shop.example", "each host"),
            ("shop.example:*", "each host"),
            ("shop.example/mcp", "its name"),
            ("shop.example/", "its name"),
            ("alice@shop.example", "its name"),
            ("a b", "its name"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("127.1", "127.0.0.1"),
            ("shop.example:0", "1 to 65535"),
            ("shop.example:", "1 to 65535"),
            ("shop.example:65536", "1 to 65535"),
            ("shop.example:+80", "1 to 65535"),
            ("shop.example:http", "1 to 65535"),
            (":8080", "no host name"),
            ("[::1", "no host name"),
            ("[2001:db8:0:0:0:0:0:1]", "[2001:db8::1]"),
            ("\"shop.example\"", "no host name"),
            ("shop.example;x", "no host name"),
            ("shop.example,b.example", "no host name"),
            ("a..b", "no host name"),
            (".a", "no host name"),
            ("a..", "no host name"),
            (".", "no host name"),
            (&long, "no host name"),
        ];
        for (value, remedy) in table {
            let refused = host(value).unwrap_err().to_string();
            assert!(refused.contains(remedy), "{value}: {refused}");
        }
    }

    #[test]
    fn origins_are_taken_as_browsers_send_them() {
        let table = [
            ("https://app.example", "https://app.example"),
            ("HTTPS://App.Example", "https://app.example"),
            ("https://app.example:443", "https://app.example"),
            ("http://localhost:6274", "http://localhost:6274"),
            ("http://[::1]:3000", "http://[::1]:3000"),
            ("https://app.example:80", "https://app.example:80"),
            ("chrome-extension://abcdef", "chrome-extension://abcdef"),
            ("capacitor://localhost", "capacitor://localhost"),
            ("tauri://localhost", "tauri://localhost"),
            ("http://localhost:*", "http://localhost:*"),
            ("http://[::1]:*", "http://[::1]:*"),
        ];
        for (value, sent) in table {
            assert_eq!(origin(value).as_deref(), Ok(sent), "{value}");
        }
    }

    #[test]
    fn origins_that_never_match_or_are_anybodys_are_refused_with_a_remedy() {
        let table = [
            ("", "unset"),
            ("null", "the page's own"),
            ("*", "each origin"),
            ("https://*.app.example", "each origin"),
            ("http://localhost:80:*", "write either"),
            ("localhost:*", "each origin"),
            ("app.example", "https://app.example"),
            ("localhost:3000", "https://localhost:3000"),
            ("https://app.example/", "write that"),
            ("https://app.example/page", "https://app.example:"),
            ("https://alice@app.example", "write that"),
            ("https://app.example?a", "write that"),
            ("https://bücher.example", "https://xn--bcher-kva.example"),
            ("https://127.1", "https://127.0.0.1"),
            ("https://app.example:0", "port 0"),
            ("https://app.example:99999", "such as"),
            ("https://", "such as"),
            ("file:///index.html", "null"),
            ("ws://app.example", "write http://"),
            ("WSS://app.example:8443", "write https://"),
            ("wss://localhost:*", "write https://"),
            ("ftp://app.example", "write https://"),
            ("htps://app.example", "write https://"),
            ("htpps://app.example", "write https://"),
            ("httpss://app.example", "write https://"),
            ("htttp://localhost:3000", "write http://"),
            ("htpt://localhost:*", "write http://"),
            ("data://x", "null"),
            ("javascript://x", "null"),
            ("blob://app.example", "null"),
            ("https://a..b", "such as"),
            ("https://app.example;x", "such as"),
            ("https://\"app.example\"", "such as"),
        ];
        for (value, remedy) in table {
            let refused = origin(value).unwrap_err().to_string();
            assert!(refused.contains(remedy), "{value}: {refused}");
        }
    }

    #[test]
    fn rmcp_is_always_given_a_port() {
        assert_eq!(with_port("https://app.example"), "https://app.example:443");
        assert_eq!(with_port("http://localhost:*"), "http://localhost:*");
        assert_eq!(with_port("http://[::1]"), "http://[::1]:80");
        assert_eq!(with_port("http://localhost:6274"), "http://localhost:6274");
    }
}
