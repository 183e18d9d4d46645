//! A consistent view of the state.

use std::sync::Arc;

use bytes::Bytes;
use helve_machine::{Fault, View};
use helve_proto::peer::v1::LogId;
use rocksdb::{BoundColumnFamily, DB, ErrorKind, ReadOptions, ReadTier, SnapshotWithThreadMode};

use super::{
    error::StorageError,
    options::{META, ROWS},
    state_meta::{APPLIED_KEY, decode_applied, family},
};

/// The state as of one entry of the log.
pub struct StateView<'a> {
    db: &'a DB,
    snapshot: SnapshotWithThreadMode<'a, DB>,
    rows: Arc<BoundColumnFamily<'a>>,
    meta: Arc<BoundColumnFamily<'a>>,
    reach: Reach,
    /// Of all look-ups: making them for each would cost a part of it.
    options: ReadOptions,
}

/// Where a view looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Memory, and the disk for what is not there.
    Disk,
    /// Memory only.
    Memory,
}

impl<'a> StateView<'a> {
    pub(super) fn new(db: &'a DB, reach: Reach) -> Self {
        let snapshot = db.snapshot();
        let mut options = options(reach);
        options.set_snapshot(&snapshot);
        Self {
            db,
            snapshot,
            rows: family(db, ROWS),
            meta: family(db, META),
            reach,
            options,
        }
    }

    /// The last entry whose effects this view shows.
    ///
    /// # Errors
    /// If the record is damaged, or the engine fails.
    pub fn applied(&self) -> Result<Option<LogId>, StorageError> {
        let value = self.db.get_cf_opt(&self.meta, APPLIED_KEY, &self.options);
        decode_applied(value.map_err(unread)?)
    }

    /// Shows every row, in the order of the keys, until `visit` answers false. It reads past the cache, which others need.
    ///
    /// # Errors
    /// If the engine fails.
    pub fn each_row(
        &self,
        mut visit: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StorageError> {
        let mut options = options(self.reach);
        options.fill_cache(false);
        let mut rows = self.snapshot.raw_iterator_cf_opt(&self.rows, options);
        rows.seek_to_first();
        while let Some((key, value)) = rows.item() {
            if !visit(key, value) {
                return Ok(());
            }
            rows.next();
        }
        rows.status().map_err(unread)
    }
}

impl View for StateView<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        let value = self
            .db
            .get_pinned_cf_opt(&self.rows, key, &self.options)
            .map_err(fault)?;
        Ok(value.map(|value| Bytes::copy_from_slice(&value)))
    }

    fn range(&self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Vec<(Bytes, Bytes)>, Fault> {
        let mut found = Vec::new();
        if from >= to {
            return Ok(found);
        }
        let mut options = options(self.reach);
        options.set_iterate_upper_bound(to);
        let mut rows = self.snapshot.raw_iterator_cf_opt(&self.rows, options);
        rows.seek(from);
        while found.len() < rows_max
            && let Some((key, value)) = rows.item()
        {
            found.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)));
            rows.next();
        }
        rows.status().map_err(fault)?;
        Ok(found)
    }
}

fn options(reach: Reach) -> ReadOptions {
    let mut options = ReadOptions::default();
    if reach == Reach::Memory {
        options.set_read_tier(ReadTier::BlockCache);
    }
    options
}

fn unread(error: rocksdb::Error) -> StorageError {
    match error.kind() {
        ErrorKind::Incomplete => StorageError::NotCached,
        _ => StorageError::engine("read the state")(error),
    }
}

fn fault(error: rocksdb::Error) -> Fault {
    Fault::View(Box::new(unread(error)))
}

impl std::fmt::Debug for StateView<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("StateView").finish_non_exhaustive()
    }
}
