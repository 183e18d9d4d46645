//! The flags of everything that talks to a cluster over TLS.

use std::{
    fs,
    os::unix::fs::FileTypeExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::bail;
use helve_client::Tls;
use helve_node::tls::{NamedFile, TlsError, calling};
use rustls::{ClientConfig, pki_types::ServerName};

use crate::ending::{Cause, Caused};

/// The CAs to trust, and the caller's certificate.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct TlsArgs {
    /// CAs of the nodes, in PEM; with it, calls use TLS
    #[arg(long, help_heading = "TLS", env = "HELVE_TLS_CA", value_name = "FILE")]
    tls_ca: Option<PathBuf>,

    /// Client certificate, in PEM
    #[arg(
        long,
        help_heading = "TLS",
        env = "HELVE_TLS_CLIENT_CERT",
        hide_short_help = true,
        value_name = "FILE"
    )]
    tls_client_cert: Option<PathBuf>,

    /// Private key of the certificate, in PEM; other users of the machine must not be able to read
    /// it
    #[arg(
        long,
        help_heading = "TLS",
        env = "HELVE_TLS_CLIENT_KEY",
        hide_short_help = true,
        value_name = "FILE"
    )]
    tls_client_key: Option<PathBuf>,

    /// Name in the nodes' certificates, if they are reached by another name, such as over a
    /// forwarded port
    #[arg(
        long,
        help_heading = "TLS",
        env = "HELVE_TLS_SERVER_NAME",
        hide_short_help = true,
        value_name = "NAME"
    )]
    tls_server_name: Option<String>,
}

impl TlsArgs {
    /// Trusts the CAs in this file, and shows no certificate.
    pub fn trusting(ca: PathBuf) -> Self {
        Self {
            tls_ca: Some(ca),
            ..Self::default()
        }
    }

    /// Shows this certificate, too, with its key.
    #[must_use]
    pub fn showing(self, cert: PathBuf, key: PathBuf) -> Self {
        Self {
            tls_client_cert: Some(cert),
            tls_client_key: Some(key),
            ..self
        }
    }

    /// How to call nodes; `None`: in plain text.
    ///
    /// # Errors
    /// If a file cannot be used, or one is missing: a [`Caused`].
    pub fn client(&self) -> anyhow::Result<Option<Tls>> {
        self.checked()
            .map_err(|error| match error.downcast_ref::<Caused>() {
                Some(_) => error,
                None => Caused::of_file(Cause::TlsFile, &*error).into(),
            })
    }

    fn checked(&self) -> anyhow::Result<Option<Tls>> {
        let Some(ca) = self.ca() else {
            if self.tls_client_cert.is_some() || self.tls_client_key.is_some() {
                bail!("--tls-client-cert: a client certificate needs TLS; pass --tls-ca, too");
            }
            return Ok(None);
        };
        // Checked now so that a refusal names the flag, and read again for each connection.
        ca.certificate()?;
        let mut tls = if is_piped(&ca.path) {
            Tls::new(&ca.public()?[..])
        } else {
            Tls::from_file(ca.path)
        };
        tls = match (self.cert(), self.key()) {
            (Some(cert), Some(key)) => {
                calling(None, Some((&cert, &key)))?;
                if is_piped(&cert.path) || is_piped(&key.path) {
                    tls.identity(&cert.public()?[..], &key.secret()?[..])
                } else {
                    tls.identity_from_files(cert.path, key.path)
                }
            }
            (None, None) => tls,
            _ => bail!(
                "--tls-client-cert and --tls-client-key: one of them is missing; pass both or neither"
            ),
        };
        if let Some(name) = &self.tls_server_name {
            if ServerName::try_from(name.as_str()).is_err() {
                let next = "pass the name in the nodes' certificates";
                let message = format!(
                    "--tls-server-name: `{name}` cannot be a name in a certificate; {next}"
                );
                return Err(Caused::new(Cause::CertificateName, message).into());
            }
            tls = tls.server_name(name);
        }
        Ok(Some(tls))
    }

    /// The same for a diagnosis, which looks into the handshake.
    ///
    /// # Errors
    /// If a file cannot be used.
    pub fn config(&self) -> Result<Arc<ClientConfig>, TlsError> {
        let (cert, key) = (self.cert(), self.key());
        calling(self.ca().as_ref(), cert.as_ref().zip(key.as_ref()))
    }

    fn cert(&self) -> Option<NamedFile> {
        named("--tls-client-cert", self.tls_client_cert.as_ref())
    }

    fn key(&self) -> Option<NamedFile> {
        named("--tls-client-key", self.tls_client_key.as_ref())
    }

    /// The file with the CAs.
    pub fn ca(&self) -> Option<NamedFile> {
        named("--tls-ca", self.tls_ca.as_ref())
    }

    /// The name to expect of a node at this host.
    pub fn name_of<'a>(&'a self, host: &'a str) -> &'a str {
        self.tls_server_name.as_deref().unwrap_or(host)
    }
}

/// Whether a file is a pipe, which can be read once: what it held is given to connections then, not its name.
pub(super) fn is_piped(file: &Path) -> bool {
    let found = fs::metadata(file);
    found.is_ok_and(|found| found.file_type().is_fifo())
}

fn named(flag: &'static str, path: Option<&PathBuf>) -> Option<NamedFile> {
    path.cloned().map(|path| NamedFile { flag, path })
}
