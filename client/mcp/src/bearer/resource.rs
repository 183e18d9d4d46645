//! The protected resource as clients know it: its URL, and where its metadata is (RFC 9728).

use std::fmt;

use data_encoding::HEXLOWER_PERMISSIVE;
use http::Uri;
use url::Url;

/// Where a client that was refused finds out which authorization server to ask (RFC 9728, section 3).
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// A server's URL as clients reach it, which need not be what tokens say in `aud`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    url: String,
    origin: String,
    /// Percent-encoded, as clients ask for it.
    path: String,
}

/// Why a text names no resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceError {
    /// No absolute URL.
    #[error("it is no URL with a scheme and a host, such as https://shop.example/mcp")]
    NotAbsolute,
    /// Another scheme than `https` or `http`.
    #[error("its scheme is neither https nor http")]
    Scheme,
    /// A user name, a query or a fragment.
    #[error("it has a user name, a query or a fragment, which no resource's URL has here")]
    Excess,
    /// A segment that clients leave out before they ask for the metadata.
    #[error("its path has a segment `.` or `..`: write the path that they lead to")]
    Dots,
    /// A character that would end the URL where a challenge quotes it.
    #[error("it has a quotation mark or a backslash, which no URL has: write %22 or %5C")]
    Quote,
}

impl Resource {
    /// The resource with this URL: `https`, or `http` on trusted networks, without user name, query and fragment.
    ///
    /// # Errors
    /// If it is none: do not start.
    pub fn parse(url: &str) -> Result<Self, ResourceError> {
        if url.contains('#') {
            return Err(ResourceError::Excess);
        }
        if url.contains(['"', '\\']) {
            return Err(ResourceError::Quote);
        }
        let uri: Uri = url.parse().map_err(|_| ResourceError::NotAbsolute)?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(ResourceError::NotAbsolute);
        };
        if !matches!(scheme, "https" | "http") {
            return Err(ResourceError::Scheme);
        }
        if authority.as_str().contains('@') || uri.query().is_some() {
            return Err(ResourceError::Excess);
        }
        if uri.path().split('/').any(is_dots) {
            return Err(ResourceError::Dots);
        }
        Ok(Self {
            url: url.to_owned(),
            origin: format!("{scheme}://{authority}"),
            // A slash that ends the host is no path (RFC 9728, section 3.1).
            path: match uri.path() {
                "/" => String::new(),
                path => encoded(path),
            },
        })
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The URL of its metadata, in ASCII: the well-known path is between the host and the
    /// resource's own path, which is percent-encoded.
    #[must_use]
    pub fn metadata_url(&self) -> String {
        format!("{}{WELL_KNOWN}{}", self.origin, self.path)
    }

    /// Whether the metadata is served at this path: the resource's own in any spelling, with or
    /// without a last slash, and the bare one, which clients try next.
    pub(super) fn is_metadata(&self, path: &str) -> bool {
        let Some(rest) = path.strip_prefix(WELL_KNOWN) else {
            return false;
        };
        let meant = |path: &str| decoded(path.trim_end_matches('/'));
        rest.is_empty() || meant(rest) == meant(&self.path)
    }
}

/// A path as clients ask for it: characters that no URL has, such as `é` and `{`, are
/// percent-encoded (WHATWG URL, section 4.4).
fn encoded(path: &str) -> String {
    let url = Url::parse(&format!("http://localhost{path}"));
    url.map_or_else(|_| path.to_owned(), |url| url.path().to_owned())
}

/// The bytes that a path means. Clients differ in which characters they encode, and in the case of
/// the digits.
fn decoded(path: &str) -> Vec<u8> {
    let mut rest = path.as_bytes();
    let mut meant = Vec::with_capacity(rest.len());
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..2).filter(|_| *first == b'%');
        let byte = digits.and_then(|digits| HEXLOWER_PERMISSIVE.decode(digits).ok());
        if let Some(byte) = byte {
            meant.extend(byte);
            rest = &behind[2..];
        } else {
            meant.push(*first);
            rest = behind;
        }
    }
    meant
}

/// Whether a segment of a path means this level or the one above (WHATWG URL, section 4.1).
fn is_dots(segment: &str) -> bool {
    let plain = segment.to_ascii_lowercase().replace("%2e", ".");
    matches!(&*plain, "." | "..")
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::properties::check;

    #[test]
    fn metadata_is_at_the_path_that_the_challenge_names() {
        for (url, metadata, path) in [
            (
                "https://a.example",
                "https://a.example/.well-known/oauth-protected-resource",
                "",
            ),
            (
                "https://a.example/",
                "https://a.example/.well-known/oauth-protected-resource",
                "",
            ),
            (
                "https://a.example/mcp",
                "https://a.example/.well-known/oauth-protected-resource/mcp",
                "/mcp",
            ),
            (
                "http://127.0.0.1:80/x/{y}/*z/",
                "http://127.0.0.1:80/.well-known/oauth-protected-resource/x/%7By%7D/*z/",
                "/x/{y}/*z",
            ),
        ] {
            let resource = Resource::parse(url).unwrap();
            assert_eq!(resource.metadata_url(), metadata);
            for path in [
                format!("{WELL_KNOWN}{path}"),
                format!("{WELL_KNOWN}{path}/"),
                WELL_KNOWN.to_owned(),
            ] {
                assert!(resource.is_metadata(&path), "{url} at {path}");
            }
            assert!(!resource.is_metadata("/.well-known/oauth-protected-resource/other"));
            assert!(!resource.is_metadata("/.well-known/oauth-protected-resourceful"));
        }
    }

    #[test]
    fn path_is_challenged_in_ascii_and_served_in_any_spelling() {
        for (path, encoded, other) in [
            ("/café/mcp", "/caf%C3%A9/mcp", "/c%61f%c3%a9/mcp/"),
            ("/x/{y}/mcp", "/x/%7By%7D/mcp", "/x/%7by%7d/mcp"),
            ("/caf%C3%A9/mcp", "/caf%C3%A9/mcp", "/café/mcp"),
            ("/caf%c3%a9/", "/caf%c3%a9/", "/caf%C3%A9"),
            ("/a%5Eb", "/a%5Eb", "/a^b"),
            ("/100%", "/100%", "/100%25"),
            ("//a//", "//a//", "//a"),
        ] {
            let url = format!("https://shop.example{path}");
            let resource = Resource::parse(&url).unwrap();
            assert_eq!(resource.url(), url, "what tokens name is left as it is");
            let metadata = resource.metadata_url();
            assert_eq!(
                metadata,
                format!("https://shop.example{WELL_KNOWN}{encoded}")
            );
            assert!(metadata.is_ascii(), "{metadata}");
            for asked in [path, encoded, other] {
                let asked = format!("{WELL_KNOWN}{asked}");
                assert!(resource.is_metadata(&asked), "{url} at {asked}");
            }
            for asked in ["/caf/mcp", "caf%C3%A9/mcp", "/%", "/%4"] {
                let asked = format!("{WELL_KNOWN}{asked}");
                assert!(!resource.is_metadata(&asked), "{url} at {asked}");
            }
        }
    }

    #[test]
    fn path_that_a_client_makes_up_means_the_same_however_it_is_encoded() {
        let resource = Resource::parse("https://shop.example/café/%/mcp").unwrap();
        let part = prop_oneof![
            Just("/café/%/mcp".to_owned()),
            Just("/caf%c3%A9/%25/mcp".to_owned()),
            "[%/a-f0-9é]{0,3}",
            any::<String>(),
        ];
        check(&vec(part, 0..4), |parts| {
            let path = parts.concat();
            let meant = decoded(&path);
            let whole: String = meant.iter().map(|byte| format!("%{byte:02X}")).collect();
            prop_assert_eq!(decoded(&whole), meant);
            // The slash that begins it is none of the path's own characters.
            if let Some(rest) = path.strip_prefix('/') {
                let rest: String = decoded(rest).iter().map(|b| format!("%{b:02x}")).collect();
                let [as_sent, as_encoded] =
                    [path.clone(), format!("/{rest}")].map(|path| format!("{WELL_KNOWN}{path}"));
                let is_own = path == "/café/%/mcp";
                prop_assert!(!is_own || resource.is_metadata(&as_sent));
                prop_assert!(!is_own || resource.is_metadata(&as_encoded));
            }
            Ok(())
        });
    }

    #[test]
    fn what_is_no_url_of_a_server_is_refused() {
        for (url, why) in [
            ("", ResourceError::NotAbsolute),
            ("/mcp", ResourceError::NotAbsolute),
            ("shop.example", ResourceError::NotAbsolute),
            ("api://shop", ResourceError::Scheme),
            ("https://u@shop.example/mcp", ResourceError::Excess),
            ("https://shop.example/mcp?a", ResourceError::Excess),
            ("https://shop.example/mcp#a", ResourceError::Excess),
            ("https://shop.example/a/../mcp", ResourceError::Dots),
            ("https://shop.example/./mcp", ResourceError::Dots),
            ("https://shop.example/a/%2E./mcp", ResourceError::Dots),
            ("https://shop.example/mcp/..", ResourceError::Dots),
            ("https://shop.example/m\"cp", ResourceError::Quote),
            ("https://shop.example/m\\cp", ResourceError::Quote),
        ] {
            assert_eq!(Resource::parse(url).unwrap_err(), why, "{url}");
        }
    }
}
