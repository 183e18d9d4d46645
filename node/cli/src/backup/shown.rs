//! A backup, for people and scripts.

use helve_command::output::time;
use helve_node::backup::Backup;
use serde::Serialize;

/// A backup, as it is shown.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
    pub(super) id: String,
    /// The cluster's time in it, in UTC.
    pub(super) time: String,
    pub(super) cluster_id: String,
    /// The last entry of the log whose effect it holds.
    pub(super) revision: u64,
    pub(super) rows: u64,
    /// SHA-256 over all rows, as `helve digest` shows it.
    pub(super) digest: String,
    pub(super) files: usize,
    pub(super) bytes: u64,
    /// The node that made it.
    pub(super) node_id: u64,
    /// The version that made it.
    pub(super) version: String,
    /// The feature level that a version must support to restore it.
    pub(super) feature_level: u32,
    /// The data keys that it takes to restore it.
    pub(super) data_key_ids: Vec<String>,
}

impl Shown {
    pub(super) fn of(backup: &Backup) -> Self {
        let manifest = backup.manifest();
        Self {
            id: backup.id(),
            time: time(manifest.clock_ms),
            cluster_id: manifest.cluster_id.clone(),
            revision: manifest.revision,
            rows: manifest.rows,
            digest: data_encoding::HEXLOWER.encode(&manifest.digest),
            files: backup.files().len(),
            bytes: backup.bytes(),
            node_id: manifest.node_id,
            version: manifest.version.clone(),
            feature_level: manifest.feature_level,
            data_key_ids: backup.data_key_ids(),
        }
    }
}
