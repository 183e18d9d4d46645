//! A certificate authority for development and tests: it signs certificates for nodes and clients. In production a PKI of the house does.

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, Error, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType, string::Ia5String,
};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use time::OffsetDateTime;
use webpki::EndEntityCert;
use zeroize::Zeroizing;

use super::certificate::{Certificate, NODE_URI};
use crate::stamp;

/// How far machines' clocks may be apart without a new certificate being refused as one of the future.
const SKEW_MS: u64 = 5 * 60 * 1_000;

/// The last second of the year 9999, since the Unix epoch.
const LATEST: i64 = 253_402_300_799;

/// From when to when a certificate holds, in milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// From this on.
    pub not_before_ms: u64,
    /// Until then.
    pub not_after_ms: u64,
}

impl Life {
    /// From now on, for so long.
    #[must_use]
    pub fn of(time: Duration) -> Self {
        let now_ms = stamp::wall_ms();
        let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            not_before_ms: now_ms.saturating_sub(SKEW_MS),
            not_after_ms: now_ms.saturating_add(time_ms),
        }
    }
}

/// A certificate and its private key, in PEM.
pub struct Issued {
    /// The certificate.
    pub certificate_pem: String,
    /// The key: only its owner may see it.
    pub key_pem: Zeroizing<String>,
}

/// A certificate and a key that are not those of a CA which was made here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("they are not the certificate and the key that `helve cert ca` made together")]
pub struct Foreign;

/// Signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Makes a CA of this name, which signs itself. Its certificate and key are what [`load`](Self::load) takes.
    ///
    /// # Errors
    /// If the name is not allowed in a certificate, or the operating system gives no randomness.
    pub fn make(name: &str, life: Life) -> Result<(Self, Issued), Error> {
        let params = authority_params(name, life)?;
        let key = KeyPair::generate()?;
        let key_pem = Zeroizing::new(key.serialize_pem());
        let certificate_pem = params.self_signed(&key)?.pem();
        let issuer = Issuer::new(params, key);
        let issued = Issued {
            certificate_pem,
            key_pem,
        };
        Ok((Self { issuer }, issued))
    }

    /// Takes up a CA that was made here before.
    ///
    /// # Errors
    /// If these are not the certificate and the key of one.
    pub fn load(certificate_pem: &str, key_pem: &str) -> Result<Self, Foreign> {
        let certificate = CertificateDer::from_pem_slice(certificate_pem.as_bytes());
        let certificate = certificate.map_err(|_| Foreign)?;
        let name = Certificate::parse(&certificate)
            .map_err(|_| Foreign)?
            .common_name;
        let key = KeyPair::from_pem(key_pem).map_err(|_| Foreign)?;
        let params = authority_params(&name, Life::of(Duration::ZERO)).map_err(|_| Foreign)?;
        // What it signs is taken only if it names its issuer as the certificate does.
        let again = params.self_signed(&key).map_err(|_| Foreign)?;
        let (made, again) = (subject(&certificate)?, subject(again.der())?);
        if made != again {
            return Err(Foreign);
        }
        Ok(Self {
            issuer: Issuer::new(params, key),
        })
    }

    /// Signs a node's certificate: for both of its ports, and for its connections to others. `hosts` are the DNS names and IP addresses
    /// at which clients and peers reach it.
    ///
    /// # Errors
    /// If a name is not allowed in a certificate.
    pub fn node(&self, name: &str, hosts: &[String], life: Life) -> Result<Issued, Error> {
        let mut params = params(name, life)?;
        params.subject_alt_names = CertificateParams::new(hosts)?.subject_alt_names;
        let uri = SanType::URI(Ia5String::try_from(NODE_URI)?);
        params.subject_alt_names.push(uri);
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        self.sign(params)
    }

    /// Signs a client's certificate. It names the client, and is good for nothing but to show who calls.
    ///
    /// # Errors
    /// If the name is not allowed in a certificate.
    pub fn client(&self, name: &str, life: Life) -> Result<Issued, Error> {
        let mut params = params(name, life)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    /// Signs the certificate of a server that is no node.
    #[cfg(test)]
    pub(super) fn server(&self, name: &str, hosts: &[String], life: Life) -> Result<Issued, Error> {
        let mut params = params(name, life)?;
        params.subject_alt_names = CertificateParams::new(hosts)?.subject_alt_names;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Issued, Error> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        Ok(Issued {
            certificate_pem: params.signed_by(&key, &self.issuer)?.pem(),
            key_pem: Zeroizing::new(key.serialize_pem()),
        })
    }
}

/// The subject and the key of a certificate.
fn subject(certificate: &CertificateDer<'_>) -> Result<(Vec<u8>, Vec<u8>), Foreign> {
    let read = EndEntityCert::try_from(certificate).map_err(|_| Foreign)?;
    let key = read.subject_public_key_info();
    Ok((read.subject().to_vec(), key.as_ref().to_vec()))
}

fn authority_params(name: &str, life: Life) -> Result<CertificateParams, Error> {
    let mut params = params(name, life)?;
    // It signs leaf certificates, and no further CA.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn params(name: &str, life: Life) -> Result<CertificateParams, Error> {
    let mut params = CertificateParams::new([])?;
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date(life.not_before_ms);
    params.not_after = date(life.not_after_ms);
    Ok(params)
}

/// To the second, and at the latest in the last year that a certificate can name (RFC 5280, 4.1.2.5).
fn date(ms: u64) -> OffsetDateTime {
    let seconds = i64::try_from(ms / 1_000).unwrap_or(LATEST).min(LATEST);
    OffsetDateTime::from_unix_timestamp(seconds).expect("the year has at most four digits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ca_is_taken_up_again_by_its_own_key_alone() {
        let life = Life::of(Duration::from_secs(3_600));
        let (_, one) = Authority::make("a CA", life).unwrap();
        let (_, other) = Authority::make("a CA", life).unwrap();
        assert!(Authority::load(&one.certificate_pem, &one.key_pem).is_ok());
        let mixed = Authority::load(&one.certificate_pem, &other.key_pem);
        assert_eq!(mixed.err(), Some(Foreign));
        assert_eq!(Authority::load("no PEM", &one.key_pem).err(), Some(Foreign));
    }
}
