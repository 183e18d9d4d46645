//! The flags of `helve serve` that name certificates and keys.

use std::path::PathBuf;

use crate::config::TlsSettings;

/// Certificates, keys and CAs, in files that are looked at again and again: new ones are taken up without a restart.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct TlsArgs {
    /// The certificate of the client port, in PEM, with what stands between it and its CA. The HTTP port has it, too, beyond loopback
    #[arg(
        long,
        help_heading = "TLS",
        env = "HELVE_TLS_CERT",
        value_name = "FILE"
    )]
    tls_cert: Option<PathBuf>,

    /// Its private key, in PEM, that no other user of the machine may read
    #[arg(long, help_heading = "TLS", env = "HELVE_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,

    /// The CAs of clients: whoever shows a certificate of theirs is known by it. Nobody has to show one
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

/// What a node shows to its peers, and what they must show.
#[derive(Debug, Clone, clap::Args)]
pub(in crate::cli) struct PeerTlsArgs {
    /// The certificate of this node among its peers, in PEM: for its peer port, and for its connections to others
    #[arg(
        long,
        help_heading = "TLS",
        env = "HELVE_PEER_TLS_CERT",
        value_name = "FILE"
    )]
    peer_tls_cert: Option<PathBuf>,

    /// Its private key, in PEM, that no other user of the machine may read
    #[arg(
        long,
        help_heading = "TLS",
        env = "HELVE_PEER_TLS_KEY",
        value_name = "FILE"
    )]
    peer_tls_key: Option<PathBuf>,

    /// The CAs of the nodes: whoever has no certificate of theirs, made for a node, is no peer
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
    pub(in crate::cli) fn settings(&self) -> TlsSettings {
        TlsSettings {
            peer_cert: self.peer_tls_cert.clone(),
            peer_key: self.peer_tls_key.clone(),
            peer_ca: self.peer_tls_ca.clone(),
            ..TlsSettings::default()
        }
    }
}
