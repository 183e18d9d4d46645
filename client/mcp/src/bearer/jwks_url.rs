//! A JWK set that an issuer serves, and its fetch.

use std::{fmt, sync::Arc, time::Duration};

use axum::body::Bytes;
use helve_http::{NotWhole, read_whole};
use helve_proto::{is_loopback_host, shown_url};
use helve_seal::Looks;
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use http_body_util::Empty;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;
use url::Url;

use super::{
    jwks::{self, Found},
    key::Origin,
    tried,
};

/// Bytes of a set.
const SET_BYTES_MAX: usize = 1 << 20;
/// How long a fetch may take, from the look-up of the name to the last byte.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a set is used that does not say how long it may be.
const FRESH_DEFAULT: Duration = Duration::from_secs(300);
/// Characters of what a server sent that are repeated in an error.
const SHOWN_CHARS_MAX: usize = 200;

/// Where an issuer serves its JWK set: an `https` URL, or an `http` one of this machine.
#[derive(Clone)]
pub struct JwksUrl {
    url: Box<Url>,
    client: Arc<HttpClient>,
    fetch_timeout: Duration,
}

type HttpClient = Client<HttpsConnector<HttpConnector>, Empty<Bytes>>;

/// Why a text is no URL to fetch keys from.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub struct JwksUrlError {
    problem: String,
}

/// Why a set was not fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The server was not reached, or the connection broke.
    #[error("cannot reach {url}: {source}")]
    Unreachable {
        /// The URL.
        url: String,
        /// What happened.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It took too long.
    #[error("{url} did not answer within {} s", within.as_secs())]
    Slow {
        /// The URL.
        url: String,
        /// How long it was given.
        within: Duration,
    },
    /// It answered with a redirect. None is followed: it could lead to somebody else's keys.
    #[error("{url} redirects to {to}: if that is the issuer's, name it instead")]
    Redirect {
        /// The URL.
        url: String,
        /// Where to, shortened.
        to: String,
    },
    /// It answered with another status than 200.
    #[error("{url} answered {status}")]
    Status {
        /// The URL.
        url: String,
        /// The status.
        status: StatusCode,
    },
    /// It says that its body is no JSON, such as a page that asks to log in.
    #[error(
        "{url} answered with {found}, not with JSON: serve the set as application/jwk-set+json"
    )]
    NotJson {
        /// The URL.
        url: String,
        /// Its `Content-Type`, shortened.
        found: String,
    },
    /// Its body is too large.
    #[error("{url} answered with over {SET_BYTES_MAX} bytes")]
    TooLarge {
        /// The URL.
        url: String,
    },
    /// Its body is no JWK set.
    #[error("{url} answered with no JWK set, but what looks like {looks}: {source}")]
    Malformed {
        /// The URL.
        url: String,
        /// The body's form.
        looks: Looks,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// The set holds keys of which a token would have to be tried against too many.
    #[error("{url} is refused: {problem}")]
    Alike {
        /// The URL.
        url: String,
        /// Which keys, and what to do.
        problem: String,
    },
    /// The set holds no key that can be used. Only an error when a server starts.
    #[error("{url} holds no usable key{}", first(skipped))]
    NoKey {
        /// The URL.
        url: String,
        /// Its entries that cannot be used, and why.
        skipped: Vec<String>,
    },
}

fn first(skipped: &[String]) -> String {
    let first = skipped.first();
    first.map_or_else(String::new, |why| format!(" ({why})"))
}

/// A set as it was fetched.
pub(super) struct Fetched {
    pub(super) found: Found,
    /// How long it is used before it is fetched again.
    pub(super) fresh: Duration,
    /// SHA-256 of the body.
    pub(super) digest: [u8; 32],
}

impl JwksUrl {
    /// Parses a URL.
    ///
    /// # Errors
    /// If it is no URL, holds a user name, a password or a fragment, or is an `http` URL of another
    /// machine: an intermediary could put keys of its own in its place.
    pub fn parse(text: &str) -> Result<Self, JwksUrlError> {
        let url = checked(text)?;
        let roots = match url.scheme() {
            "https" => machines_roots()?,
            _ => RootCertStore::empty(),
        };
        Self::trusting(url, roots)
    }

    fn trusting(url: Url, roots: RootCertStore) -> Result<Self, JwksUrlError> {
        let client = client(&url, roots).map_err(|problem| JwksUrlError { problem })?;
        Ok(Self {
            url: Box::new(url),
            client: Arc::new(client),
            fetch_timeout: FETCH_TIMEOUT,
        })
    }

    /// The same, which trusts the certificates that these authorities signed, and gives a fetch this long.
    #[cfg(test)]
    pub(super) fn of_test(text: &str, roots: RootCertStore, fetch_timeout: Duration) -> Self {
        let url = checked(text).unwrap();
        Self {
            fetch_timeout,
            ..Self::trusting(url, roots).unwrap()
        }
    }

    fn shown(&self) -> String {
        shown_url(self.url.as_str())
    }

    /// Fetches the set, following no redirect and through no proxy.
    pub(super) async fn fetch(&self) -> Result<Fetched, FetchError> {
        let within = self.fetch_timeout;
        match timeout(within, self.exchange()).await {
            Ok(fetched) => fetched,
            Err(_) => Err(FetchError::Slow {
                url: self.shown(),
                within,
            }),
        }
    }

    async fn exchange(&self) -> Result<Fetched, FetchError> {
        let url = self.shown();
        let unreachable = |source| FetchError::Unreachable {
            url: self.shown(),
            source,
        };
        let request = Request::get(self.url.as_str())
            .header(header::ACCEPT, "application/jwk-set+json, application/json")
            .header(
                header::USER_AGENT,
                concat!("helve/", env!("CARGO_PKG_VERSION")),
            )
            .body(Empty::new())
            .map_err(|error| unreachable(error.into()))?;
        let response = self.client.request(request).await;
        let response = response.map_err(|error| unreachable(deepest(&error)))?;
        let status = response.status();
        let location = response.headers().get(header::LOCATION);
        if let Some(to) = location.filter(|_| status.is_redirection()) {
            let to = shortened(Some(to));
            return Err(FetchError::Redirect { url, to });
        }
        if status != StatusCode::OK {
            return Err(FetchError::Status { url, status });
        }
        let content_type = response.headers().get(header::CONTENT_TYPE);
        if !content_type.is_none_or(is_json) {
            let found = shortened(content_type);
            return Err(FetchError::NotJson { url, found });
        }
        let fresh = fresh(response.headers());
        let body = match read_whole(response.into_body(), SET_BYTES_MAX).await {
            Ok(body) => body,
            Err(NotWhole::TooLarge) => return Err(FetchError::TooLarge { url }),
            Err(NotWhole::Broken(error)) => return Err(unreachable(error.into())),
        };
        let found = match jwks::parse(&body, Origin::Url) {
            Ok(found) => found,
            Err(source) => {
                let looks = Looks::of(&body);
                return Err(FetchError::Malformed { url, looks, source });
            }
        };
        let all: Vec<_> = found.keys.iter().collect();
        if let Err(problem) = tried::check(&all) {
            return Err(FetchError::Alike { url, problem });
        }
        Ok(Fetched {
            found,
            fresh,
            digest: Sha256::digest(&body).into(),
        })
    }

    pub(super) fn no_key(&self, skipped: Vec<String>) -> FetchError {
        let url = self.shown();
        FetchError::NoKey { url, skipped }
    }
}

impl fmt::Debug for JwksUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JwksUrl").field(&self.shown()).finish()
    }
}

/// Without its query, which may hold a key.
impl fmt::Display for JwksUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

/// The URL, if keys may be fetched from it.
fn checked(text: &str) -> Result<Url, JwksUrlError> {
    let refused = |problem: String| JwksUrlError { problem };
    let url = Url::parse(text).map_err(|error| refused(format!("it is no URL: {error}")))?;
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        let problem = "leave out the user name, the password and the fragment";
        return Err(refused(problem.to_owned()));
    }
    let is_here = url.host_str().is_some_and(is_loopback_host);
    match (url.scheme(), is_here) {
        ("https", _) | ("http", true) => Ok(url),
        ("http", false) => {
            let problem = "http is for this machine alone (127.0.0.1, ::1, localhost): on the way \
                 the keys could be replaced; name an https URL";
            Err(refused(problem.to_owned()))
        }
        (scheme, _) => Err(refused(format!("`{scheme}` is not https"))),
    }
}

/// The beginning of what a server sent.
fn shortened(value: Option<&HeaderValue>) -> String {
    let text = String::from_utf8_lossy(value.map_or(&[], HeaderValue::as_bytes));
    text.chars().take(SHOWN_CHARS_MAX).collect()
}

/// Whether a body of this type is JSON (RFC 6839, section 3.1).
fn is_json(content_type: &HeaderValue) -> bool {
    let text = content_type.to_str().unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default().trim();
    let essence = essence.to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

/// The machine's certificate authorities.
fn machines_roots() -> Result<RootCertStore, JwksUrlError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        let problem = "this machine has no certificate authorities: install ca-certificates, \
             or name a file of them in SSL_CERT_FILE";
        let problem = problem.to_owned();
        return Err(JwksUrlError { problem });
    }
    Ok(roots)
}

/// A client that trusts these certificate authorities, if it speaks TLS.
fn client(url: &Url, roots: RootCertStore) -> Result<HttpClient, String> {
    let tls = url.scheme() == "https";
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let builder = HttpsConnectorBuilder::new().with_tls_config(config);
    let connector = if tls {
        builder.https_only().enable_http1().build()
    } else {
        builder.https_or_http().enable_http1().build()
    };
    let mut client = Client::builder(TokioExecutor::new());
    Ok(client.pool_max_idle_per_host(0).build(connector))
}

/// The innermost cause: hyper's own words are "client error (Connect)".
fn deepest(error: &hyper_util::client::legacy::Error) -> Box<dyn std::error::Error + Send + Sync> {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string().into()
}

/// How long a set may be used that came with these headers (RFC 9111, section 5.2.2): less as long as a cache on the way has held
/// it (section 5.1).
pub(super) fn fresh(headers: &HeaderMap) -> Duration {
    let said = headers.get_all(header::CACHE_CONTROL).iter();
    let said: Vec<_> = said.filter_map(|value| value.to_str().ok()).collect();
    let age = headers.get(header::AGE).and_then(|age| age.to_str().ok());
    let age = age.and_then(|seconds| seconds.trim().parse().ok());
    let age = Duration::from_secs(age.unwrap_or(0));
    let mut fresh = FRESH_DEFAULT;
    for directive in said.iter().flat_map(|value| value.split(',')) {
        let directive = directive.trim().to_ascii_lowercase();
        if matches!(&*directive, "no-store" | "no-cache") {
            return Duration::ZERO;
        }
        if let Some(seconds) = directive.strip_prefix("max-age=") {
            fresh = seconds.parse().map_or(Duration::ZERO, Duration::from_secs);
        }
    }
    fresh.saturating_sub(age)
}

#[cfg(test)]
mod tests;
