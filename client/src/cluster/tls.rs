//! How a client knows its cluster, and how the cluster may know the client.

mod pem;
mod secured;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use helve_proto::{NotPem, Reason};
use rustls::{
    ClientConfig, RootCertStore,
    client::Resumption,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use tokio::task::spawn_blocking;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use self::pem::Pem;
pub(crate) use self::secured::Secured;
use crate::error::Error;

/// What is spoken over TLS (RFC 7301, RFC 9113).
const ALPN_H2: &[u8] = b"h2";

/// TLS to a cluster (RFC 8446; TLS 1.2 where a proxy between knows no more): whose certificates the client trusts and, if it has one,
/// its own. Nothing that the operating system trusts is trusted here: a cluster has a CA of its own.
///
/// Files are read again for each new connection, so that certificates can be renewed and the CA
/// replaced while the client runs. While the files cannot be used, the client uses what it read last,
/// and logs a warning.
#[derive(Clone)]
#[must_use = "give it to ClusterBuilder::tls()"]
pub struct Tls {
    ca: Pem,
    /// A chain of certificates, and its key.
    identity: Option<(Pem, Pem)>,
    server_name: Option<String>,
    latest: Arc<Mutex<Latest>>,
}

/// What was read last.
#[derive(Default)]
struct Latest {
    config: Option<Arc<ClientConfig>>,
    /// What was last said to be wrong, so that it is said once.
    trouble: String,
}

impl Tls {
    /// Trusts nodes whose certificates these CAs have signed: one or more certificates in PEM.
    pub fn new(ca_pem: impl AsRef<[u8]>) -> Self {
        Self::of(Pem::given(ca_pem))
    }

    /// The same with the CAs in this file.
    pub fn from_file(ca: impl Into<PathBuf>) -> Self {
        Self::of(Pem::public(ca))
    }

    fn of(ca: Pem) -> Self {
        Self {
            ca,
            identity: None,
            server_name: None,
            latest: Arc::default(),
        }
    }

    /// Shows this certificate to nodes that ask for one: its chain and its private key in PEM, as read from their files.
    pub fn identity(self, certificate_pem: impl AsRef<[u8]>, key_pem: impl AsRef<[u8]>) -> Self {
        self.showing(Pem::given(certificate_pem), Pem::given(key_pem))
    }

    /// The same with the chain and the private key in these files. Other users must not be able to
    /// read the file of the key.
    pub fn identity_from_files(
        self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        self.showing(Pem::public(certificate), Pem::secret(key))
    }

    fn showing(self, certificate: Pem, key: Pem) -> Self {
        Self {
            identity: Some((certificate, key)),
            latest: Arc::default(),
            ..self
        }
    }

    /// Expects this name in the nodes' certificates, whatever address they are reached at; for endpoints that no certificate names,
    /// such as a forwarded port.
    pub fn server_name(self, name: impl Into<String>) -> Self {
        Self {
            server_name: Some(name.into()),
            ..self
        }
    }

    /// Reads the files again now, for all clones, and uses what they hold for new connections.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) if they cannot be used. What was read before stays in
    /// use.
    pub fn read_again(&self) -> Result<(), Error> {
        let config = Arc::new(self.read()?);
        let mut latest = self.latest();
        latest.config = Some(config);
        latest.trouble.clear();
        Ok(())
    }

    /// An endpoint that is connected to in this way, with what the files hold now. It is for services
    /// that this crate has no method for.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) if there is no CA, certificate and key cannot be read or do not belong together, or the
    /// name is none.
    pub fn secure(&self, endpoint: Endpoint) -> Result<Endpoint, Error> {
        self.read()?;
        let mut config =
            ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&*self.ca.read()?));
        if let Some((certificate, key)) = &self.identity {
            config = config.identity(Identity::from_pem(&*certificate.read()?, &*key.read()?));
        }
        if let Some(name) = &self.server_name {
            config = config.domain_name(name);
        }
        let secured = endpoint.tls_config(config);
        secured.map_err(|error| unusable().with_source(error))
    }

    /// The name to expect of a node at this host.
    ///
    /// # Errors
    /// If it is none.
    pub(crate) fn name_of(&self, host: &str) -> Result<ServerName<'static>, Error> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = self.server_name.as_deref().unwrap_or(host).to_owned();
        ServerName::try_from(name).map_err(|error| unusable().with_source(error))
    }

    /// Whether it can be used at all.
    ///
    /// # Errors
    /// As [`read_again`](Self::read_again) says, if nothing was read before.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.latest().config.is_some() {
            return Ok(());
        }
        self.read_again()
    }

    /// What the next connection is made with.
    async fn current(&self) -> Result<Arc<ClientConfig>, Error> {
        let known = self.latest().config.clone();
        if let Some(known) = &known
            && self.is_given()
        {
            return Ok(Arc::clone(known));
        }
        let tls = self.clone();
        // Files are read off the runtime: they may lie on a network.
        let read = spawn_blocking(move || tls.read_again()).await;
        let read = read.unwrap_or_else(|error| Err(unusable().with_source(error)));
        match (read, known) {
            (Err(error), Some(known)) => {
                self.warn_once(&error);
                Ok(known)
            }
            (Err(error), None) => Err(error),
            (Ok(()), known) => self.latest().config.clone().or(known).ok_or_else(unusable),
        }
    }

    fn warn_once(&self, error: &Error) {
        let trouble = error.to_string();
        let mut latest = self.latest();
        if latest.trouble != trouble {
            tracing::warn!(%error, "TLS to the cluster: the files cannot be used, and what was read before stays in use");
            latest.trouble = trouble;
        }
    }

    /// Whether nothing of it comes from a file.
    fn is_given(&self) -> bool {
        let shown = self.identity.iter().flat_map(|(chain, key)| [chain, key]);
        shown.chain([&self.ca]).all(Pem::is_given)
    }

    fn latest(&self) -> MutexGuard<'_, Latest> {
        // Nothing panics while it holds the lock half-way, so a poisoned one is still right.
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> Result<ClientConfig, Error> {
        let broken = |error: rustls::Error| unusable().with_source(error);
        let roots = roots(&self.ca.read()?)?;
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(broken)?
            .with_root_certificates(roots);
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let (certificate, key) = (certificate.read()?, key.read()?);
                let chain = CertificateDer::pem_slice_iter(&certificate).collect();
                let chain: Result<Vec<_>, _> = chain;
                let chain = chain.map_err(|_| malformed("certificate", &certificate))?;
                let key =
                    PrivateKeyDer::from_pem_slice(&key).map_err(|_| malformed("key", &key))?;
                let shown = builder.with_client_auth_cert(chain, key);
                shown.map_err(broken)?
            }
        };
        config.alpn_protocols = vec![ALPN_H2.to_vec()];
        // Each connection checks certificates.
        config.resumption = Resumption::disabled();
        Ok(config)
    }
}

/// The CAs in PEM. Those that nothing can be checked with are left out.
fn roots(ca: &[u8]) -> Result<RootCertStore, Error> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(ca).collect();
    let mut roots = RootCertStore::empty();
    let (added, _left_out) = roots.add_parsable_certificates(found.unwrap_or_default());
    if added == 0 {
        if let Some(flaw) = NotPem::of(ca) {
            return Err(refused(format!("the CA holds no certificate: {flaw}")));
        }
        return Err(refused(
            "the CA holds no certificate in PEM: give the file that `helve cert ca` wrote as ca.crt, or the like",
        ));
    }
    Ok(roots)
}

/// Of what no parser takes for PEM. Its own words repeat the line, which may be the key.
fn malformed(what: &str, pem: &[u8]) -> Error {
    match NotPem::of(pem) {
        Some(flaw) => refused(format!("TLS cannot be set up: the client's {what}: {flaw}")),
        None => unusable(),
    }
}

fn unusable() -> Error {
    refused(
        "TLS cannot be set up: the client's certificate and key must be in PEM and belong together, and the server's name be one",
    )
}

fn refused(message: impl Into<String>) -> Error {
    Error::refused(Reason::BadRequest, message, 0, 0)
}

/// Shows nothing of the key.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}
