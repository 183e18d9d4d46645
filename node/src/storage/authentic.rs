//! The mark of the rows that give rights, such as tokens: it shows that these rows are those that this node wrote, as of the entry that
//! it applied last. It is written in the same batch as the rows, so a crash leaves both or neither.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use helve_machine::{authority_ranges, is_authority};
use helve_proto::peer::v1::LogId;
use rocksdb::{DB, ReadOptions};

use super::{
    disk_key::{DiskKey, Tag},
    durable_file,
    error::StorageError,
    options::{self, META, ROWS, StateOptions},
    state_meta::{MARK_KEY, family, flush, read_applied},
};
use crate::limits::GROUP_ID;

/// Beside the manifest of a snapshot, on the disk of the node that made or received it.
const SNAPSHOT_MARK_NAME: &str = "mark";

/// The XOR of the tags of rows: the same in whatever order they were written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tags(Tag);

impl Tags {
    /// Adds a row that is not among them, or takes one out that is.
    fn toggle(&mut self, tag: &Tag) {
        self.0
            .iter_mut()
            .zip(tag)
            .for_each(|(sum, tag)| *sum ^= tag);
    }
}

/// Keeps the mark of one state.
pub(super) struct Marker {
    key: Arc<DiskKey>,
    tags: Mutex<Tags>,
}

impl Marker {
    /// For rows that must be those of their mark.
    ///
    /// # Errors
    /// [`StorageError::Changed`] if they are not; or the engine's.
    pub(super) fn checked(db: &DB, key: &Arc<DiskKey>) -> Result<Self, StorageError> {
        let marker = Self::of(db, key)?;
        let stored = db.get_cf(&family(db, META), MARK_KEY);
        let stored = stored.map_err(StorageError::engine("read the state"))?;
        let fits = match read_applied(db)? {
            Some(applied) => stored.is_some_and(|stored| stored == marker.mark(&applied)),
            // Before the first entry there are no rows.
            None => stored.is_none() && *marker.lock() == Tags::default(),
        };
        if fits {
            return Ok(marker);
        }
        Err(StorageError::Changed(
            "the rows of tokens, tenants and sealing".to_owned(),
        ))
    }

    /// For rows that are taken as they are. Their mark is durable once this returns.
    ///
    /// # Errors
    /// If the engine fails.
    pub(super) fn taking(db: &DB, key: &Arc<DiskKey>) -> Result<Self, StorageError> {
        let marker = Self::of(db, key)?;
        let meta = family(db, META);
        let written = match read_applied(db)? {
            Some(applied) => {
                let mark = marker.mark(&applied);
                db.put_cf_opt(&meta, MARK_KEY, mark, &options::unlogged())
            }
            None => db.delete_cf_opt(&meta, MARK_KEY, &options::unlogged()),
        };
        written.map_err(StorageError::engine("write the state"))?;
        flush(db)?;
        Ok(marker)
    }

    fn of(db: &DB, key: &Arc<DiskKey>) -> Result<Self, StorageError> {
        Ok(Self {
            key: Arc::clone(key),
            tags: Mutex::new(tags_of(db, key)?),
        })
    }

    fn mark(&self, applied: &LogId) -> Tag {
        self.key.mark(applied, &self.lock().0)
    }

    /// The tags once these rows are written, one after the other, over those of the database, and their mark. Rows that give no rights
    /// change no tags, and are not read.
    ///
    /// # Errors
    /// If a row cannot be read.
    pub(super) fn after(
        &self,
        db: &DB,
        rows: &[(Bytes, Option<Bytes>)],
        applied: &LogId,
    ) -> Result<(Tags, Tag), StorageError> {
        let changed = rows.iter().filter(|(key, _)| is_authority(GROUP_ID, key));
        // Of two writes under one key the last counts.
        let changed: BTreeMap<_, _> = changed.map(|(key, value)| (key, value)).collect();
        let mut tags = *self.lock();
        for (key, value) in changed {
            let old = db.get_pinned_cf(&family(db, ROWS), key);
            if let Some(old) = old.map_err(StorageError::engine("read the state"))? {
                tags.toggle(&self.key.row_tag(key, &old));
            }
            if let Some(value) = value {
                tags.toggle(&self.key.row_tag(key, value));
            }
        }
        Ok((tags, self.key.mark(applied, &tags.0)))
    }

    /// These tags are written.
    pub(super) fn note(&self, tags: Tags) {
        *self.lock() = tags;
    }

    fn lock(&self) -> MutexGuard<'_, Tags> {
        self.tags.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn tags_of(db: &DB, key: &DiskKey) -> Result<Tags, StorageError> {
    let mut tags = Tags::default();
    for (from, to) in authority_ranges(GROUP_ID) {
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(to);
        let mut rows = db.raw_iterator_cf_opt(&family(db, ROWS), options);
        rows.seek(from);
        while let Some((row, value)) = rows.item() {
            tags.toggle(&key.row_tag(row, value));
            rows.next();
        }
        rows.status()
            .map_err(StorageError::engine("read the state"))?;
    }
    Ok(tags)
}

/// How a node's own snapshots are checked: they outlive the process, and a start may install them.
#[derive(Debug, Clone)]
pub(super) struct SnapshotMarks {
    pub(super) key: Arc<DiskKey>,
    pub(super) options: StateOptions,
}

impl SnapshotMarks {
    /// Marks the rows of a snapshot that was just made, or received from a peer that was trusted with it.
    ///
    /// # Errors
    /// If it cannot be read, or the disk fails.
    pub(super) fn write(&self, path: &Path) -> Result<(), StorageError> {
        let mark_path = path.join(SNAPSHOT_MARK_NAME);
        durable_file::replace_sealed(&mark_path, &self.of(path)?)
            .map_err(StorageError::io("write", &mark_path))
    }

    /// Checks that the rows of a snapshot are those of its mark.
    ///
    /// # Errors
    /// [`StorageError::Changed`] if they are not; or the engine's.
    pub(super) fn check(&self, path: &Path) -> Result<(), StorageError> {
        let stored = durable_file::read_sealed(&path.join(SNAPSHOT_MARK_NAME))?;
        let mark = self.of(path)?;
        if stored.is_some_and(|stored| stored == mark) {
            return Ok(());
        }
        Err(StorageError::Changed(format!(
            "the snapshot {}",
            path.display()
        )))
    }

    fn of(&self, path: &Path) -> Result<Tag, StorageError> {
        let (options, families) = (
            options::state_db(&self.options),
            options::state_families(&self.options),
        );
        let db = DB::open_cf_descriptors_read_only(&options, path, families, false)
            .map_err(StorageError::engine("open the snapshot"))?;
        let applied = read_applied(&db)?.unwrap_or_default();
        Ok(self.key.mark(&applied, &tags_of(&db, &self.key)?.0))
    }
}

#[cfg(test)]
mod tests;
