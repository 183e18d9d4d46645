//! A state tool whose keys a cluster keeps.

use std::path::PathBuf;

use helve_client::{Bearer, ClusterBuilder, Error, Tls};
use serde::Deserialize;

use super::read::{Secrecy, content, refused};

/// What a document says of the cluster.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Helve {
    endpoints: Vec<String>,
    pub(super) owner: Option<String>,
    pub(super) idle_ttl: Option<u64>,
    tls: Option<TlsFiles>,
    token_file: Option<PathBuf>,
    /// The author vouches for the network that the token crosses in plain text.
    #[serde(default)]
    insecure_token: bool,
}

/// Whom to trust, and who to be.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct TlsFiles {
    ca_file: PathBuf,
    certificate_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    server_name: Option<String>,
}

impl Helve {
    /// How the cluster is reached.
    pub(super) fn builder(&self) -> Result<ClusterBuilder, Error> {
        let mut builder = ClusterBuilder::new(&self.endpoints);
        if let Some(files) = &self.tls {
            builder = files.secure(builder)?;
        }
        if let Some(path) = &self.token_file {
            builder = builder.token(Bearer::from_file(path)?);
        }
        Ok(if self.insecure_token {
            builder.insecure_token()
        } else {
            builder
        })
    }
}

impl TlsFiles {
    fn secure(&self, builder: ClusterBuilder) -> Result<ClusterBuilder, Error> {
        // Read now so that a refusal names the file, and again for each connection: but for a pipe,
        // which can be read once.
        let ca = content(&self.ca_file, Secrecy::Public)?;
        let mut tls = if ca.metadata.is_file() {
            Tls::from_file(&self.ca_file)
        } else {
            Tls::new(&ca.bytes[..])
        };
        match (&self.certificate_file, &self.key_file) {
            (Some(certificate), Some(key)) => {
                let chain = content(certificate, Secrecy::Public)?;
                let secret = content(key, Secrecy::Secret)?;
                tls = if chain.metadata.is_file() && secret.metadata.is_file() {
                    tls.identity_from_files(certificate, key)
                } else {
                    tls.identity(&chain.bytes[..], &secret.bytes[..])
                };
            }
            (None, None) => {}
            _ => {
                return Err(refused(
                    "state_tool: config: tls: give `certificate_file` and `key_file`, or neither",
                ));
            }
        }
        if let Some(name) = &self.server_name {
            tls = tls.server_name(name);
        }
        Ok(builder.tls(tls))
    }
}
