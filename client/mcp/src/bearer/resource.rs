//! The protected resource as clients know it: its URL, and where its metadata is (RFC 9728).

use std::fmt;

use http::Uri;

/// Where a client that was refused finds out which authorization server to ask (RFC 9728, section 3).
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// A server's URL as clients reach it, which need not be what tokens say in `aud`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    url: String,
    origin: String,
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
            path: if uri.path() == "/" { "" } else { uri.path() }.to_owned(),
        })
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The URL of its metadata: the well-known path is between the host and the resource's own
    /// path.
    #[must_use]
    pub fn metadata_url(&self) -> String {
        format!("{}{WELL_KNOWN}{}", self.origin, self.path)
    }

    /// Whether the metadata is served at this path: the resource's own, with or without a last slash, and the bare one, which
    /// clients try next.
    pub(super) fn is_metadata(&self, path: &str) -> bool {
        let Some(rest) = path.strip_prefix(WELL_KNOWN) else {
            return false;
        };
        rest.is_empty() || rest.trim_end_matches('/') == self.path.trim_end_matches('/')
    }
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
    use super::*;

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
                "http://127.0.0.1:80/.well-known/oauth-protected-resource/x/{y}/*z/",
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
