//! A certificate authority for development and tests: it signs certificates for nodes and clients. In production a PKI of the house does.

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, Error, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType, string::Ia5String,
};
use time::OffsetDateTime;
use zeroize::Zeroizing;

use super::certificate::NODE_URI;
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
    /// The key: nobody but its owner may see it.
    pub key_pem: Zeroizing<String>,
}

/// Signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Makes a CA of this name, which signs itself. Its certificate and key are what [`load`](Self::load) takes.
    ///
    /// # Errors
    /// If the name cannot stand in a certificate, or the operating system gives no randomness.
    pub fn make(name: &str, life: Life) -> Result<(Self, Issued), Error> {
        let mut params = params(name, life)?;
        // It signs what stands below it, and no further CA.
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
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

    /// Takes up a CA that was made before.
    ///
    /// # Errors
    /// If these are no certificate and key of a CA.
    pub fn load(certificate_pem: &str, key_pem: &str) -> Result<Self, Error> {
        let issuer = Issuer::from_ca_cert_pem(certificate_pem, KeyPair::from_pem(key_pem)?)?;
        Ok(Self { issuer })
    }

    /// Signs a node's certificate: for both of its ports, and for its connections to others. `hosts` are the DNS names and IP addresses
    /// at which clients and peers reach it.
    ///
    /// # Errors
    /// If a name cannot stand in a certificate.
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
    /// If the name cannot stand in a certificate.
    pub fn client(&self, name: &str, life: Life) -> Result<Issued, Error> {
        let mut params = params(name, life)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
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
