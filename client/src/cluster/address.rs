//! Where a node is reached.

use std::{fmt, net::Ipv6Addr, str::FromStr};

use helve_proto::{Reason, is_loopback_host};

use crate::error::Error;

/// The address of a node: `HOST:PORT`, `[IPv6]:PORT`, or either behind `http://` or `https://`. A host is not resolved before it is
/// connected to. No port is assumed: neither HTTP's nor Helve's.
///
/// ```
/// use helve_client::Address;
///
/// let address: Address = "https://[::1]:7400/".parse()?;
/// assert_eq!((address.host_and_port(), address.scheme()), ("[::1]:7400", Some("https")));
/// let refused = "helve-1".parse::<Address>().unwrap_err();
/// assert!(refused.to_string().contains("give a port, as in helve-1:7400"));
/// # Ok::<(), helve_client::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    scheme: Option<&'static str>,
    host_and_port: String,
}

impl Address {
    /// `HOST:PORT`, without scheme.
    #[must_use]
    pub fn host_and_port(&self) -> &str {
        &self.host_and_port
    }

    /// `http` or `https`, where the address names one.
    #[must_use]
    pub fn scheme(&self) -> Option<&'static str> {
        self.scheme
    }

    /// Whether it is loopback, so that what is sent there crosses no network: `localhost`, or an address of `127.0.0.0/8` or `::1`, also as
    /// IPv6 writes it (`::ffff:127.0.0.1`). Names are not resolved, and forms such as `127.1` are not recognized.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let (host, _) = self.host_and_port.rsplit_once(':').unwrap_or_default();
        is_loopback_host(host)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.host_and_port)
    }
}

impl FromStr for Address {
    type Err = Error;

    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) if it is no such address. The message says what to write instead.
    fn from_str(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        let (scheme, rest) = match text.split_once("://") {
            None => (None, text),
            Some(("http", rest)) => (Some("http"), rest),
            Some(("https", rest)) => (Some("https"), rest),
            Some((other, _)) => {
                // What is before an `@` may be a password.
                let other = other.rsplit('@').next().unwrap_or_default();
                let other: String = other.chars().take(SCHEME_CHARS_MAX).collect();
                let remedy = format!("a node is reached over http or https, not {other:?}");
                return Err(refused(text, &remedy));
            }
        };
        let host_and_port = rest.strip_suffix('/').unwrap_or(rest);
        check(host_and_port).map_err(|remedy| refused(text, &remedy))?;
        Ok(Self {
            scheme,
            host_and_port: host_and_port.to_owned(),
        })
    }
}

/// What to write instead, if that is not `HOST:PORT`.
fn check(text: &str) -> Result<(), String> {
    if text.contains(['/', '?', '#']) {
        return Err("a node has no path: give HOST:PORT alone".to_owned());
    }
    if text.contains('@') {
        return Err("a node takes no user name: give HOST:PORT, and a token by itself".to_owned());
    }
    if text.parse::<Ipv6Addr>().is_ok() {
        return Err(format!(
            "give an IPv6 address in brackets, and a port, as in [{text}]:7400"
        ));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port),
        _ => return Err(format!("give a port, as in {}:7400", shown(text))),
    };
    if host.starts_with('[') {
        if !is_bracketed(host) {
            return Err("brackets hold an IPv6 address, as in [::1]:7400".to_owned());
        }
    } else if host.contains(':') {
        return Err("give an IPv6 address in brackets, as in [::1]:7400".to_owned());
    } else {
        check_name(host)?;
    }
    match port.parse::<u16>() {
        // A sign would parse, too.
        Ok(1..) if port.bytes().all(|byte| byte.is_ascii_digit()) => Ok(()),
        _ if port.is_empty() => Err(format!("give a port, as in {host}:7400")),
        _ => Err("a port is a number from 1 to 65535".to_owned()),
    }
}

fn check_name(host: &str) -> Result<(), String> {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if host.is_empty() {
        return Err("give a host before the port, as in 127.0.0.1:7400".to_owned());
    }
    if host.len() > HOST_BYTES_MAX || !host.bytes().all(is_of_name) {
        return Err("a host is a name or an IP address, as in helve-1:7400".to_owned());
    }
    Ok(())
}

/// Bytes of the name of a host (RFC 1035, section 2.3.4).
const HOST_BYTES_MAX: usize = 255;

/// The placeholder of the host in an example.
fn shown(text: &str) -> &str {
    match text.trim_end_matches(':') {
        "" => "127.0.0.1",
        text if is_bracketed(text) || check_name(text).is_ok() => text,
        _ => "helve-1",
    }
}

/// Whether this is an IPv6 address in brackets.
fn is_bracketed(text: &str) -> bool {
    let inner = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    inner.is_some_and(|inner| inner.parse::<Ipv6Addr>().is_ok())
}

fn refused(text: &str, remedy: &str) -> Error {
    // It may be anything, a secret in the wrong place included: what is before an `@` may be a password.
    let (hidden, told) = match text.rsplit_once('@') {
        Some((_, told)) => ("...@", told),
        None => ("", text),
    };
    let head: String = told.chars().take(SHOWN_CHARS_MAX).collect();
    let cut = if head.len() < told.len() { "..." } else { "" };
    let message = format!("'{hidden}{head}{cut}' is no endpoint: {remedy}");
    Error::refused(Reason::BadRequest, message, 0, 0)
}

/// Characters of an endpoint that an error repeats.
const SHOWN_CHARS_MAX: usize = 100;
/// Characters of its scheme that the remedy repeats.
const SCHEME_CHARS_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::properties;

    #[test]
    fn address_with_host_and_port_is_taken_as_it_is() {
        for (text, expected) in [
            ("a:1", "a:1"),
            (" helve-1.example.com:7400 ", "helve-1.example.com:7400"),
            ("http://a:1", "a:1"),
            ("https://a:65535/", "a:65535"),
            ("127.0.0.1:7400", "127.0.0.1:7400"),
            ("[::1]:7400", "[::1]:7400"),
            ("http://[2001:db8::1]:7400", "[2001:db8::1]:7400"),
            ("a_b:7400", "a_b:7400"),
        ] {
            let address = text.parse::<Address>().unwrap();
            assert_eq!(address.host_and_port(), expected, "{text}");
        }
    }

    #[test]
    fn address_without_port_is_refused_with_the_remedy() {
        for (text, remedy) in [
            ("a", "as in a:7400"),
            ("a:", "as in a:7400"),
            ("http://a", "as in a:7400"),
            ("https://a/", "as in a:7400"),
            ("10.0.0.1", "as in 10.0.0.1:7400"),
            ("[::1]", "as in [::1]:7400"),
            ("[::1]:", "give a port"),
            ("http://[::1]/", "as in [::1]:7400"),
            ("::1", "as in [::1]:7400"),
            ("2001:db8::1", "as in [2001:db8::1]:7400"),
            ("fe80::1:7400", "in brackets"),
            ("", "as in 127.0.0.1:7400"),
            ("   ", "as in 127.0.0.1:7400"),
        ] {
            let refused = text.parse::<Address>().unwrap_err();
            assert_eq!(refused.reason(), Some(Reason::BadRequest), "{text}");
            assert!(refused.to_string().contains(remedy), "{text}: {refused}");
        }
    }

    #[test]
    fn address_of_another_form_is_refused() {
        for text in [
            "a:0",
            "a:65536",
            "a:+1",
            "a:-1",
            "a:b",
            "a:1:2",
            ":7400",
            "a b:1",
            "a:1/path",
            "http://a:1//",
            "http://a:1?q",
            "user@a:1",
            "user:password@a:1",
            "ftp://a:1",
            "HTTP://a:1",
            "[a]:1",
            "[::1:1",
            "[::1]a:1",
            "[fe80::1%eth0]:1",
            "\u{fc}:1",
            "a,b:1",
            "unix:/run/helve",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn refusal_repeats_a_bounded_part_and_no_password() {
        let long = "x".repeat(100_000);
        for text in [
            format!("{long}:1"),
            format!("[{long}"),
            format!("[{long}]"),
            format!("{long}://a:1"),
            format!("a:{long}"),
            format!("{long}@a"),
        ] {
            let refused = text.parse::<Address>().unwrap_err().to_string();
            assert!(refused.len() < 300, "{}", refused.len());
        }
        for text in ["user:password@a:1", "https://password@a@b:1/", "password@"] {
            let refused = text.parse::<Address>().unwrap_err().to_string();
            assert!(refused.contains("no user name"), "{refused}");
            assert!(!refused.contains("password"), "{refused}");
        }
        let refused = "user:password@x://b:1".parse::<Address>().unwrap_err();
        assert!(!refused.to_string().contains("password"), "{refused}");
    }

    #[test]
    fn address_that_a_client_makes_up_is_taken_or_refused() {
        let texts = "[ -~]{0,40}|\\PC{0,20}|\\[[0-9a-f:]{0,12}\\]:[0-9]{0,6}";
        properties::check(&texts, |text| {
            if let Ok(address) = text.parse::<Address>() {
                let (_, port) = address.host_and_port().rsplit_once(':').unwrap();
                prop_assert!(port.parse::<u16>().is_ok_and(|port| port > 0));
                let uri = format!("http://{address}").parse::<tonic::codegen::http::Uri>();
                prop_assert!(uri.is_ok_and(|uri| uri.port().is_some()), "{address}");
            }
            Ok(())
        });
    }
}
