//! The state database: the machine's rows, and with them, in the same write, which entry they come from.
//!
//! It lives in `state-<generation>/`; the file `CURRENT` says which generation counts, and is replaced whole, so that after a crash in
//! the middle of taking over a snapshot there is the old state or the new one.
//!
//! It has no write-ahead log: the replicated log is one, and replays what a crash took. Rows reach the disk when a memtable is flushed,
//! all families at once, so that what a crash leaves is the state as of one entry.

use std::{
    cell::RefCell,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use helve_machine::{
    authority_ranges, is_never_replaced,
    planted::{self, Plant},
};
use helve_proto::peer::v1::{LogId, StoredMembership};
use prost::Message;
use rocksdb::{BottommostLevelCompaction, CompactOptions, DB, WriteBatch};

use super::{
    authentic::Marker,
    checkpoint::SnapshotDir,
    disk_key::DiskKey,
    disk_waits::DiskWaits,
    durable_file,
    error::StorageError,
    gaps::Gaps,
    generations::{generation_path, generations, pointer_path, read_pointer, write_pointer},
    options::{self, META, ROWS, StateOptions},
    state_meta::{
        APPLIED_KEY, MARK_KEY, MEMBERSHIP_KEY, check_format, family, flush, read_applied,
        read_membership,
    },
    state_view::{Reach, StateView},
    writer_view::WriterView,
};
use crate::{
    failpoint::{self, Failpoint},
    limits::GROUP_ID,
};

/// At most, of a row in a batch: what it is, its column family, and two lengths.
const ROW_HEAD_BYTES: usize = 16;

/// The state of one node. All calls block.
pub struct StateDb {
    root: PathBuf,
    options: StateOptions,
    /// What the rows that give rights are authenticated with; `None`: nothing.
    key: Option<Arc<DiskKey>>,
    current: ArcSwap<Generation>,
    installing: Mutex<()>,
    writer_waits: DiskWaits,
}

/// One state, as opened from one directory.
pub(super) struct Generation {
    // Before `remains`: the database is closed before its directory goes.
    pub(super) db: DB,
    remains: Remains,
    pub(super) number: u64,
    gaps: Mutex<Gaps>,
    marker: Option<Marker>,
}

/// Removes the directory of a generation that was replaced, once no read uses it any more.
struct Remains {
    path: PathBuf,
    replaced: AtomicBool,
}

impl StateDb {
    /// Opens the state under `root`, or creates an empty one. What an interrupted take-over left is removed. Rows are authenticated
    /// with nothing.
    ///
    /// # Errors
    /// See [`StorageError`].
    pub fn open(root: &Path, options: StateOptions) -> Result<Self, StorageError> {
        Self::open_under(root, options, None)
    }

    /// As [`open`](Self::open), with rows that must fit this key.
    ///
    /// # Errors
    /// See [`StorageError`].
    pub fn open_under(
        root: &Path,
        options: StateOptions,
        key: Option<Arc<DiskKey>>,
    ) -> Result<Self, StorageError> {
        let number = match read_pointer(root)? {
            Some(number) => number,
            None if generations(root)?.is_empty() => {
                write_pointer(root, 1)?;
                1
            }
            None => {
                let what = pointer_path(root).display().to_string();
                return Err(StorageError::damaged(
                    what,
                    "it is missing, and there is state beside it",
                ));
            }
        };
        // Generation 1 starts empty; any other one was filled before it was pointed to.
        if number > 1 && !generation_path(root, number).exists() {
            let what = generation_path(root, number).display().to_string();
            return Err(StorageError::damaged(what, "it is missing"));
        }
        for (other, path) in generations(root)? {
            if other != number {
                tracing::info!(path = %path.display(), "removing a state that was never switched to, or away from");
                fs::remove_dir_all(&path).map_err(StorageError::io("remove", &path))?;
            }
        }
        let mut generation = Generation::open(generation_path(root, number), number, &options)?;
        if let Some(key) = &key {
            generation.marker = Some(Marker::checked(&generation.db, key)?);
        }
        durable_file::sync_dir(root).map_err(StorageError::io("sync", root))?;
        Ok(Self {
            root: root.to_owned(),
            options,
            key,
            current: ArcSwap::from_pointee(generation),
            installing: Mutex::new(()),
            writer_waits: DiskWaits::default(),
        })
    }

    /// Has the rows fit a key as they are, durably. To be opened under it next.
    ///
    /// # Errors
    /// If the engine fails.
    pub fn adopt(&self, key: &Arc<DiskKey>) -> Result<(), StorageError> {
        Marker::taking(&self.current.load_full().db, key).map(drop)
    }

    /// Replaces the files that hold rows which give rights, as a scan sees them. In files that somebody else made, a lookup could find
    /// a row that a scan, and so a digest, passes over.
    ///
    /// # Errors
    /// If the engine fails.
    pub fn rewrite_rights(&self) -> Result<(), StorageError> {
        let db = &self.current.load_full().db;
        let mut options = CompactOptions::default();
        options.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
        for (from, to) in authority_ranges(GROUP_ID) {
            db.compact_range_cf_opt(&family(db, ROWS), Some(from), Some(to), &options);
        }
        flush(db)
    }

    /// Reads in a view: nothing that is applied meanwhile is seen. The state stays on disk as long as `read` runs, so bound that.
    pub fn read<R>(&self, read: impl FnOnce(&StateView<'_>) -> R) -> R {
        let generation = self.current.load_full();
        read(&StateView::new(&generation.db, Reach::Disk))
    }

    /// Reads in a view that never waits for the disk: what memory does not hold is [`StorageError::NotCached`].
    pub fn read_cached<R>(&self, read: impl FnOnce(&StateView<'_>) -> R) -> R {
        let generation = self.current.load_full();
        read(&StateView::new(&generation.db, Reach::Memory))
    }

    /// Reads as [`read`](Self::read) does, for the one who writes: nothing is written meanwhile.
    pub fn read_to_write<R>(&self, read: impl FnOnce(&WriterView<'_>) -> R) -> R {
        let generation = self.current.load_full();
        let mut gaps = generation.gaps();
        read(&WriterView {
            view: StateView::new(&generation.db, Reach::Disk),
            gaps: RefCell::new(&mut *gaps),
            waits: &self.writer_waits,
        })
    }

    /// Writes rows (`None` removes one), one after the other, together with the entry that they come from, to memory. For one writer
    /// at a time.
    ///
    /// # Errors
    /// If the engine fails. Nothing was written then.
    pub fn write(
        &self,
        rows: impl IntoIterator<Item = (Bytes, Option<Bytes>)>,
        applied: &LogId,
        membership: Option<&StoredMembership>,
    ) -> Result<(), StorageError> {
        let generation = self.current.load();
        let db = &generation.db;
        let (rows_family, meta_family) = (family(db, ROWS), family(db, META));
        let rows: Vec<_> = rows.into_iter().collect();
        let members = membership.map(Message::encode_to_vec);
        let marker = generation.marker.as_ref();
        let marked = marker
            .map(|marker| marker.after(db, &rows, applied, members.as_deref()))
            .transpose()?;
        let unwritten = rows.as_slice();
        #[cfg(feature = "planted")]
        let unwritten = super::two_writes::write_half(db, unwritten)?;
        let bytes = |(key, value): &(Bytes, Option<Bytes>)| {
            ROW_HEAD_BYTES + key.len() + value.as_ref().map_or(0, Bytes::len)
        };
        let mut batch = WriteBatch::with_capacity_bytes(unwritten.iter().map(bytes).sum());
        for (key, value) in unwritten {
            match value {
                Some(value) => batch.put_cf(&rows_family, key, value),
                // An outcome is kept for a few calls: it and this cancel each other before they come to a file, where a deletion of any
                // row would go on from level to level.
                None if is_never_replaced(key) => batch.single_delete_cf(&rows_family, key),
                None => batch.delete_cf(&rows_family, key),
            }
        }
        batch.put_cf(&meta_family, APPLIED_KEY, applied.encode_to_vec());
        if let Some(members) = members {
            batch.put_cf(&meta_family, MEMBERSHIP_KEY, members);
        }
        if let Some((_, mark)) = &marked {
            batch.put_cf(&meta_family, MARK_KEY, mark);
        }
        db.write_opt(batch, &options::unlogged())
            .map_err(StorageError::engine("write the state"))?;
        if let (Some(marker), Some((marked, _))) = (marker, marked) {
            marker.note(marked);
        }
        let mut gaps = generation.gaps();
        for (key, value) in &rows {
            if value.is_some() {
                gaps.put(key);
            }
        }
        Ok(())
    }

    /// The last entry that was applied.
    ///
    /// # Errors
    /// If the record is damaged, or the engine fails.
    pub fn applied(&self) -> Result<Option<LogId>, StorageError> {
        read_applied(&self.current.load().db)
    }

    /// The last membership that was applied.
    ///
    /// # Errors
    /// If the record is damaged, or the engine fails.
    pub fn membership(&self) -> Result<Option<StoredMembership>, StorageError> {
        read_membership(&self.current.load().db)
    }

    /// Makes all that was written before this call durable.
    ///
    /// # Errors
    /// If it cannot be. What is durable is unknown then, and stays so: stop the node.
    pub fn sync(&self) -> Result<(), StorageError> {
        flush(&self.current.load_full().db)
    }

    /// Replaces the state with a snapshot's, durably. Views that are open go on reading the old one, which is removed behind the last of
    /// them. Nothing may be written meanwhile.
    ///
    /// # Errors
    /// If the snapshot is not what its manifest says, or the disk fails. The state is as before then.
    pub fn install(&self, snapshot: &SnapshotDir) -> Result<(), StorageError> {
        let _installing = self
            .installing
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let number = self.current.load().number + 1;
        let path = generation_path(&self.root, number);
        if planted::is(Plant::HalfInstall) {
            write_pointer(&self.root, number)?;
        }
        snapshot.copy_to(&path)?;
        failpoint::pass(Failpoint::InstallCopied);
        // An error removes the new directory.
        let mut generation = Generation::open(path, number, &self.options)?;
        generation.remains.replaced.store(true, Ordering::Release);
        let manifest = snapshot.manifest();
        let applied = read_applied(&generation.db)?;
        let membership = read_membership(&generation.db)?;
        if applied != manifest.last_log_id || membership != manifest.membership {
            let refused = "its state is not as of the entry that its manifest names".to_owned();
            return Err(StorageError::Snapshot(refused));
        }
        if let Some(key) = &self.key {
            // The sender checked the rows under its own key, and the channel of peers brought them whole.
            generation.marker = Some(Marker::taking(&generation.db, key)?);
        }
        // Once the pointer may have been written, only the next start can tell which of the two counts.
        generation.remains.replaced.store(false, Ordering::Release);
        failpoint::pass(Failpoint::InstallBeforeSwitch);
        write_pointer(&self.root, number)?;
        failpoint::pass(Failpoint::InstallSwitched);
        let old = self.current.swap(Arc::new(generation));
        old.remains.replaced.store(true, Ordering::Release);
        Ok(())
    }

    /// Bytes in the files of the current state.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn used_bytes(&self) -> std::io::Result<u64> {
        super::disk_space::used_bytes(&self.current.load_full().remains.path)
    }

    pub(super) fn generation(&self) -> Arc<Generation> {
        self.current.load_full()
    }

    pub(super) fn options(&self) -> &StateOptions {
        &self.options
    }
}

impl std::fmt::Debug for StateDb {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("StateDb")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

impl Generation {
    fn open(path: PathBuf, number: u64, options: &StateOptions) -> Result<Self, StorageError> {
        let families = options::state_families(options);
        let db = DB::open_cf_descriptors(&options::state_db(options), &path, families)
            .map_err(StorageError::engine("open the state"))?;
        check_format(&db)?;
        Ok(Self {
            db,
            remains: Remains {
                path,
                replaced: AtomicBool::new(false),
            },
            number,
            gaps: Mutex::default(),
            marker: None,
        })
    }

    fn gaps(&self) -> MutexGuard<'_, Gaps> {
        self.gaps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Remains {
    fn drop(&mut self) {
        if !self.replaced.load(Ordering::Acquire) {
            return;
        }
        failpoint::pass(Failpoint::RemovalBefore);
        if let Err(error) = fs::remove_dir_all(&self.path) {
            // The next start removes it.
            tracing::warn!(path = %self.path.display(), %error, "a state that was replaced cannot be removed");
        }
    }
}

#[cfg(test)]
mod tests;
