//! TLS of one port, made of its files and made again when they change.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    sync::{Arc, Mutex, PoisonError},
};

use arc_swap::ArcSwap;
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    client::{Resumption, WebPkiServerVerifier, danger::ServerCertVerifier},
    crypto::{CryptoProvider, ring},
    server::{NoServerSessionStorage, WebPkiClientVerifier, danger::ClientCertVerifier},
    sign::SingleCertAndKey,
    version::{TLS12, TLS13},
};

use super::{
    certificate::Certificate,
    files::{KeyPair, NamedFile, TlsError, roots},
    usage::Usage,
    verify::NodesOnly,
};

/// What the ports for gRPC speak, and all that they speak (RFC 7301, RFC 9113).
const ALPN_H2: &[u8] = b"h2";
const ALPN_HTTP1: &[u8] = b"http/1.1";

/// The files of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortFiles {
    /// The port's certificate, with its intermediate certificates.
    pub certificate: NamedFile,
    /// Its private key.
    pub key: NamedFile,
    /// Whose certificates it takes.
    pub trust: Trust,
}

/// Whom a port lets in, by certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// Anyone: no certificate is asked for.
    Anyone,
    /// Anyone, but a certificate that is shown must be of these CAs.
    Clients(NamedFile),
    /// Nodes alone, with a certificate of these CAs.
    Nodes(NamedFile),
}

/// A file as it was when it was last looked at.
type Mark = Option<(u64, u64, i64, i64)>;

/// TLS of one port, as of the newest good state of its files.
#[derive(Debug)]
pub struct PortTls {
    files: PortFiles,
    current: ArcSwap<Loaded>,
    seen: Mutex<Vec<Mark>>,
}

#[derive(Debug)]
struct Loaded {
    server: Arc<ServerConfig>,
    /// HTTP/1.1 under the same certificate, for probes and scrapers: they show none.
    http: Arc<ServerConfig>,
    /// For connections to other nodes' ports of the same kind.
    dial: Option<Arc<ClientConfig>>,
    certificate: Certificate,
}

impl PortTls {
    /// Reads and checks the files.
    ///
    /// # Errors
    /// That they cannot be used: which of them, and why.
    pub fn read(files: PortFiles) -> Result<Arc<Self>, TlsError> {
        let seen = files.marks();
        let loaded = Loaded::read(&files)?;
        Ok(Arc::new(Self {
            files,
            current: ArcSwap::from_pointee(loaded),
            seen: seen.into(),
        }))
    }

    /// How gRPC is served now.
    #[must_use]
    pub fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.load().server)
    }

    /// How HTTP is served now, under the same certificate.
    #[must_use]
    pub fn http(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.load().http)
    }

    /// How other nodes are connected to now; `None` if this is no port for nodes.
    #[must_use]
    pub fn dial(&self) -> Option<Arc<ClientConfig>> {
        self.current.load().dial.clone()
    }

    /// The port's certificate now.
    #[must_use]
    pub fn certificate(&self) -> Certificate {
        self.current.load().certificate.clone()
    }

    /// The flag that named the certificate.
    #[must_use]
    pub fn flag(&self) -> &'static str {
        self.files.certificate.flag
    }

    /// Reads the files again if one of them has changed since they were last looked at. Returns whether they are new and in use.
    ///
    /// # Errors
    /// If they have changed and cannot be used: then those before stay in use, and these are not looked at again until they change.
    pub fn reload(&self) -> Result<Reload, TlsError> {
        let marks = self.files.marks();
        {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if *seen == marks {
                return Ok(Reload::Unchanged);
            }
            *seen = marks;
        }
        self.current.store(Arc::new(Loaded::read(&self.files)?));
        Ok(Reload::Changed)
    }

    /// Reads the files again, changed or not.
    ///
    /// # Errors
    /// If they cannot be used: then those before stay in use.
    pub fn read_again(&self) -> Result<(), TlsError> {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = self.files.marks();
        self.current.store(Arc::new(Loaded::read(&self.files)?));
        Ok(())
    }
}

/// What a look at the files has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reload {
    /// They are as they were.
    Unchanged,
    /// New ones are in use.
    Changed,
}

impl PortFiles {
    fn all(&self) -> Vec<&NamedFile> {
        let ca = match &self.trust {
            Trust::Anyone => None,
            Trust::Clients(ca) | Trust::Nodes(ca) => Some(ca),
        };
        [&self.certificate, &self.key]
            .into_iter()
            .chain(ca)
            .collect()
    }

    /// Taken before the files are read, so that a change in between is found by the next look.
    fn marks(&self) -> Vec<Mark> {
        let mark = |file: &&NamedFile| {
            let found = fs::metadata(&file.path).ok()?;
            Some((found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
        };
        self.all().iter().map(mark).collect()
    }
}

impl Loaded {
    fn read(files: &PortFiles) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let usage = match &files.trust {
            Trust::Nodes(_) => Usage::Node,
            Trust::Anyone | Trust::Clients(_) => Usage::Server,
        };
        let pair = KeyPair::read((&files.certificate, usage), &files.key, &provider)?;
        let made = |error: &dyn std::fmt::Display| TlsError {
            flag: files.certificate.flag,
            problem: error.to_string(),
            remedy: "report this",
        };
        let mut server = server(&provider, client_verifier(files, &provider)?, &pair)
            .map_err(|error| made(&error))?;
        server.alpn_protocols = match &files.trust {
            Trust::Nodes(_) => vec![ALPN_H2.to_vec()],
            Trust::Anyone | Trust::Clients(_) => vec![ALPN_H2.to_vec(), ALPN_HTTP1.to_vec()],
        };
        let http = server_of_anyone(&provider, &pair).map_err(|error| made(&error))?;
        let dial = match &files.trust {
            Trust::Nodes(ca) => {
                let dial = dial(&provider, roots(ca)?, &pair).map_err(|error| made(&error))?;
                Some(Arc::new(dial))
            }
            Trust::Anyone | Trust::Clients(_) => None,
        };
        Ok(Self {
            server: Arc::new(server),
            http: Arc::new(http),
            dial,
            certificate: pair.certificate,
        })
    }
}

fn client_verifier(
    files: &PortFiles,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let built = |ca: &NamedFile, builder: rustls::server::ClientCertVerifierBuilder| {
        builder.build().map_err(|error| TlsError {
            flag: ca.flag,
            problem: format!("{}: {error}", ca.path.display()),
            remedy: "name the certificate of a CA in PEM",
        })
    };
    let of = |roots| WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
    match &files.trust {
        Trust::Anyone => Ok(WebPkiClientVerifier::no_client_auth()),
        Trust::Clients(ca) => built(ca, of(roots(ca)?).allow_unauthenticated()),
        Trust::Nodes(ca) => Ok(Arc::new(NodesOnly(built(ca, of(roots(ca)?))?))),
    }
}

fn server(
    provider: &Arc<CryptoProvider>,
    verifier: Arc<dyn ClientCertVerifier>,
    pair: &KeyPair,
) -> Result<ServerConfig, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(&pair.key))));
    // A session that is resumed shows no certificate: one that has expired or whose CA is gone would live on. Connections are long.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn server_of_anyone(
    provider: &Arc<CryptoProvider>,
    pair: &KeyPair,
) -> Result<ServerConfig, rustls::Error> {
    server(provider, WebPkiClientVerifier::no_client_auth(), pair)
}

fn dial(
    provider: &Arc<CryptoProvider>,
    roots: Arc<RootCertStore>,
    pair: &KeyPair,
) -> Result<ClientConfig, rustls::Error> {
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider)).build();
    let verifier = verifier.map_err(|error| rustls::Error::General(error.to_string()))?;
    let verifier: Arc<dyn ServerCertVerifier> = Arc::new(NodesOnly(verifier));
    let mut config = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(&pair.key))));
    config.alpn_protocols = vec![ALPN_H2.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// How a command calls a node's client port: it trusts these CAs, and shows this certificate with
/// its key. Without a CA it trusts no certificate: that is enough to find out whether a port speaks
/// TLS at all.
///
/// # Errors
/// Which file cannot be used, and why.
pub fn calling(
    ca: Option<&NamedFile>,
    identity: Option<(&NamedFile, &NamedFile)>,
) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let roots = ca.map_or_else(|| Ok(Arc::new(RootCertStore::empty())), roots)?;
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .expect("the provider knows both versions")
        .with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let pair = KeyPair::read((certificate, Usage::Client), key, &provider)?;
            let resolver = SingleCertAndKey::from(Arc::clone(&pair.key));
            builder.with_client_cert_resolver(Arc::new(resolver))
        }
    };
    config.alpn_protocols = vec![ALPN_H2.to_vec()];
    Ok(Arc::new(config))
}

/// How a probe calls a port that asks for no certificate: it trusts these CAs.
///
/// # Errors
/// If the file holds none.
pub fn trusting(ca: &NamedFile) -> Result<Arc<ClientConfig>, TlsError> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .expect("the provider knows both versions")
        .with_root_certificates(roots(ca)?)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests;
