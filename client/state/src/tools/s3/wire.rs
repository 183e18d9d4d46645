//! HTTP for the object store: hyper, and rustls with the machine's certificate authorities.
//!
//! Not the store's own client, for two reasons: that one asks for a second library of cryptography beside the one that is here, and
//! makes a request again whose answer was lost. Here a write is made again only if it certainly never arrived.

use std::sync::Arc;

use async_trait::async_trait;
use helve_client::{Error, ErrorKind};
use http_body_util::BodyExt as _;
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

#[derive(Debug, Clone)]
pub(super) struct Wire {
    client: Client<HttpsConnector<Tcp>, HttpRequestBody>,
}

impl Wire {
    /// With the machine's certificate authorities, and never without TLS.
    pub(super) fn https() -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            let message = "this machine has no certificate authorities: install ca-certificates";
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls(roots)?);
        Ok(Self::new(builder.https_only().enable_http1().build()))
    }

    /// To an endpoint without TLS: no certificate is trusted.
    pub(super) fn http() -> Result<Self, Error> {
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls(RootCertStore::empty())?);
        Ok(Self::new(builder.https_or_http().enable_http1().build()))
    }

    fn new(connector: HttpsConnector<Tcp>) -> Self {
        Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
        }
    }
}

fn tls(roots: RootCertStore) -> Result<ClientConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::internal("no version of TLS").with_source(error))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

impl HttpConnector for Wire {
    /// Of the options, that on plain HTTP is kept; time is the tool's deadline, and there is no proxy.
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Wire {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let is_safe = request.method().is_safe();
        let response = self.client.request(request).await.map_err(|error| {
            let kind = match (error.is_connect(), is_safe) {
                (true, _) => HttpErrorKind::Connect,
                (false, true) => HttpErrorKind::Request,
                (false, false) => HttpErrorKind::Unknown,
            };
            HttpError::new(kind, error)
        })?;
        Ok(response.map(|body| {
            HttpResponseBody::new(
                body.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error)),
            )
        }))
    }
}
