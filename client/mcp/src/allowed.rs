//! The `Host` and `Origin` headers that a server accepts, checked before it starts.
//!
//! A value that no client ever sends would refuse everybody, and one that is wider than it reads
//! would admit pages that the operator did not mean. Both are refused, with what to write instead.

use std::net::Ipv6Addr;

use helve_proto::shown_url;
use url::{Host, Url};

use crate::{serve::Access, wire::host::is_port};

/// Bytes of a label of a name (RFC 1035, section 2.3.4).
const LABEL_BYTES_MAX: usize = 63;
/// Bytes of a name as it is written, without the dot behind it: 255 on the wire.
const NAME_BYTES_MAX: usize = 253;
/// Words that are meant to switch the check off, and would be names that no client calls.
const SWITCHES: [&str; 3] = ["any", "none", "null"];
/// Schemes of messages, files and connections, of which no page comes.
const PAGELESS: [&str; 13] = [
    "filesystem",
    "git",
    "gopher",
    "irc",
    "ldap",
    "mailto",
    "news",
    "sftp",
    "ssh",
    "tel",
    "telnet",
    "urn",
    "view-source",
];

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
            value: shown_url(value),
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
/// names that were pointed at this machine (DNS rebinding), and those differ in the name. A default
/// port is taken, and [`warnings`] says that most clients leave it out.
///
/// # Errors
/// If the value is empty, has a scheme, a path, a user name, a wildcard or port 0; or if it is
/// another spelling than the one that clients send.
pub fn host(value: &str) -> Result<String, NameError> {
    let text = value.trim();
    let refused = |problem: &str| Err(NameError::new(value, problem));
    if text.is_empty() {
        return refused("is no host: name one, or unset the variable that is empty");
    }
    if let Some((_, rest)) = text.split_once("://") {
        let name = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let named = host(name).unwrap_or_else(|_| "a name such as shop.example".to_owned());
        return refused(&format!(
            "has a scheme, which no Host header has: write {named}"
        ));
    }
    if SWITCHES.iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return refused("is no host that a client calls: name one, or leave it out");
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

/// Warnings about hosts, as [`host`] makes them, that have a default port (80 or 443) and are not
/// there without it. Some proxies and clients send it, but browsers and most clients leave it out
/// of the header.
#[must_use]
pub fn warnings(hosts: &[String]) -> Vec<String> {
    let of_default_port = hosts.iter().filter_map(|host| {
        let (name, port) = host.rsplit_once(':')?;
        let is_alone = !hosts.iter().any(|other| other == name);
        (matches!(port, "80" | "443") && is_alone).then(|| {
            format!(
                "{host} admits only clients that send the port: browsers and most clients leave \
                 {port} out of the Host header. Add {name} for them, which admits any port"
            )
        })
    });
    of_default_port.collect()
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
        let named = origin(&format!("https://{text}"))
            .unwrap_or_else(|_| "one such as https://app.example".to_owned());
        return refused(&format!(
            "has no scheme, which every Origin header has: write {named}"
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
    let is_label = |label: &str| {
        let has_length = (1..=LABEL_BYTES_MAX).contains(&label.len());
        has_length && !label.starts_with('-') && !label.ends_with('-')
    };
    // The dot behind the last label is sent as it is written.
    let name = host.strip_suffix('.').unwrap_or(host);
    let mut labels = name.split('.');
    host.starts_with('[')
        || (name.len() <= NAME_BYTES_MAX
            && labels.all(|label| is_label(label) && label.bytes().all(is_part)))
}

/// What to write for a scheme that is of connections, and never of the page that opens them, and
/// for one that is a slip of the pen.
fn scheme_of_pages(scheme: &str) -> Option<&'static str> {
    match scheme {
        "http" | "https" => None,
        "ws" => Some("http://"),
        "wss" | "ftp" => Some("https://"),
        // What a plus joins is how a connection is made, such as `http+unix`.
        _ if PAGELESS.contains(&scheme) || scheme.contains('+') => Some("https://"),
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

#[cfg(test)]
mod tests;
