//! The archived log beside a run: whatever is broken, it has each entry, and they come to the rows
//! that nodes hold.

use std::path::PathBuf;

use anyhow::Result;
use helve_tests::{archive::Following, cluster::Cluster};
use rustix::process::Signal;
use tempfile::TempDir;

use super::run::binary_under_test;

/// A `helve backup --follow` of the cluster of a run.
pub(crate) struct Archive {
    directory: TempDir,
    cluster_id: String,
    endpoints: String,
    following: Following,
}

impl Archive {
    /// Begins to archive; `None` where the nodes speak TLS, for which the command would need files.
    pub(crate) async fn begin(cluster: &Cluster) -> Result<Option<Self>> {
        if cluster.certificates().is_ok() {
            return Ok(None);
        }
        let directory = tempfile::tempdir()?;
        let endpoints = cluster.endpoints().join(",");
        let to = place(&directory);
        let following = Following::begin(&binary_under_test(), &endpoints, &to).await?;
        Ok(Some(Self {
            directory,
            cluster_id: id(cluster).await?,
            endpoints,
            following,
        }))
    }

    /// Compares a restore of it with the rows of a node. Callers must have ended.
    ///
    /// # Errors
    /// [`helve_tests::promise::Broken`] if they differ; else whatever kept them from being compared.
    pub(crate) async fn check(&mut self, cluster: &Cluster) -> Result<()> {
        // A survivor was made a new cluster: the archive of the former one has ended.
        if id(cluster).await? != self.cluster_id {
            self.following.end(Signal::KILL).await?;
            // A place of its own: in a shared one a revision may be of either cluster.
            self.directory = tempfile::tempdir()?;
            let (binary, to) = (binary_under_test(), place(&self.directory));
            self.following = Following::begin(&binary, &self.endpoints, &to).await?;
            self.cluster_id = id(cluster).await?;
        }
        self.following.brings_back(cluster).await
    }
}

fn place(directory: &TempDir) -> PathBuf {
    directory.path().join("to")
}

async fn id(cluster: &Cluster) -> Result<String> {
    let seat = cluster.running().first().copied().unwrap_or(1);
    Ok(cluster.status(seat).await?.cluster_id)
}
