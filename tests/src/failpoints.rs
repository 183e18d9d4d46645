//! Arms failpoints in nodes that run. The nodes must be built for it.

use std::{fs, path::PathBuf};

use anyhow::Result;

use crate::cluster::Cluster;

/// Lets a node, from its next start on, do what [`arm`] says.
pub fn watch(cluster: &mut Cluster, seat: u64) {
    let file = file(cluster, seat).display().to_string();
    cluster.node_mut(seat).set("HELVE_FAILPOINT_FILE", &file);
}

/// Arms failpoints of a node: `NAME=ACTION`, separated by commas, instead of those that were armed before.
///
/// # Errors
///
/// If the file cannot be written.
pub fn arm(cluster: &Cluster, seat: u64, script: &str) -> Result<()> {
    let file = file(cluster, seat);
    // A running node must read all of it or nothing.
    let whole = file.with_extension("whole");
    fs::write(&whole, script)?;
    Ok(fs::rename(&whole, &file)?)
}

/// Disarms all failpoints of a node that [`arm`] armed.
///
/// # Errors
///
/// If the file cannot be written.
pub fn disarm(cluster: &Cluster, seat: u64) -> Result<()> {
    arm(cluster, seat, "")
}

fn file(cluster: &Cluster, seat: u64) -> PathBuf {
    cluster.data_directory(seat).with_extension("failpoints")
}
