//! The flags of `helve serve` that name certificates and keys.

use std::path::PathBuf;

use helve_node::config::TlsSettings;

/// Certificates, keys and CAs, in files that are read again when they change, without a restart.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct TlsArgs {
    /// Certificate of the client port, in PEM, with its intermediate certificates. The HTTP port
    /// uses it too, beyond loopback
    #[arg(
        long,
        help_heading = "TLS",
        env = "HELVE_TLS_CERT",
        value_name = "FILE"
    )]
    tls_cert: Option<PathBuf>,

    /// Private key of the certificate, in PEM; other users of the machine must not be able to read
    /// it
    #[arg(long, help_heading = "TLS", env = "HELVE_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,

    /// CAs of clients, in PEM: a caller with a certificate of theirs is identified by it. Callers
    /// may also have none
    #[arg(
        long,
        help_heading = "TLS",
        env = "HELVE_TLS_CLIENT_CA",
        hide_short_help = true,
        value_name = "FILE"
    )]
    tls_client_ca: Option<PathBuf>,

    #[command(flatten)]
    peer: PeerTlsArgs,
}

/// A node's certificate among its peers, and the CAs of theirs.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PeerTlsArgs {
    /// Certificate of this node among its peers, in PEM: for its peer port, and for its connections
    /// to others
    #[arg(
        long,
        help_heading = "TLS",
        env = "HELVE_PEER_TLS_CERT",
        value_name = "FILE"
    )]
    peer_tls_cert: Option<PathBuf>,

    /// Private key of the certificate, in PEM; other users of the machine must not be able to read
    /// it
    #[arg(
        long,
        help_heading = "TLS",
        env = "HELVE_PEER_TLS_KEY",
        value_name = "FILE"
    )]
    peer_tls_key: Option<PathBuf>,

    /// CAs of the nodes, in PEM: a peer must have a certificate of theirs that is made for a node
    #[arg(
        long,
        help_heading = "TLS",
        env = "HELVE_PEER_TLS_CA",
        value_name = "FILE"
    )]
    peer_tls_ca: Option<PathBuf>,
}

impl TlsArgs {
    pub(super) fn settings(&self) -> TlsSettings {
        TlsSettings {
            cert: self.tls_cert.clone(),
            key: self.tls_key.clone(),
            client_ca: self.tls_client_ca.clone(),
            ..self.peer.settings()
        }
    }
}

impl PeerTlsArgs {
    pub(crate) fn settings(&self) -> TlsSettings {
        TlsSettings {
            peer_cert: self.peer_tls_cert.clone(),
            peer_key: self.peer_tls_key.clone(),
            peer_ca: self.peer_tls_ca.clone(),
            ..TlsSettings::default()
        }
    }
}
