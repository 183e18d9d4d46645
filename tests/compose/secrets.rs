//! What callers from outside need, copied out of the project's volumes as the head of `deploy/compose.yaml` says.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use helve_client::{Bearer, Tls};
use tempfile::TempDir;

use crate::engine::docker;

/// Where containers have them.
const DIRECTORY: &str = "/var/lib/secrets";

/// The files that a container could open, in a directory of this machine.
#[derive(Debug)]
pub(crate) struct Secrets(TempDir);

impl Secrets {
    /// Copies them out of a container, running or not.
    ///
    /// # Errors
    /// If the engine does not.
    pub(crate) async fn of(container: &str) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let to = directory
            .path()
            .to_str()
            .context("temporary paths are UTF-8")?;
        docker(&["cp", &format!("{container}:{DIRECTORY}/."), to]).await?;
        Ok(Self(directory))
    }

    /// A file of them.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The names of all files, sorted.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for directory in std::fs::read_dir(self.0.path())? {
            let directory = directory?;
            for file in std::fs::read_dir(directory.path())? {
                let (directory, file) = (directory.file_name(), file?.file_name());
                names.push(format!("{}/{}", directory.display(), file.display()));
            }
        }
        names.sort();
        Ok(names)
    }

    /// Trusts the project's CA.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn tls(&self) -> Result<Tls> {
        Ok(Tls::new(std::fs::read(self.path("clients/ca.crt"))?))
    }

    /// Who manages the cluster.
    ///
    /// # Errors
    /// If there is no such token.
    pub(crate) fn operator(&self) -> Result<Bearer> {
        Ok(Bearer::from_file(self.path("nodes/operator.token"))?)
    }

    /// Who reads and writes records.
    ///
    /// # Errors
    /// If there is no such token.
    pub(crate) fn cart(&self) -> Result<Bearer> {
        Ok(Bearer::from_file(self.path("clients/cart.token"))?)
    }
}
