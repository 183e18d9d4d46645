//! Who may be a peer: the holder of a node's certificate, on both ends of a connection.

use std::sync::Arc;

use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};

use super::certificate::{Certificate, NODE_URI};

/// The certificate is good, but no node's.
#[derive(Debug, thiserror::Error)]
#[error(
    "the certificate of `{0}` is no node's: it lacks the name URI:{NODE_URI}, which `helve cert node` puts in"
)]
struct NoNode(String);

/// Refuses what an inner verifier would take, unless it is a node's.
#[derive(Debug)]
pub(super) struct NodesOnly<V: ?Sized>(pub(super) Arc<V>);

fn check_node(end_entity: &CertificateDer<'_>) -> Result<(), Error> {
    let certificate = Certificate::parse(end_entity)
        .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
    if certificate.is_node() {
        return Ok(());
    }
    let no_node = OtherError(Arc::new(NoNode(certificate.common_name)));
    Err(Error::InvalidCertificate(CertificateError::Other(no_node)))
}

/// What the inner verifier of either end decides alone.
macro_rules! signatures_as_inner {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.0.verify_tls12_signature(message, cert, dss)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.0.verify_tls13_signature(message, cert, dss)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.0.supported_verify_schemes()
        }
    };
}

impl ClientCertVerifier for NodesOnly<dyn ClientCertVerifier> {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.0.verify_client_cert(end_entity, intermediates, now)?;
        check_node(end_entity)?;
        Ok(verified)
    }

    signatures_as_inner!();
}

impl<V: ServerCertVerifier> ServerCertVerifier for NodesOnly<V> {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let inner = &self.0;
        let verified =
            inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)?;
        check_node(end_entity)?;
        Ok(verified)
    }

    signatures_as_inner!();
}
