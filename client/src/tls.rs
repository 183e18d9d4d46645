//! How a client knows its cluster, and how the cluster may know the client.

use std::fmt;

use helve_proto::Reason;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::error::Error;

/// TLS to a cluster (RFC 8446; TLS 1.2 where a proxy between knows no more): whose certificates the client trusts and, if it has one,
/// its own. Nothing that the operating system trusts is trusted here: a cluster has a CA of its own.
#[derive(Clone)]
#[must_use = "give it to ClusterBuilder::tls()"]
pub struct Tls {
    config: ClientTlsConfig,
    has_ca: bool,
}

impl Tls {
    /// Trusts nodes whose certificates these CAs have signed: one or more certificates in PEM.
    pub fn new(ca_pem: impl AsRef<[u8]>) -> Self {
        let ca_pem = ca_pem.as_ref();
        let found = CertificateDer::pem_slice_iter(ca_pem).next();
        Self {
            config: ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca_pem)),
            has_ca: matches!(found, Some(Ok(_))),
        }
    }

    /// Shows this certificate to nodes that ask for one: its chain and its private key in PEM, as read from their files.
    pub fn identity(
        mut self,
        certificate_pem: impl AsRef<[u8]>,
        key_pem: impl AsRef<[u8]>,
    ) -> Self {
        let identity = Identity::from_pem(certificate_pem, key_pem);
        self.config = self.config.identity(identity);
        self
    }

    /// Expects this name in the nodes' certificates, whatever address they are reached at; for endpoints that no certificate names,
    /// such as a forwarded port.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.config = self.config.domain_name(name);
        self
    }

    /// An endpoint that is connected to in this way: for services that this crate has no method for.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) if there is no CA, certificate and key cannot be read or do not belong together, or the
    /// name is none.
    pub fn secure(&self, endpoint: Endpoint) -> Result<Endpoint, Error> {
        let refused = |message| Error::refused(Reason::BadRequest, message, 0, 0);
        if !self.has_ca {
            return Err(refused(
                "the CA holds no certificate in PEM: give the file that `helve cert ca` wrote as ca.crt, or the like",
            ));
        }
        endpoint.tls_config(self.config.clone()).map_err(|error| {
            refused("TLS cannot be set up: the client's certificate and key must be in PEM and belong together, and the server's name be one")
                .with_source(error)
        })
    }
}

/// Shows nothing of the key.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_ca_and_what_is_no_key_are_refused_before_any_connection() {
        let endpoint = || Endpoint::from_static("https://127.0.0.1:7400");
        for ca in ["", "no PEM", "-----BEGIN CERTIFICATE-----\nAAAA"] {
            let refused = Tls::new(ca).secure(endpoint()).unwrap_err();
            assert_eq!(refused.reason(), Some(Reason::BadRequest), "{ca}");
        }
    }

    #[test]
    fn a_key_is_not_shown() {
        let tls = Tls::new("ca").identity("certificate", "a-private-key");
        assert!(!format!("{tls:?}").contains("private"), "{tls:?}");
    }
}
