//! The TLS of each port, as its flags name it, and which ports may do without.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use helve_proto::is_loopback;

use super::exposure::Exposure;
use crate::refusal::Refusal;
use crate::tls::{NamedFile, PortFiles, PortTls, Trust, watch::Certificates};

/// The flags that name certificates and keys.
#[derive(Debug, Clone, Default)]
pub struct TlsSettings {
    /// `--tls-cert`.
    pub cert: Option<PathBuf>,
    /// `--tls-key`.
    pub key: Option<PathBuf>,
    /// `--tls-client-ca`.
    pub client_ca: Option<PathBuf>,
    /// `--peer-tls-cert`.
    pub peer_cert: Option<PathBuf>,
    /// `--peer-tls-key`.
    pub peer_key: Option<PathBuf>,
    /// `--peer-tls-ca`.
    pub peer_ca: Option<PathBuf>,
}

/// The TLS of a node's ports; the default is none.
#[derive(Debug, Clone, Default)]
pub struct Tls {
    /// Of the client port, and of the HTTP port beyond loopback.
    pub client: Option<Arc<PortTls>>,
    /// Of the peer port and of connections to other nodes, mutual.
    pub peer: Option<Arc<PortTls>>,
}

impl Tls {
    /// Reads what the flags name.
    ///
    /// # Errors
    /// If a file is missing or no good.
    pub fn read(settings: &TlsSettings) -> Result<Self, Refusal> {
        read(settings)
    }

    /// All certificates in use.
    #[must_use]
    pub fn certificates(&self) -> Certificates {
        Certificates::new(self.client.iter().chain(&self.peer).cloned())
    }
}

/// Reads what the flags name.
pub(super) fn read(settings: &TlsSettings) -> Result<Tls, Refusal> {
    let client = [
        ("--tls-cert", settings.cert.as_ref()),
        ("--tls-key", settings.key.as_ref()),
    ];
    let client = match together(client)? {
        Some([certificate, key]) => {
            let ca = settings.client_ca.as_ref();
            let ca = ca.map(|path| named("--tls-client-ca", path));
            let trust = ca.map_or(Trust::Anyone, Trust::Clients);
            Some(open(PortFiles {
                certificate,
                key,
                trust,
            })?)
        }
        None if settings.client_ca.is_some() => {
            let problem = "clients show certificates over TLS alone, and the client port has none";
            let remedy = "pass --tls-cert and --tls-key, too";
            return Err(Refusal::new("--tls-client-ca", problem, remedy));
        }
        None => None,
    };
    let peer = [
        ("--peer-tls-cert", settings.peer_cert.as_ref()),
        ("--peer-tls-key", settings.peer_key.as_ref()),
        ("--peer-tls-ca", settings.peer_ca.as_ref()),
    ];
    let peer = match together(peer)? {
        Some([certificate, key, ca]) => Some(peer_port(certificate, key, ca)?),
        None => None,
    };
    Ok(Tls { client, peer })
}

/// A node must pass with its own certificate at the others' ports: they check it as this one does.
fn peer_port(
    certificate: NamedFile,
    key: NamedFile,
    ca: NamedFile,
) -> Result<Arc<PortTls>, Refusal> {
    let flag = certificate.flag;
    let port = open(PortFiles {
        certificate,
        key,
        trust: Trust::Nodes(ca),
    })?;
    if !port.certificate().is_node() {
        let problem =
            "it is no node's certificate: its names lack URI:helve:node, by which peers know one";
        let remedy = "make it with `helve cert node`, or have your PKI put that name in";
        return Err(Refusal::new(flag, problem, remedy));
    }
    Ok(port)
}

fn named(flag: &'static str, path: &Path) -> NamedFile {
    NamedFile {
        flag,
        path: path.to_owned(),
    }
}

/// All of these files, or none.
fn together<const N: usize>(
    flags: [(&'static str, Option<&PathBuf>); N],
) -> Result<Option<[NamedFile; N]>, Refusal> {
    let Some((given, _)) = flags.iter().find(|(_, path)| path.is_some()) else {
        return Ok(None);
    };
    if let Some((missing, _)) = flags.iter().find(|(_, path)| path.is_none()) {
        let all: Vec<_> = flags.iter().map(|(flag, _)| *flag).collect();
        let problem = format!("{given} is given without it");
        let remedy = format!("pass {} together, or none of them", all.join(", "));
        return Err(Refusal::new(missing, problem, remedy));
    }
    Ok(Some(flags.map(|(flag, path)| NamedFile {
        flag,
        path: path.cloned().unwrap_or_default(),
    })))
}

fn open(files: PortFiles) -> Result<Arc<PortTls>, Refusal> {
    PortTls::read(files)
        .map_err(|error| Refusal::new(error.flag, error.problem.clone(), error.remedy))
}

/// A listener: its flag, its address, its TLS, and the flags that would give it some.
type Listener<'a> = (
    &'static str,
    SocketAddr,
    Option<&'a Arc<PortTls>>,
    &'static str,
);

/// Which listeners can be reached from beyond this machine without TLS, by their flags.
///
/// # Errors
/// If there is one, and the operator does not vouch for the network.
pub(super) fn check_exposure<'a>(
    exposure: Exposure,
    listeners: impl IntoIterator<Item = Listener<'a>>,
) -> Result<Vec<&'static str>, Refusal> {
    let open = listeners
        .into_iter()
        .filter(|(_, address, tls, _)| tls.is_none() && !is_loopback(address.ip()));
    let mut exposed = Vec::new();
    for (flag, address, _, remedy) in open {
        if exposure != Exposure::Insecure {
            let problem = format!(
                "{address} is reachable from beyond this machine, and without TLS anyone on the way can read and change what passes"
            );
            let remedy = format!(
                "pass {remedy} (`helve cert` makes certificates for development), listen on 127.0.0.1, or pass --insecure if you vouch for the network"
            );
            return Err(Refusal::new(flag, problem, remedy));
        }
        exposed.push(flag);
    }
    Ok(exposed)
}
