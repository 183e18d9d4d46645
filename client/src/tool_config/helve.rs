//! A state tool whose keys a cluster keeps.

use std::path::PathBuf;

use serde::Deserialize;

use crate::{bearer::Bearer, cluster::ClusterBuilder, error::Error};

/// What a document says of the cluster.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Helve {
    endpoints: Vec<String>,
    pub(super) owner: Option<String>,
    pub(super) idle_ttl: Option<u64>,
    tls: Option<TlsFiles>,
    token_file: Option<PathBuf>,
}

/// Whom to trust, and who to be.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(
    not(feature = "tls"),
    allow(dead_code, reason = "checked in every build")
)]
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
        Ok(builder)
    }
}

#[cfg(feature = "tls")]
impl TlsFiles {
    fn secure(&self, builder: ClusterBuilder) -> Result<ClusterBuilder, Error> {
        use super::{Secrecy, read, refused};

        let mut tls = crate::Tls::new(read(&self.ca_file, Secrecy::Public)?);
        match (&self.certificate_file, &self.key_file) {
            (Some(certificate), Some(key)) => {
                tls = tls.identity(
                    read(certificate, Secrecy::Public)?,
                    zeroize::Zeroizing::new(read(key, Secrecy::Secret)?),
                );
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

#[cfg(not(feature = "tls"))]
impl TlsFiles {
    fn secure(&self, _: ClusterBuilder) -> Result<ClusterBuilder, Error> {
        let message =
            "state_tool: this build has no TLS: build helve-client with its feature `tls`";
        Err(Error::new(crate::ErrorKind::Unsupported, message))
    }
}
