//! The node's data directory: whose it is, and that only one process uses it.

mod directory;
mod error;

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use self::directory::{close_to_others, create, is_empty, lock};
use super::durable_file;
pub use error::DataDirError;

/// The layout of the directory that this build writes, and the newest that it reads.
const FORMAT: u32 = 1;
const IDENTITY_NAME: &str = "node.json";
const LOCK_NAME: &str = "LOCK";
const ACKNOWLEDGED_NAME: &str = "acknowledged";

/// Who a node is. It outlives the process, and changes only by a start and by [`DataDir::assign`], [`DataDir::admit`],
/// [`DataDir::retire`] and [`DataDir::disown`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeIdentity {
    /// The layout of the directory.
    pub format: u32,
    /// Tells this directory from any other one, even of the same node id.
    pub uuid: String,
    /// The seat that it was started for.
    pub seat: u64,
    /// The id in the cluster; 0 while it has none.
    pub node_id: u64,
    /// The cluster; empty while it has none.
    pub cluster_id: String,
    /// One past the index of a committed membership that it stood in; 0 before that.
    #[serde(default)]
    pub member_at: u64,
    /// It was taken out of the cluster, and must not take part again.
    #[serde(default)]
    pub removed: bool,
    /// Starts on the directory so far, this one included.
    #[serde(default)]
    pub starts: u64,
    /// How it shows that the directory lacks what the node acknowledged; empty if nothing shows that.
    #[serde(default)]
    pub put_back: String,
    /// A recovery of this node into a new cluster is under way, or while it has no cluster, a restore.
    #[serde(default)]
    pub recovering: bool,
    /// The cluster that this node was recovered from; empty for none.
    #[serde(default)]
    pub former_cluster_id: String,
}

impl NodeIdentity {
    /// A node's that was never started.
    fn fresh(uuid: &str, seat: u64) -> Self {
        Self {
            format: FORMAT,
            uuid: uuid.to_owned(),
            seat,
            node_id: 0,
            cluster_id: String::new(),
            member_at: 0,
            removed: false,
            starts: 0,
            put_back: String::new(),
            recovering: false,
            former_cluster_id: String::new(),
        }
    }
}

/// Whether a write waits for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// It is durable once it returns.
    Synced,
    /// A power cut may bring back what was there before.
    Unsynced,
}

/// A data directory that this process alone uses.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    identity: NodeIdentity,
    /// Locked as long as it is open.
    _lock: File,
}

impl DataDir {
    /// Opens the directory for the node of a seat. A new or empty one becomes a pristine node's, with `fresh_uuid` for its uuid; its
    /// parent must exist.
    ///
    /// # Errors
    /// See [`DataDirError`]. Nothing but an empty directory or a lock file was written then.
    pub fn open(path: &Path, seat: u64, fresh_uuid: &str) -> Result<Self, DataDirError> {
        create(path)?;
        let is_ours = path.join(IDENTITY_NAME).exists();
        if !is_ours && !is_empty(path)? {
            return Err(DataDirError::NotOurs(path.to_owned()));
        }
        let lock = lock(path)?;
        close_to_others(path)?;
        // Only now: another process may have made it a node's in the meantime.
        let found = read_identity(path)?;
        let mut identity = found.unwrap_or_else(|| NodeIdentity::fresh(fresh_uuid, seat));
        if identity.recovering {
            let path = path.to_owned();
            return Err(if identity.cluster_id.is_empty() {
                DataDirError::Restoring(path)
            } else {
                DataDirError::Recovering(path)
            });
        }
        if identity.seat != seat {
            let path = path.to_owned();
            return Err(DataDirError::OtherSeat {
                path,
                found: identity.seat,
                wanted: seat,
            });
        }
        // Durable before anybody hears of this run.
        identity.starts += 1;
        write_identity(path, &identity)?;
        Ok(Self {
            path: path.to_owned(),
            identity,
            _lock: lock,
        })
    }

    /// Makes a new or empty directory that of a node that is restored into it: the node does not start before
    /// [`finish_recovery`](Self::finish_recovery).
    ///
    /// # Errors
    /// See [`DataDirError`]; if the directory holds anything, nothing was written.
    pub fn begin_restore(
        path: &Path,
        (node_id, seat): (u64, u64),
        fresh_uuid: &str,
    ) -> Result<Self, DataDirError> {
        create(path)?;
        let check = || match is_empty(path)? {
            true => Ok(()),
            false => Err(DataDirError::NotEmpty(path.to_owned())),
        };
        check()?;
        let lock = lock(path)?;
        // Another process may have written there in the meantime.
        check()?;
        close_to_others(path)?;
        let identity = NodeIdentity {
            node_id,
            recovering: true,
            ..NodeIdentity::fresh(fresh_uuid, seat)
        };
        write_identity(path, &identity)?;
        Ok(Self {
            path: path.to_owned(),
            identity,
            _lock: lock,
        })
    }

    /// Opens the directory of a node that does not run, whatever its seat, without a start of it.
    ///
    /// # Errors
    /// See [`DataDirError`]; nothing was written then.
    pub fn open_stopped(path: &Path) -> Result<Self, DataDirError> {
        let is_node = path.join(IDENTITY_NAME).try_exists();
        if !is_node.map_err(|e| failed(path, e))? {
            return Err(DataDirError::NoNode(path.to_owned()));
        }
        let lock = lock(path)?;
        close_to_others(path)?;
        let identity = read_identity(path)?;
        let identity = identity.ok_or_else(|| DataDirError::NoNode(path.to_owned()))?;
        Ok(Self {
            path: path.to_owned(),
            identity,
            _lock: lock,
        })
    }

    /// Remembers, durably, that a recovery of this node is under way: it does not start before that is finished.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn begin_recovery(&mut self) -> Result<(), DataDirError> {
        self.become_known_as(NodeIdentity {
            recovering: true,
            ..self.identity.clone()
        })
    }

    /// Makes this node, durably, the only member of a new cluster, under another uuid: no other node knows it any more.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn finish_recovery(
        &mut self,
        uuid: &str,
        cluster_id: &str,
        member_at: u64,
    ) -> Result<(), DataDirError> {
        self.become_known_as(NodeIdentity {
            uuid: uuid.to_owned(),
            former_cluster_id: self.identity.cluster_id.clone(),
            cluster_id: cluster_id.to_owned(),
            member_at,
            put_back: String::new(),
            recovering: false,
            ..self.identity.clone()
        })
    }

    /// Who this node is.
    #[must_use]
    pub fn identity(&self) -> &NodeIdentity {
        &self.identity
    }

    /// Makes this node a member of a cluster, durably.
    ///
    /// # Errors
    /// If it belongs to another cluster already, or the disk fails.
    pub fn assign(&mut self, node_id: u64, cluster_id: &str) -> Result<(), DataDirError> {
        self.expect_cluster(cluster_id)?;
        let cluster_id = cluster_id.to_owned();
        self.become_known_as(NodeIdentity {
            node_id,
            cluster_id,
            ..self.identity.clone()
        })
    }

    /// Remembers, durably, that this node is in the committed membership of this index.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn admit(&mut self, member_at: u64) -> Result<(), DataDirError> {
        self.become_known_as(NodeIdentity {
            member_at,
            ..self.identity.clone()
        })
    }

    /// Remembers, durably, that this node was taken out of its cluster.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn retire(&mut self) -> Result<(), DataDirError> {
        self.become_known_as(NodeIdentity {
            removed: true,
            ..self.identity.clone()
        })
    }

    /// Remembers, durably, how it shows that this directory lacks what the node acknowledged.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn disown(&mut self, put_back: &str) -> Result<(), DataDirError> {
        self.become_known_as(NodeIdentity {
            put_back: put_back.to_owned(),
            ..self.identity.clone()
        })
    }

    /// What an earlier run [stored](Self::write_acknowledged) of what other nodes acknowledged; `None` if that is lost or damaged.
    #[must_use]
    pub fn read_acknowledged(&self) -> Option<Vec<u8>> {
        let path = self.path.join(ACKNOWLEDGED_NAME);
        durable_file::read_sealed(&path).unwrap_or_else(|error| {
            tracing::warn!(%error, "what other nodes acknowledged is forgotten: they are told from older disks with less certainty");
            None
        })
    }

    /// Stores what other nodes acknowledged, in the data directory at this path.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn write_acknowledged(
        path: &Path,
        content: &[u8],
        write: Write,
    ) -> Result<(), DataDirError> {
        let path = path.join(ACKNOWLEDGED_NAME);
        let written = match write {
            Write::Synced => durable_file::replace_sealed(&path, content),
            Write::Unsynced => durable_file::replace_sealed_unsynced(&path, content),
        };
        written.map_err(|e| failed(&path, e))
    }

    fn become_known_as(&mut self, identity: NodeIdentity) -> Result<(), DataDirError> {
        write_identity(&self.path, &identity)?;
        self.identity = identity;
        Ok(())
    }

    /// Checks that this node may take part in a cluster: in its own, or in any while it has none.
    ///
    /// # Errors
    /// If it belongs to another one.
    pub fn expect_cluster(&self, cluster_id: &str) -> Result<(), DataDirError> {
        let found = &self.identity.cluster_id;
        if found.is_empty() || found == cluster_id {
            return Ok(());
        }
        let (path, found) = (self.path.clone(), found.clone());
        Err(DataDirError::OtherCluster {
            path,
            found,
            wanted: cluster_id.to_owned(),
        })
    }

    /// The directory itself; the state lives right in it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the log lives.
    #[must_use]
    pub fn log_path(&self) -> PathBuf {
        self.path.join("raft")
    }

    /// Where snapshots live.
    #[must_use]
    pub fn snapshots_path(&self) -> PathBuf {
        self.path.join("snapshots")
    }
}

fn failed(path: &Path, source: io::Error) -> DataDirError {
    let path = path.to_owned();
    match source.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            DataDirError::ReadOnly(path)
        }
        io::ErrorKind::NotADirectory => DataDirError::NotADirectory(path),
        _ => DataDirError::Io { path, source },
    }
}

fn read_identity(path: &Path) -> Result<Option<NodeIdentity>, DataDirError> {
    let content = match fs::read(path.join(IDENTITY_NAME)) {
        Ok(content) => content,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(path, e)),
    };
    let damaged = |e: serde_json::Error| DataDirError::Damaged {
        path: path.to_owned(),
        detail: e.to_string(),
    };
    // A newer identity may look otherwise, but it says its format.
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let Format { format: found } = serde_json::from_slice(&content).map_err(damaged)?;
    if found > FORMAT {
        return Err(DataDirError::NewerFormat {
            path: path.to_owned(),
            found,
        });
    }
    serde_json::from_slice(&content).map(Some).map_err(damaged)
}

fn write_identity(path: &Path, identity: &NodeIdentity) -> Result<(), DataDirError> {
    let content = serde_json::to_vec_pretty(identity).map_err(|e| failed(path, e.into()))?;
    durable_file::replace(&path.join(IDENTITY_NAME), &content).map_err(|e| failed(path, e))
}

#[cfg(test)]
mod tests;
