//! Sealing at rest. The node that receives a value seals it before it enters the log, and the node that answers opens it: log, rows,
//! snapshots and kept outcomes hold sealed bytes alone.
//!
//! Under which key is a replicated decision, not each node's own: a node seals only under the key that the cluster's `SealingRow`
//! names, and that changes only once every member holds the new key. So no node ever meets a value that it cannot open, and after a
//! change nothing more comes under the old key. What is sealed otherwise then is resealed by the leader, bit by bit.

mod change;
mod disk;
mod files;
mod members;
mod open;
mod seal;
mod switch;
#[cfg(test)]
mod tests;
mod walk;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use helve_machine::{View, sealing::sealing};
use helve_proto::command::v1::SealingRow;
use helve_seal::{KeyId, Keyring, Place, primitives};
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};
use zeroize::Zeroizing;

use self::disk::Disk;
pub use self::{
    change::{UnfitChange, check_change},
    disk::{DiskKeys, NewDiskKey},
    files::{KeyFiles, Migration, watch_files},
    members::Members,
    open::{Asked, OpenError},
    seal::SealError,
    switch::{Switch, SwitchError, Target},
    walk::walk_as_leader,
};
use crate::{
    limits::GROUP_ID,
    raft::Consensus,
    refusal::Refusal,
    stamp,
    storage::{error::StorageError, state_db::StateDb},
};

/// What sealing keys of nodes are derived for.
pub const PURPOSE: &str = "helve data at rest 1";

/// How long to wait after something went wrong.
const PAUSE_AFTER_TROUBLE: Duration = Duration::from_secs(1);

/// Where the fingerprint secret is sealed.
const SECRET_PLACE: Place<'_> = Place {
    kind: "fingerprint secret",
    parts: &[],
};

/// What the cluster says, as far as this node has applied it.
#[derive(Default)]
struct Known {
    row: Option<SealingRow>,
    /// The cluster's fingerprint secret, opened.
    secret: Option<Zeroizing<[u8; primitives::KEY_BYTES]>>,
}

/// The node's keys, and what the cluster says of them.
pub struct Vault {
    files: KeyFiles,
    ring: ArcSwap<Keyring>,
    /// What this node's disk is authenticated with.
    disk: Mutex<Option<Disk>>,
    known: ArcSwap<Known>,
    /// The index of the row that is known; tells those who wait for a newer one.
    index: watch::Sender<u64>,
    /// Why sealing, which this node is to do, has not begun yet.
    waits_for: Mutex<String>,
    walked: AtomicU64,
    resealed: AtomicU64,
}

impl Vault {
    /// A vault with the keys of these files, read before.
    #[must_use]
    pub fn new(files: KeyFiles, ring: Keyring) -> Arc<Self> {
        Arc::new(Self {
            files,
            ring: ArcSwap::from_pointee(ring),
            disk: Mutex::default(),
            known: ArcSwap::default(),
            index: watch::Sender::new(0),
            waits_for: Mutex::new("the cluster has no leader yet".to_owned()),
            walked: AtomicU64::new(0),
            resealed: AtomicU64::new(0),
        })
    }

    /// The ids of the keys that this node holds, the newest last.
    #[must_use]
    pub fn key_ids(&self) -> Vec<KeyId> {
        self.ring.load().ids()
    }

    /// Whether this node holds any key.
    #[must_use]
    pub fn has_keys(&self) -> bool {
        !self.ring.load().is_empty()
    }

    /// What the cluster says, as far as this node knows.
    #[must_use]
    pub fn row(&self) -> Option<SealingRow> {
        self.known.load().row.clone()
    }

    /// Rows that the walk under way has looked at, and records that it has resealed; on the leader.
    #[must_use]
    pub fn walked(&self) -> (u64, u64) {
        let rows = self.walked.load(Ordering::Relaxed);
        (rows, self.resealed.load(Ordering::Relaxed))
    }

    /// Takes in what the cluster says.
    ///
    /// # Errors
    /// A key is missing without which this node must not serve: it names the flag.
    pub fn learn(&self, row: Option<SealingRow>) -> Result<(), Refusal> {
        let secret = self.checked(row.as_ref())?;
        let index = row.as_ref().map_or(0, |row| row.index);
        self.known.store(Arc::new(Known { row, secret }));
        self.index.send_replace(index);
        Ok(())
    }

    /// The fingerprint secret, if this node may serve a cluster that says this.
    fn checked(
        &self,
        row: Option<&SealingRow>,
    ) -> Result<Option<Zeroizing<[u8; primitives::KEY_BYTES]>>, Refusal> {
        let ring = self.ring.load();
        let Some(row) = row else { return Ok(None) };
        if ring.is_empty() {
            if is_over(row) {
                return Ok(None);
            }
            return Err(Refusal::new(
                "--data-key-file",
                format!(
                    "the values of this cluster are sealed under key {}, and no key is given",
                    hex(&row.secret_key_id)
                ),
                "give this node the key files that the other nodes have; to do without, run `helve data-key unseal` first",
            ));
        }
        let wanted = KeyId::from_bytes(&row.secret_key_id);
        let key = wanted.and_then(|id| ring.find(id).cloned());
        let secret = key.and_then(|key| key.open(&SECRET_PLACE, &row.secret));
        match secret.and_then(|secret| secret.as_slice().try_into().ok().map(Zeroizing::new)) {
            Some(secret) => Ok(Some(secret)),
            None if is_over(row) => Ok(None),
            None => Err(Refusal::new(
                "--data-key-file",
                format!(
                    "the values of this cluster are sealed under key {}, which none of the given files holds",
                    hex(&row.secret_key_id)
                ),
                "give this node the key files that the other nodes have",
            )),
        }
    }

    /// The keys that this node holds now.
    #[must_use]
    pub fn keyring(&self) -> Keyring {
        Keyring::clone(&self.ring.load())
    }

    /// Whether a node with these rows may start: a cluster that holds plaintext is not sealed by accident.
    ///
    /// # Errors
    /// The flag at fault, and what to do.
    pub fn check_start(&self, row: Option<SealingRow>, rows: Holding) -> Result<(), Refusal> {
        let never_sealed = row.is_none();
        let is_sealed = row.as_ref().is_some_and(|row| row.complete_index > 0);
        self.learn(row)?;
        if is_sealed && self.files.may_migrate() {
            tracing::warn!(
                "--data-key-migrate is not needed any more: take it out, or a disk whose `disk-key` was removed may be taken as it is"
            );
        }
        if never_sealed
            && rows == Holding::Values
            && !self.ring.load().is_empty()
            && self.files.migration == Migration::Refused
        {
            return Err(Refusal::new(
                "--data-key-file",
                "this node holds values that were written without sealing",
                "pass --data-key-migrate on every node, one after the other: once all hold the key, the leader seals what is there; or start without keys",
            ));
        }
        Ok(())
    }

    /// Why this node must not take values yet: they would stay plaintext.
    ///
    /// # Errors
    /// What it waits for.
    pub fn ready(&self) -> Result<(), String> {
        let known = self.known.load();
        if known.row.is_some()
            || self.ring.load().is_empty()
            || self.files.migration == Migration::Allowed
        {
            return Ok(());
        }
        let waits_for = self
            .waits_for
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Err(format!("values are not sealed yet: {waits_for}"))
    }

    /// Waits until what this node knows is not older than this row. In vain at the deadline: then it is asked again anyway.
    pub async fn at_least(&self, index: u64, deadline: Instant) {
        let mut known = self.index.subscribe();
        // The sender lives as long as this, and a deadline that passes shows at the next step.
        let _late = timeout_at(deadline, known.wait_for(|known| *known >= index)).await;
    }

    /// What makes a request the same request. Keyed once values are sealed: so a reader of the disks cannot try out values against it.
    /// One secret serves for the life of the cluster, so it is the same before and after a rotation, on every node.
    #[must_use]
    pub fn fingerprint(&self, request: &[u8]) -> Bytes {
        let known = self.known.load();
        let is_sealed = known.row.as_ref().is_some_and(|row| !row.key_id.is_empty());
        match known.secret.as_ref().filter(|_| is_sealed) {
            Some(secret) => seal::keyed(secret, request),
            None => seal::unkeyed(request),
        }
    }

    /// The fingerprints that the same request had while values were sealed, or not, if that has changed since.
    #[must_use]
    pub fn other_fingerprints(&self, request: &[u8]) -> Vec<Bytes> {
        let known = self.known.load();
        let Some(secret) = &known.secret else {
            return Vec::new();
        };
        vec![seal::keyed(secret, request), seal::unkeyed(request)]
    }

    fn wait_for(&self, what: String) {
        *self
            .waits_for
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = what;
    }
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vault")
            .field("keys", &self.key_ids())
            .finish_non_exhaustive()
    }
}

/// Whether rows hold values that were never sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holding {
    /// They do.
    Values,
    /// They hold none.
    Nothing,
}

/// What a node's rows say when it starts.
///
/// # Errors
/// If they cannot be read.
pub fn read_rows(rows: &impl View) -> Result<(Option<SealingRow>, Holding), StorageError> {
    let damaged =
        |fault: helve_machine::Fault| StorageError::unreadable("the sealing of values", &fault);
    let row = sealing(rows, GROUP_ID).map_err(damaged)?;
    // Whatever is sealed under some key: the first record is enough.
    let walk = helve_machine::sealing::walk(rows, GROUP_ID, b"none", b"", (u64::MAX, 1));
    let holding = if walk.map_err(damaged)?.found.is_empty() {
        Holding::Nothing
    } else {
        Holding::Values
    };
    Ok((row, holding))
}

/// Follows what the cluster says; ends with the reason why this node must not serve it.
pub async fn follow(vault: Arc<Vault>, consensus: Consensus, state: Arc<StateDb>) -> Refusal {
    let mut milestones = consensus.applied().milestones();
    let mut seen = 0;
    loop {
        let changed = milestones
            .wait_for(|milestones| milestones.sealing_state != seen)
            .await;
        let Ok(index) = changed.map(|milestones| milestones.sealing_state) else {
            return std::future::pending().await;
        };
        match state.read(|rows| read_rows(rows)) {
            Ok((row, _)) => {
                if let Err(refusal) = vault.learn(row) {
                    return refusal;
                }
                seen = index;
            }
            Err(error) => {
                tracing::error!(%error, "how values are sealed cannot be read");
                tokio::time::sleep(PAUSE_AFTER_TROUBLE).await;
            }
        }
    }
}

/// Sealing was ended, and nothing is sealed any more: no key is needed.
pub(crate) fn is_over(row: &SealingRow) -> bool {
    row.key_id.is_empty() && row.done
}

fn hex(key_id: &[u8]) -> String {
    KeyId::from_bytes(key_id).map_or_else(|| "unknown".to_owned(), |id| id.to_string())
}

fn fresh<const N: usize>() -> Result<[u8; N], stamp::EntropyError> {
    stamp::random()
}
