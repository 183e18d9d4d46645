//! What a node takes up: memory, and room on its disk.

use std::{collections::BTreeSet, fs, io, os::unix::fs::MetadataExt as _, path::Path};

use anyhow::{Context as _, Result};
pub(crate) use helve_tests::attack::memory::peak_bytes;
use helve_tests::attack::memory::resident_bytes;
use serde::Serialize;

use crate::nodes::{Nodes, Size};

/// What a node's process holds at some point of the course.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Memory {
    pub(crate) size: Size,
    pub(crate) seat: u64,
    pub(crate) when: &'static str,
    pub(crate) resident_bytes: u64,
    /// The most until then, of all processes in this seat.
    pub(crate) peak_bytes: u64,
}

impl Memory {
    pub(crate) fn of(nodes: &Nodes, when: &'static str) -> Result<Vec<Self>> {
        let memory = |seat| {
            let pid = nodes.cluster.node(seat).pid();
            Ok(Self {
                size: nodes.size,
                seat,
                when,
                resident_bytes: resident_bytes(pid.context("it runs")?)?,
                peak_bytes: nodes.peak_bytes(seat)?,
            })
        };
        nodes.cluster.running().into_iter().map(memory).collect()
    }
}

/// What a node's files take up; a file with several names counts once.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Disk {
    pub(crate) size: Size,
    pub(crate) seat: u64,
    pub(crate) rows_bytes: u64,
    pub(crate) log_bytes: u64,
    /// Of the newest snapshot, what the rows do not share with it any more.
    pub(crate) snapshot_bytes: u64,
}

impl Disk {
    pub(crate) fn of(nodes: &Nodes) -> Result<Vec<Self>> {
        let disk = |seat| {
            let directory = nodes.cluster.data_directory(seat);
            let mut seen = BTreeSet::new();
            let log_bytes = used_bytes(&directory.join("raft"), "", &mut seen)?;
            let rows_bytes = used_bytes(&directory, "snapshots", &mut seen)?;
            let snapshot_bytes = used_bytes(&directory.join("snapshots"), "", &mut seen)?;
            Ok(Self {
                size: nodes.size,
                seat,
                rows_bytes,
                log_bytes,
                snapshot_bytes,
            })
        };
        nodes.cluster.seats().into_iter().map(disk).collect()
    }

    pub(crate) fn all_bytes(&self) -> u64 {
        self.rows_bytes + self.log_bytes + self.snapshot_bytes
    }
}

/// The files of a node's snapshots, whether or not the rows share them.
pub(crate) fn snapshot_bytes(nodes: &Nodes, seat: u64) -> Result<u64> {
    let directory = nodes.cluster.data_directory(seat).join("snapshots");
    Ok(used_bytes(&directory, "", &mut BTreeSet::new())?)
}

/// What the files below take up that were not `seen` before, but for what is called `without`.
fn used_bytes(path: &Path, without: &str, seen: &mut BTreeSet<(u64, u64)>) -> io::Result<u64> {
    // Files come and go while they are counted.
    let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let entries = match fs::read_dir(path) {
        Err(error) if is_gone(&error) => return Ok(0),
        entries => entries?,
    };
    let mut used = 0;
    for entry in entries {
        let entry = entry?;
        if entry.file_name() == without {
            continue;
        }
        let metadata = match entry.metadata() {
            Err(error) if is_gone(&error) => continue,
            metadata => metadata?,
        };
        if metadata.is_dir() {
            used += used_bytes(&entry.path(), without, seen)?;
        } else if seen.insert((metadata.dev(), metadata.ino())) {
            used += metadata.blocks() * 512;
        }
    }
    Ok(used)
}
