//! The flags of everything that talks to a cluster over TLS.

use std::{path::PathBuf, sync::Arc};

use anyhow::bail;
use helve_client::Tls;
use rustls::ClientConfig;

use crate::{
    cli::ending::{Cause, Caused},
    tls::{NamedFile, TlsError, calling},
};

/// Whom to trust, and who is calling.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct TlsArgs {
    /// The CAs of the nodes, in PEM; with it, the nodes are called over TLS
    #[arg(long, help_heading = "TLS", env = "HELVE_TLS_CA", value_name = "FILE")]
    tls_ca: Option<PathBuf>,

    /// The certificate to show to the nodes, in PEM
    #[arg(
        long,
        help_heading = "TLS",
        env = "HELVE_TLS_CLIENT_CERT",
        hide_short_help = true,
        value_name = "FILE"
    )]
    tls_client_cert: Option<PathBuf>,

    /// Its private key, in PEM, that no other user of the machine may read
    #[arg(
        long,
        help_heading = "TLS",
        env = "HELVE_TLS_CLIENT_KEY",
        hide_short_help = true,
        value_name = "FILE"
    )]
    tls_client_key: Option<PathBuf>,

    /// The name that the nodes' certificates bear, if they are reached at another, such as over a forwarded port
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
    pub(crate) fn trusting(ca: PathBuf) -> Self {
        Self {
            tls_ca: Some(ca),
            ..Self::default()
        }
    }

    /// Shows this certificate, too, with its key.
    #[cfg(test)]
    pub(crate) fn showing(self, cert: PathBuf, key: PathBuf) -> Self {
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
    pub(crate) fn client(&self) -> anyhow::Result<Option<Tls>> {
        self.checked()
            .map_err(|error| match error.downcast_ref::<Caused>() {
                Some(_) => error,
                None => Caused::of_file(Cause::TlsFile, &*error).into(),
            })
    }

    fn checked(&self) -> anyhow::Result<Option<Tls>> {
        let Some(ca) = self.ca() else {
            if self.tls_client_cert.is_some() || self.tls_client_key.is_some() {
                bail!(
                    "--tls-client-cert: a certificate is shown over TLS alone; pass --tls-ca, too"
                );
            }
            return Ok(None);
        };
        let mut tls = Tls::new(ca.public()?.as_slice());
        tls = match (&self.tls_client_cert, &self.tls_client_key) {
            (Some(cert), Some(key)) => {
                let (cert, key) = identity(cert, key)?;
                tls.identity(cert.as_slice(), key.as_slice())
            }
            (None, None) => tls,
            _ => bail!("--tls-client-cert and --tls-client-key: pass both, or none of them"),
        };
        if let Some(name) = &self.tls_server_name {
            tls = tls.server_name(name);
        }
        Ok(Some(tls))
    }

    /// The same for a diagnosis, which looks into the handshake.
    ///
    /// # Errors
    /// If a file cannot be used.
    pub(crate) fn config(&self) -> Result<Arc<ClientConfig>, TlsError> {
        let named =
            |flag, path: &Option<PathBuf>| path.clone().map(|path| NamedFile { flag, path });
        let cert = named("--tls-client-cert", &self.tls_client_cert);
        let key = named("--tls-client-key", &self.tls_client_key);
        calling(self.ca().as_ref(), cert.as_ref().zip(key.as_ref()))
    }

    /// The file with the CAs.
    pub(crate) fn ca(&self) -> Option<NamedFile> {
        let path = self.tls_ca.clone()?;
        Some(NamedFile {
            flag: "--tls-ca",
            path,
        })
    }

    /// The name to expect of a node at this host.
    pub(crate) fn name_of<'a>(&'a self, host: &'a str) -> &'a str {
        self.tls_server_name.as_deref().unwrap_or(host)
    }
}

type Bytes = zeroize::Zeroizing<Vec<u8>>;

fn identity(cert: &PathBuf, key: &PathBuf) -> Result<(Bytes, Bytes), TlsError> {
    let named = |flag, path: &PathBuf| NamedFile {
        flag,
        path: path.clone(),
    };
    let cert = named("--tls-client-cert", cert).public()?;
    Ok((cert, named("--tls-client-key", key).secret()?))
}
