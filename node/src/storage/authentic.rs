//! The mark of the rows that give rights, such as tokens, and of the members: it shows that these are those that this node wrote, as of
//! the entry that it applied last. It is written in the same batch as the rows, so a crash leaves both or neither.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use helve_machine::{authority_ranges, is_authority};
use helve_proto::peer::v1::{LogId, SnapshotManifest};
use prost::Message as _;
use rocksdb::{DB, ReadOptions};

use super::{
    checkpoint::{MANIFEST_NAME, SnapshotDir},
    disk_key::{DiskKey, Tag},
    durable_file,
    error::StorageError,
    options::{self, META, ROWS, StateOptions},
    state_meta::{MARK_KEY, MEMBERSHIP_KEY, family, flush, read_applied, read_membership},
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

/// What a mark is made of, besides the entry that was applied last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Marked {
    tags: Tags,
    /// The members, as they are stored.
    members: Vec<u8>,
}

impl Marked {
    fn read(db: &DB, key: &DiskKey) -> Result<Self, StorageError> {
        let members = db.get_cf(&family(db, META), MEMBERSHIP_KEY);
        Ok(Self {
            tags: tags_of(db, key)?,
            members: members
                .map_err(StorageError::engine("read the state"))?
                .unwrap_or_default(),
        })
    }

    fn mark(&self, key: &DiskKey, applied: &LogId) -> Tag {
        key.mark(applied, &self.tags.0, &self.members)
    }
}

/// Keeps the mark of one state.
pub(super) struct Marker {
    key: Arc<DiskKey>,
    marked: Mutex<Marked>,
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
            None => stored.is_none() && *marker.lock() == Marked::default(),
        };
        if fits {
            return Ok(marker);
        }
        Err(StorageError::Changed(
            "the record of rights and members".to_owned(),
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
            marked: Mutex::new(Marked::read(db, key)?),
        })
    }

    fn mark(&self, applied: &LogId) -> Tag {
        self.lock().mark(&self.key, applied)
    }

    /// What is marked once these rows are written, one after the other, over those of the database, and members if they change; and the
    /// mark. Rows that give no rights change no tags, and are not read.
    ///
    /// # Errors
    /// If a row cannot be read.
    pub(super) fn after(
        &self,
        db: &DB,
        rows: &[(Bytes, Option<Bytes>)],
        applied: &LogId,
        members: Option<&[u8]>,
    ) -> Result<(Marked, Tag), StorageError> {
        let changed = rows.iter().filter(|(key, _)| is_authority(GROUP_ID, key));
        // Of two writes under one key the last counts.
        let changed: BTreeMap<_, _> = changed.map(|(key, value)| (key, value)).collect();
        let mut marked = self.lock().clone();
        for (key, value) in changed {
            let old = db.get_pinned_cf(&family(db, ROWS), key);
            if let Some(old) = old.map_err(StorageError::engine("read the state"))? {
                marked.tags.toggle(&self.key.row_tag(key, &old));
            }
            if let Some(value) = value {
                marked.tags.toggle(&self.key.row_tag(key, value));
            }
        }
        if let Some(members) = members {
            members.clone_into(&mut marked.members);
        }
        let mark = marked.mark(&self.key, applied);
        Ok((marked, mark))
    }

    /// This is written.
    pub(super) fn note(&self, marked: Marked) {
        *self.lock() = marked;
    }

    fn lock(&self) -> MutexGuard<'_, Marked> {
        self.marked.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// Marks a snapshot that was just made, or received from a peer that was trusted with it.
    ///
    /// # Errors
    /// If it cannot be read, or the disk fails.
    pub(super) fn write(&self, snapshot: &SnapshotDir) -> Result<(), StorageError> {
        let path = snapshot.path();
        let mark_path = path.join(SNAPSHOT_MARK_NAME);
        let mark = self.of(&path, snapshot.manifest())?;
        durable_file::replace_sealed(&mark_path, &mark.ok_or_else(|| changed(&path))?)
            .map_err(StorageError::io("write", &mark_path))
    }

    /// Checks that a snapshot is as it was marked, and that its directory holds nothing else.
    ///
    /// # Errors
    /// [`StorageError::Changed`] if it is not; or the engine's.
    pub(super) fn check(&self, snapshot: &SnapshotDir) -> Result<(), StorageError> {
        let path = snapshot.path();
        check_names(&path, snapshot.manifest())?;
        let stored = durable_file::read_sealed(&path.join(SNAPSHOT_MARK_NAME))?;
        match (stored, self.of(&path, snapshot.manifest())?) {
            (Some(stored), Some(mark)) if stored == mark => Ok(()),
            _ => Err(changed(&path)),
        }
    }

    /// The mark; `None` if the manifest is not that of the rows.
    fn of(&self, path: &Path, manifest: &SnapshotManifest) -> Result<Option<Tag>, StorageError> {
        let (options, families) = (
            options::state_db(&self.options),
            options::state_families(&self.options),
        );
        let db = DB::open_cf_descriptors_read_only(&options, path, families, false)
            .map_err(StorageError::engine("open the snapshot"))?;
        let applied = read_applied(&db)?;
        if applied != manifest.last_log_id || read_membership(&db)? != manifest.membership {
            return Ok(None);
        }
        let rows = Marked::read(&db, &self.key)?.mark(&self.key, &applied.unwrap_or_default());
        let manifest = manifest.encode_to_vec();
        Ok(Some(self.key.snapshot_mark(&rows, &manifest)))
    }
}

/// Refuses files besides those of the manifest: the engine reads some of them, such as logs, and they are neither sent nor installed.
fn check_names(path: &Path, manifest: &SnapshotManifest) -> Result<(), StorageError> {
    let known: BTreeSet<_> = manifest.files.iter().map(|file| &*file.name).collect();
    for entry in fs::read_dir(path).map_err(StorageError::io("read", path))? {
        let name = entry.map_err(StorageError::io("read", path))?.file_name();
        let is_known = name.to_str().is_some_and(|name| {
            // The engine's own diary, which it never reads.
            let is_diary = name == "LOG" || name.starts_with("LOG.old.");
            known.contains(name) || is_diary || [MANIFEST_NAME, SNAPSHOT_MARK_NAME].contains(&name)
        });
        if !is_known {
            return Err(changed(path));
        }
    }
    Ok(())
}

fn changed(path: &Path) -> StorageError {
    StorageError::Changed(format!("the snapshot {}", path.display()))
}

#[cfg(test)]
mod tests;
