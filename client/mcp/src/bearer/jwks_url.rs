//! A JWK set that an issuer serves, and its fetch.

use std::{fmt, sync::Arc, time::Duration};

use axum::body::Bytes;
use helve_seal::Looks;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Empty, LengthLimitError, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;
use url::{Host, Url};

use super::{
    jwks::{self, Found},
    key::Origin,
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
    #[error("{url} did not answer within {} s", FETCH_TIMEOUT.as_secs())]
    Slow {
        /// The URL.
        url: String,
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
        let refused = |problem: String| JwksUrlError { problem };
        let url = Url::parse(text).map_err(|error| refused(format!("it is no URL: {error}")))?;
        if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
            let problem = "leave out the user name, the password and the fragment";
            return Err(refused(problem.to_owned()));
        }
        match (url.scheme(), is_loopback(&url)) {
            ("https", _) | ("http", true) => {}
            ("http", false) => {
                let problem = "http is for this machine alone (127.0.0.1, ::1, localhost): whoever \
                     is on the way could replace the keys; name an https URL";
                return Err(refused(problem.to_owned()));
            }
            (scheme, _) => return Err(refused(format!("`{scheme}` is not https"))),
        }
        let client = client(&url).map_err(refused)?;
        Ok(Self {
            url: Box::new(url),
            client: Arc::new(client),
        })
    }

    fn shown(&self) -> String {
        self.url.as_str().to_owned()
    }

    /// Fetches the set, following no redirect and through no proxy.
    pub(super) async fn fetch(&self) -> Result<Fetched, FetchError> {
        match timeout(FETCH_TIMEOUT, self.exchange()).await {
            Ok(fetched) => fetched,
            Err(_) => Err(FetchError::Slow { url: self.shown() }),
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
        if status.is_redirection() {
            let to = response.headers().get(header::LOCATION);
            let to = String::from_utf8_lossy(to.map_or(&[], |to| to.as_bytes()));
            let to = to.chars().take(SHOWN_CHARS_MAX).collect();
            return Err(FetchError::Redirect { url, to });
        }
        if status != StatusCode::OK {
            return Err(FetchError::Status { url, status });
        }
        let fresh = fresh(response.headers());
        let body = Limited::new(response.into_body(), SET_BYTES_MAX).collect();
        let body = match body.await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return Err(FetchError::TooLarge { url });
            }
            Err(error) => return Err(unreachable(error)),
        };
        match jwks::parse(&body, Origin::Url) {
            Ok(found) => Ok(Fetched {
                found,
                fresh,
                digest: Sha256::digest(&body).into(),
            }),
            Err(source) => Err(FetchError::Malformed {
                url,
                looks: Looks::of(&body),
                source,
            }),
        }
    }

    pub(super) fn no_key(&self, skipped: Vec<String>) -> FetchError {
        let url = self.shown();
        FetchError::NoKey { url, skipped }
    }
}

impl fmt::Debug for JwksUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JwksUrl").field(&self.url.as_str()).finish()
    }
}

impl fmt::Display for JwksUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.url.as_str())
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// A client that trusts the machine's certificate authorities, or none if it speaks plain HTTP.
fn client(url: &Url) -> Result<HttpClient, String> {
    let tls = url.scheme() == "https";
    let mut roots = RootCertStore::empty();
    if tls {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            let problem = "this machine has no certificate authorities: install ca-certificates, \
                 or name a file of them in SSL_CERT_FILE";
            return Err(problem.to_owned());
        }
    }
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

/// How long a set may be used that came with these headers (RFC 9111, section 5.2.2).
fn fresh(headers: &HeaderMap) -> Duration {
    let said = headers.get_all(header::CACHE_CONTROL).iter();
    let said: Vec<_> = said.filter_map(|value| value.to_str().ok()).collect();
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
    fresh
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use jsonwebtoken::Algorithm;
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::properties::check;

    /// A JWK of members that keys have, each with a value that fits or not.
    fn made_up_key() -> impl Strategy<Value = Value> {
        let names = [
            "kty", "crv", "alg", "kid", "use", "key_ops", "x", "y", "n", "e", "k", "d",
        ];
        let text = "EC|OKP|RSA|oct|P-256|Ed25519|HS256|ES256|sig|AQAB|[A-Za-z0-9_-]{43}|\\PC{0,9}";
        let value = prop_oneof![
            4 => text.prop_map(Value::from),
            1 => any::<u64>().prop_map(Value::from),
            1 => Just(json!(["verify"])),
            1 => Just(Value::Null),
        ];
        let member = (prop::sample::select(names.to_vec()), value);
        prop::collection::vec(member, 0..9).prop_map(|members| {
            let members = members.into_iter();
            let members: Map<_, _> = members.map(|(name, of)| (name.to_owned(), of)).collect();
            Value::Object(members)
        })
    }

    #[test]
    fn no_set_that_an_issuer_makes_up_gives_a_secret_or_panics() {
        let set = prop::collection::vec(made_up_key(), 0..4);
        let body = prop_oneof![
            3 => set.prop_map(|keys| json!({ "keys": keys }).to_string().into_bytes()),
            1 => prop::collection::vec(any::<u8>(), 0..60),
        ];
        let case = (body, "[a-z=,0-9 -]{0,30}|max-age=\\PC{0,25}");
        check(&case, |(body, said)| {
            if let Ok(found) = jwks::parse(&body, Origin::Url) {
                let mut algorithms = found.keys.iter().map(|key| key.algorithm);
                prop_assert!(algorithms.all(|algorithm| algorithm != Algorithm::HS256));
            }
            let mut headers = HeaderMap::new();
            if let Ok(said) = HeaderValue::from_str(&said) {
                headers.insert(header::CACHE_CONTROL, said);
            }
            let _any_duration = fresh(&headers);
            Ok(())
        });
    }

    #[test]
    fn only_https_and_this_machine_are_asked_for_keys() {
        let good = [
            "http://127.0.0.1:8080/jwks",
            "http://[::1]/jwks",
            "http://localhost:1/a?b=c",
        ];
        for url in good {
            assert_eq!(JwksUrl::parse(url).unwrap().to_string(), url);
        }
        let bad = [
            "",
            "jwks.json",
            "/etc/jwks.json",
            "file:///etc/jwks.json",
            "ftp://127.0.0.1/jwks",
            "http://id.example/jwks",
            "http://10.0.0.1/jwks",
            "http://127.0.0.1.id.example/jwks",
            "http://localhost.id.example/jwks",
            "http://127.0.0.1@id.example/jwks",
            "http://alice:secret@127.0.0.1/jwks",
            "http://127.0.0.1/jwks#1",
        ];
        for url in bad {
            let refused = JwksUrl::parse(url).unwrap_err();
            assert!(!refused.to_string().is_empty(), "{url}");
        }
    }

    #[test]
    fn a_set_is_fresh_as_long_as_its_headers_say() {
        let table = [
            (None, FRESH_DEFAULT),
            (Some("max-age=120"), Duration::from_secs(120)),
            (
                Some("public, MAX-AGE=600, must-revalidate"),
                Duration::from_secs(600),
            ),
            (Some("max-age=0"), Duration::ZERO),
            (Some("max-age=99999999999999999999"), Duration::ZERO),
            (Some("max-age=86400"), Duration::from_secs(86_400)),
            (Some("max-age=600, no-cache"), Duration::ZERO),
            (Some("no-store"), Duration::ZERO),
            (Some("private"), FRESH_DEFAULT),
        ];
        for (said, expected) in table {
            let mut headers = HeaderMap::new();
            if let Some(said) = said {
                headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(said));
            }
            assert_eq!(fresh(&headers), expected, "{said:?}");
        }
    }
}
