//! What a node says of a backup that it makes.

use std::collections::BTreeSet;

use bytes::Bytes;
use helve_machine::{
    Fault,
    sealing::{Tally, sealing, tally},
};
use helve_proto::v1::BackupManifest;
use helve_seal::{KeyId, Keyring};
use prost::Message as _;

use super::{FORMAT, proof};
use crate::{
    digest,
    limits::GROUP_ID,
    stamp::EntropyError,
    storage::{checkpoint::SnapshotDir, error::StorageError, state_view::StateView},
};

/// Rows whose keys are counted before it is asked whether to go on.
const TALLY_ROWS: u64 = 1_024;

/// The node that makes a backup.
#[derive(Debug, Clone, Default)]
pub(crate) struct Maker {
    /// Its id.
    pub(crate) node_id: u64,
    /// Its uuid.
    pub(crate) node_uuid: String,
    /// Its data keys, for the proof.
    pub(crate) keys: Keyring,
}

/// Why there is no manifest.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DescribeError {
    /// The snapshot cannot be read.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A row cannot be understood.
    #[error("a row cannot be understood: {0}")]
    Fault(#[from] Fault),
    /// The operating system gave no entropy.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
}

/// Reads all rows of a snapshot, and describes it; `None` if `goes_on` did not agree, which is told
/// now and then how many rows were read. Blocks.
///
/// # Errors
/// See [`DescribeError`].
pub(crate) fn describe(
    snapshot: &SnapshotDir,
    maker: &Maker,
    mut goes_on: impl FnMut(u64) -> bool,
) -> Result<Option<BackupManifest>, DescribeError> {
    snapshot.read(|view| {
        let Some(digest) = digest::hash(view, &mut goes_on)? else {
            return Ok(None);
        };
        let Some(data_key_ids) = data_key_ids(view, || goes_on(digest.rows))? else {
            return Ok(None);
        };
        let mut manifest = BackupManifest {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            feature_level: helve_machine::feature_level(view, GROUP_ID)?,
            cluster_id: helve_machine::cluster_id(view, GROUP_ID)?.unwrap_or_default(),
            node_id: maker.node_id,
            node_uuid: maker.node_uuid.clone(),
            revision: digest.applied_index,
            clock_ms: helve_machine::clock(view, GROUP_ID)?,
            rows: digest.rows,
            digest: digest.digest.to_vec().into(),
            data_key_ids,
            snapshot: snapshot.manifest().encode_to_vec().into(),
            ..BackupManifest::default()
        };
        if let Some(key) = maker.keys.newest() {
            proof::add(&mut manifest, key)?;
        }
        Ok(Some(manifest))
    })?
}

/// The keys that something in these rows is sealed under; `None` if it shall not go on.
pub(crate) fn data_key_ids(
    view: &StateView<'_>,
    mut goes_on: impl FnMut() -> bool,
) -> Result<Option<Vec<String>>, Fault> {
    // Without this row no value ever was sealed, and the rows need not be read once more.
    let Some(row) = sealing(view, GROUP_ID)? else {
        return Ok(Some(Vec::new()));
    };
    let (mut records, mut kept) = (Tally::new(), Tally::new());
    let mut from = Some(Bytes::new());
    while let Some(key) = from {
        if !goes_on() {
            return Ok(None);
        }
        from = tally(view, GROUP_ID, &key, TALLY_ROWS, (&mut records, &mut kept))?;
    }
    let of_values = records.into_keys().chain(kept.into_keys());
    let ids: BTreeSet<_> = of_values.chain([row.key_id, row.secret_key_id]).collect();
    let ids = ids.iter().filter_map(|id| KeyId::from_bytes(id));
    Ok(Some(ids.map(|id| id.to_string()).collect()))
}
