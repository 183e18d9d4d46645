//! The files that hold certificates and keys, in PEM (RFC 7468).

use std::{path::PathBuf, sync::Arc};

use helve_proto::NotPem;
use helve_seal::{Exposed, NamedContent};
use rustls::{
    Error as RustlsError, RootCertStore,
    crypto::CryptoProvider,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{Error as PemError, PemObject},
    },
    sign::CertifiedKey,
};
use zeroize::Zeroizing;

use super::{certificate::Certificate, usage::Usage, words};
use crate::{limits::PEM_BYTES_MAX, stamp};

/// What `helve cert` is good for, in a remedy.
const REISSUE: &str = "issue it again; `helve cert` makes certificates for development";

/// Of a file that cannot be read, in a remedy.
const READABLE: &str = "name a file in PEM that this user may read";

/// A file, and the flag that named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFile {
    /// The flag, such as `--tls-cert`.
    pub flag: &'static str,
    /// The file.
    pub path: PathBuf,
}

/// Why files are no good for TLS.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{flag}: {problem}; {remedy}")]
pub struct TlsError {
    /// The flag that named the file.
    pub flag: &'static str,
    /// The file, and what is wrong with it.
    pub problem: String,
    /// What to do about it.
    pub remedy: &'static str,
}

impl NamedFile {
    fn refuse(&self, problem: impl std::fmt::Display, remedy: &'static str) -> TlsError {
        TlsError {
            flag: self.flag,
            problem: format!("{}: {problem}", self.path.display()),
            remedy,
        }
    }

    /// What it holds, if this user may read it and it is no larger than such a file is.
    ///
    /// # Errors
    /// Why not.
    pub fn public(&self) -> Result<Zeroizing<Vec<u8>>, TlsError> {
        Ok(self.content()?.bytes)
    }

    /// What it holds, if no other user of the machine may open it.
    ///
    /// # Errors
    /// Why not.
    pub fn secret(&self) -> Result<Zeroizing<Vec<u8>>, TlsError> {
        let content = self.content()?;
        Exposed::check(&self.path, &content.metadata).map_err(|exposed| {
            self.refuse(
                exposed,
                "change its mode, and if others may have read it, make a new key",
            )
        })?;
        Ok(content.bytes)
    }

    fn content(&self) -> Result<NamedContent, TlsError> {
        let content = NamedContent::read(&self.path, PEM_BYTES_MAX)
            .map_err(|error| self.refuse(error, READABLE))?;
        if content.bytes.len() as u64 > PEM_BYTES_MAX {
            let problem = format!("it has more than {PEM_BYTES_MAX} bytes");
            return Err(self.refuse(problem, READABLE));
        }
        Ok(content)
    }

    /// The certificates in it: one at least.
    ///
    /// # Errors
    /// If it cannot be read, or holds none.
    pub(crate) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let bytes = self.public()?;
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
        match found {
            Ok(found) if !found.is_empty() => Ok(found),
            Ok(_) => Err(self.refuse_pem(
                &bytes,
                "it holds no certificate",
                "name a file with one in PEM",
            )),
            Err(error) => Err(self.refuse_pem(
                &bytes,
                malformed(&error),
                "name a file with a certificate in PEM",
            )),
        }
    }

    /// Refuses what no parser takes for PEM, by its line ends if those are lost.
    fn refuse_pem(&self, bytes: &[u8], problem: &str, remedy: &'static str) -> TlsError {
        match NotPem::of(bytes) {
            Some(flaw) => self.refuse(flaw.problem(), flaw.remedy()),
            None => self.refuse(problem, remedy),
        }
    }

    /// What the certificate in it says.
    ///
    /// # Errors
    /// If it cannot be read, or holds none.
    pub fn certificate(&self) -> Result<Certificate, TlsError> {
        self.facts(&self.certificates()?)
    }

    fn facts(&self, chain: &[CertificateDer<'_>]) -> Result<Certificate, TlsError> {
        Certificate::parse(&chain[0]).map_err(|problem| self.refuse(problem, REISSUE))
    }

    fn private_key(&self) -> Result<PrivateKeyDer<'static>, TlsError> {
        let bytes = self.secret()?;
        PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| {
            self.refuse_pem(
                &bytes,
                "it holds no private key",
                "name a file with one in PEM",
            )
        })
    }
}

/// What is wrong with a block. The parser's own words repeat the line, which may be a private key.
fn malformed(error: &PemError) -> &'static str {
    match error {
        PemError::MissingSectionEnd { .. } => "a block in it has no end",
        PemError::IllegalSectionStart { .. } => "the first line of a block in it is malformed",
        PemError::Base64Decode(_) => "a block in it is no base64",
        _ => "a block in it is malformed",
    }
}

/// A certificate with its key, fit for use now.
pub(super) struct KeyPair {
    pub(super) key: Arc<CertifiedKey>,
    pub(super) certificate: Certificate,
}

impl KeyPair {
    /// Reads and checks both.
    pub(super) fn read(
        (certificate, usage): (&NamedFile, Usage),
        key: &NamedFile,
        provider: &CryptoProvider,
    ) -> Result<Self, TlsError> {
        let chain = certificate.certificates()?;
        let facts = certificate.facts(&chain)?;
        let now_ms = stamp::wall_ms();
        if now_ms >= facts.not_after_ms {
            return Err(certificate.refuse("it has expired", REISSUE));
        }
        if now_ms < facts.not_before_ms {
            let remedy = "set this machine's clock right, or wait";
            return Err(certificate.refuse("it is not valid yet", remedy));
        }
        let fit = usage.check(&chain[0]);
        fit.map_err(|unfit| certificate.refuse(unfit.problem, unfit.remedy))?;
        let pair = CertifiedKey::from_der(chain, key.private_key()?, provider);
        let pair = pair.map_err(|error| match error {
            RustlsError::InconsistentKeys(_) => key.refuse(
                format!("it is not the key of {}", certificate.path.display()),
                "name the certificate and the key that were made together",
            ),
            error => key.refuse(said(&error), REISSUE),
        })?;
        Ok(Self {
            key: Arc::new(pair),
            certificate: facts,
        })
    }
}

/// What TLS says of a file, in plain words.
fn said(error: &RustlsError) -> String {
    match error {
        RustlsError::InvalidCertificate(why) => words::of_refusal(why).to_owned(),
        RustlsError::General(why) => why.clone(),
        _ => "TLS does not support it".to_owned(),
    }
}

/// The CAs in a file.
pub(super) fn roots(ca: &NamedFile) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in ca.certificates()? {
        let added = roots.add(certificate);
        added.map_err(|error| ca.refuse(said(&error), "name the certificate of a CA in PEM"))?;
    }
    Ok(Arc::new(roots))
}
