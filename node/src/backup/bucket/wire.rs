//! HTTP for the object store: hyper, and rustls with the machine's certificate authorities. Plain
//! HTTP leads to this machine alone, unless the operator says otherwise.

use std::{error::Error, net::IpAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use helve_proto::is_loopback_host;
use http_body_util::{BodyExt as _, Limited};
use hyper::{Method, Uri, body::Body};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector as Tcp},
    rt::TokioExecutor,
};
use object_store::{
    ClientOptions,
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
        HttpResponse, HttpResponseBody, HttpService,
    },
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use tokio::time::timeout;

use crate::{
    backup::{store_error::StoreProblem, url::PlainHttp},
    limits::{BUCKET_ANSWER_BYTES_MAX, BUCKET_ATTEMPT_MAX},
};

/// Bytes of an answer that says what is wrong.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// Characters of the error below one of a connection.
const WHY_CHARS_MAX: usize = 80;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    #[error("plain http to {0}")]
    PlainHttp(String),
    #[error("{host} is silent")]
    Silent {
        host: String,
        limit: Duration,
        /// Whether it is what tells a machine its role, and no store.
        is_of_machine: bool,
    },
    #[error("{host}: {why}")]
    Cut {
        host: String,
        why: String,
        /// See above.
        is_of_machine: bool,
    },
}

/// The machine's certificate authorities; it may have none.
pub(super) fn authorities() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

#[derive(Debug, Clone)]
pub(super) struct Wire {
    client: Client<HttpsConnector<Tcp>, HttpRequestBody>,
    http: PlainHttp,
}

impl Wire {
    /// With these certificate authorities. Without any, no request over TLS succeeds.
    pub(super) fn new(http: PlainHttp, roots: RootCertStore) -> Result<Self, StoreProblem> {
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| StoreProblem::Environment(error.to_string()))?;
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let connector = HttpsConnectorBuilder::new().with_tls_config(config);
        let connector = connector.https_or_http().enable_http1().build();
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            http,
        })
    }

    fn is_allowed(&self, uri: &Uri) -> bool {
        let host = uri.host().unwrap_or_default();
        uri.scheme_str() == Some("https")
            || self.http == PlainHttp::Allowed
            || is_loopback_host(host)
            || is_of_machine(host)
    }
}

/// Whether a host tells a machine its role: at a link-local address, which no router passes on, or at
/// AWS's own.
fn is_of_machine(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse() {
        Ok(IpAddr::V4(address)) => address.is_link_local(),
        Ok(IpAddr::V6(address)) => address.segments().starts_with(&[0xfd00, 0x0ec2]),
        Err(_) => false,
    }
}

/// A host with its port, without what may be in front of it.
fn shown(uri: &Uri) -> String {
    let host = uri.host().unwrap_or_default();
    match uri.port_u16() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

impl HttpConnector for Wire {
    /// Of the options none is kept: who may be reached without TLS is decided here.
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Wire {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let host = shown(request.uri());
        if !self.is_allowed(request.uri()) {
            return Err(HttpError::new(
                HttpErrorKind::Unknown,
                Fault::PlainHttp(host),
            ));
        }
        let is_of_machine = is_of_machine(request.uri().host().unwrap_or_default());
        let whole_max = bytes_max(request.method(), request.uri());
        let answer = timeout(BUCKET_ATTEMPT_MAX, self.client.request(request)).await;
        let response = match answer {
            Err(_) => {
                let limit = BUCKET_ATTEMPT_MAX;
                let silent = Fault::Silent {
                    host,
                    limit,
                    is_of_machine,
                };
                return Err(HttpError::new(HttpErrorKind::Timeout, silent));
            }
            Ok(Err(error)) => {
                let kind = if error.is_connect() {
                    HttpErrorKind::Connect
                } else {
                    HttpErrorKind::Interrupted
                };
                let why = root(&error);
                let cut = Fault::Cut {
                    host,
                    why,
                    is_of_machine,
                };
                return Err(HttpError::new(kind, cut));
            }
            Ok(Ok(response)) => response,
        };
        let bytes_max = match response.status().is_success() {
            true => whole_max,
            false => Some(ERROR_BYTES_MAX),
        };
        Ok(response.map(|body| bounded(body, bytes_max)))
    }
}

/// Bytes that an answer to a request may have; `None` for what is in an object, which is not held whole.
fn bytes_max(method: &Method, uri: &Uri) -> Option<usize> {
    let host = uri.host().unwrap_or_default();
    let is_object = method == Method::GET && uri.query().is_none() && !is_of_machine(host);
    (!is_object).then_some(BUCKET_ANSWER_BYTES_MAX)
}

/// An answer that fails behind its bound.
pub(super) fn bounded<B>(body: B, bytes_max: Option<usize>) -> HttpResponseBody
where
    B: Body<Data = Bytes> + Send + Sync + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let cut = |error| HttpError::new_boxed(HttpErrorKind::Interrupted, error);
    match bytes_max {
        Some(bytes_max) => HttpResponseBody::new(Limited::new(body, bytes_max).map_err(cut)),
        None => HttpResponseBody::new(body.map_err(move |error| cut(error.into()))),
    }
}

/// The beginning of the error that is below all others.
fn root(error: &(dyn Error + 'static)) -> String {
    let mut below = error;
    while let Some(source) = below.source() {
        below = source;
    }
    below.to_string().chars().take(WHY_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    #[test]
    fn plain_http_leads_to_this_machine_alone_unless_allowed() {
        let strict = Wire::new(PlainHttp::Refused, RootCertStore::empty()).unwrap();
        let lax = Wire::new(PlainHttp::Allowed, RootCertStore::empty()).unwrap();
        for (uri, is_near) in [
            ("http://127.0.0.1:9000/b", true),
            ("http://localhost/b", true),
            ("http://[::1]:9000/b", true),
            ("http://[::ffff:127.0.0.1]:9000/b", true),
            ("http://169.254.169.254/latest", true),
            ("http://[fd00:ec2::254]/latest", true),
            ("https://s3.example/b", true),
            ("http://s3.example/b", false),
            ("http://10.0.0.7:9000/b", false),
            ("http://localhost.example/b", false),
        ] {
            let uri: Uri = uri.parse().unwrap();
            assert_eq!(strict.is_allowed(&uri), is_near, "{uri}");
            assert!(lax.is_allowed(&uri), "{uri}");
        }
    }

    #[test]
    fn host_is_shown_without_what_is_in_front_of_it() {
        let uri = Uri::from_static("http://key:secret@store.example:9000/b");
        assert_eq!(shown(&uri), "store.example:9000");
    }

    #[test]
    fn only_content_of_objects_has_no_bound() {
        let get = Method::GET;
        for (method, uri, is_bounded) in [
            (&get, "https://s3.example/b/helve/files/n/1.sst", false),
            (&get, "https://s3.example/b?list-type=2", true),
            (&get, "http://169.254.169.254/latest", true),
            (
                &Method::DELETE,
                "https://s3.example/b/helve/files/n/1.sst",
                true,
            ),
            (&Method::PUT, "https://s3.example/b/helve/backups/1", true),
        ] {
            let uri: Uri = uri.parse().unwrap();
            let most = bytes_max(method, &uri);
            assert_eq!(most.is_some(), is_bounded, "{method} {uri}");
        }
    }

    #[tokio::test]
    async fn answer_that_is_longer_than_its_bound_fails() {
        let body = || Full::new(Bytes::from_static(b"0123456789"));
        for (bytes_max, is_whole) in [(None, true), (Some(10), true), (Some(9), false)] {
            let got = bounded(body(), bytes_max).bytes().await;
            let whole = got.ok().filter(|got| got.len() == 10);
            assert_eq!(whole.is_some(), is_whole, "{bytes_max:?}");
        }
    }
}
