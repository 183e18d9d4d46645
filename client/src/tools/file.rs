//! The file tool: one JSON file a key, below one directory.

mod batch;
mod disk;
mod lock;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use helve_proto::v1::RecordInfo;
use serde_json::Value;

use self::{disk::Disk, lock::Access};
use super::{
    ToolOptions,
    bounds::{check_batch, check_key, check_keys, check_prefix, encode},
    gate::Gate,
    row::Row,
};
use crate::{
    error::{Error, ErrorKind},
    promises::Promises,
    record::{Listing, Record},
    state_tool::{StateTool, StoreOutcome},
    ttl::Ttl,
};

/// Keys as files below a directory, for development and for one machine. Any number of tools and processes may share the
/// directory.
///
/// The key `a/b` is the file `a/b.json`; whatever a key holds, its file stays below the directory (see the head of
/// `tools/names.rs`). A write goes to a file of its own, is synced, and takes the place of the old one by renaming: there is the old
/// value or the new one, never half of one. A batch is written down first and carried out after; what a crash left of it is carried
/// out by the next call. Readers share a lock, and writers have it alone, so that reads are linearizable on the machine.
///
/// # What it does not promise
/// - Durability beyond this disk, and a network file system's locks are as good as they are.
/// - Idle times. Deadlines are by this machine's wall clock: one that is set forward ends lives early. Expired files are removed by
///   writes, at most once an hour.
/// - A write that meets an error after its file took its place is [`Ambiguous`](ErrorKind::Ambiguous).
#[derive(Debug)]
pub struct FileTool {
    disk: Arc<Disk>,
    gate: Gate,
    options: ToolOptions,
}

impl FileTool {
    /// What it promises.
    pub const PROMISES: Promises = Promises {
        durable: false,
        linearizable: true,
        exactly_once: true,
        atomic_batch: true,
        one_view: true,
        revisions: true,
        ordered_revisions: true,
        ttl: true,
        idle_ttl: false,
    };

    /// Keys below this directory, which is made if it is not there.
    ///
    /// # Errors
    /// [`Unavailable`](ErrorKind::Unavailable) if it cannot be made; [`Invalid`](ErrorKind::Invalid) for a lifetime of zero.
    pub fn open(directory: impl AsRef<Path>, options: ToolOptions) -> Result<Self, Error> {
        options.lifespan(Ttl::Default)?;
        Ok(Self {
            disk: Arc::new(Disk::open(PathBuf::from(directory.as_ref()))?),
            gate: Gate::new(options.deadline),
            options,
        })
    }

    /// Removes all files whose deadline has passed, and answers how many.
    ///
    /// # Errors
    /// Those of every write.
    pub async fn sweep(&self) -> Result<usize, Error> {
        let swept = self.with(Access::Alone, Disk::sweep);
        self.gate.write(swept).await
    }

    /// Waits for the lock, then works where the runtime may block.
    async fn with<O: Send + 'static>(
        &self,
        access: Access,
        work: impl FnOnce(&Disk) -> Result<O, Error> + Send + 'static,
    ) -> Result<O, Error> {
        let disk = Arc::clone(&self.disk);
        let held = lock::acquire(&disk, access).await?;
        let worked = tokio::task::spawn_blocking(move || {
            let outcome = work(&disk);
            drop(held);
            outcome
        });
        worked
            .await
            .map_err(|error| Error::internal("a file's writer panicked").with_source(error))?
    }

    async fn write(
        &self,
        key: &str,
        value: &Value,
        ttl: Ttl,
        if_revision: Option<u64>,
    ) -> Result<StoreOutcome, Error> {
        check_key(key)?;
        encode(value)?;
        let lifespan = self.options.lifespan(ttl)?;
        let (key, value) = (key.to_owned(), value.clone());
        let stored = self.with(Access::Alone, move |disk| {
            disk.store(key, value, lifespan, if_revision)
        });
        self.gate.write(stored).await
    }
}

#[async_trait]
impl StateTool for FileTool {
    async fn store_record(&self, key: &str, value: &Value, ttl: Ttl) -> Result<RecordInfo, Error> {
        match self.write(key, value, ttl, None).await? {
            StoreOutcome::Created(info) | StoreOutcome::Replaced(info) => Ok(info),
            StoreOutcome::Conflict { .. } => Err(Error::internal("a conflict without condition")),
        }
    }

    async fn store_if(
        &self,
        key: &str,
        value: &Value,
        ttl: Ttl,
        revision: u64,
    ) -> Result<StoreOutcome, Error> {
        self.write(key, value, ttl, Some(revision)).await
    }

    async fn retrieve_record(&self, key: &str) -> Result<Option<Record<Value>>, Error> {
        check_key(key)?;
        let key = key.to_owned();
        let read = self.with(Access::Shared, move |disk| disk.live(&key));
        Ok(self.gate.read(read).await?.map(Row::into_record))
    }

    async fn delete(&self, key: &str) -> Result<(), Error> {
        check_key(key)?;
        let key = key.to_owned();
        let deleted = self.with(Access::Alone, move |disk| disk.delete(&key));
        self.gate.write(deleted).await
    }

    async fn list_infos(&self, prefix: &str) -> Result<Listing<RecordInfo>, Error> {
        let listing = self.list_values(prefix).await?;
        listing.try_map(|record| Ok(record.info))
    }

    async fn list_values(&self, prefix: &str) -> Result<Listing<Record<Value>>, Error> {
        check_prefix(prefix)?;
        let prefix = prefix.to_owned();
        let listed = self.with(Access::Shared, move |disk| disk.list(&prefix));
        self.gate.read(listed).await
    }

    async fn exists(&self, key: &str) -> Result<bool, Error> {
        Ok(self.retrieve_record(key).await?.is_some())
    }

    async fn batch_store(&self, items: &[(String, Value)]) -> Result<(), Error> {
        check_batch(items)?;
        let lifespan = self.options.lifespan(Ttl::Default)?;
        let items = items.to_vec();
        let stored = self.with(Access::Alone, move |disk| disk.store_all(items, lifespan));
        self.gate.write(stored).await
    }

    async fn batch_retrieve(&self, keys: &[String]) -> Result<Vec<Option<Value>>, Error> {
        check_keys(keys.iter())?;
        let keys = keys.to_vec();
        let read = self.with(Access::Shared, move |disk| {
            let values = keys.iter().map(|key| disk.live(key));
            values
                .map(|row| Ok(row?.map(|row| row.value)))
                .collect::<Result<Vec<_>, Error>>()
        });
        self.gate.read(read).await
    }

    fn promises(&self) -> Promises {
        Self::PROMISES
    }

    fn deadline(&self) -> Duration {
        self.gate.deadline()
    }

    fn close(&self) {
        self.gate.close();
    }
}

/// An error before anything was changed.
fn before(path: &Path, error: std::io::Error) -> Error {
    let message = format!("{}: {error}", path.display());
    let kind = match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => ErrorKind::Full,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, message).with_source(error)
}

/// An error after the change may have been made.
fn after(path: &Path, error: std::io::Error) -> Error {
    super::ambiguous(&format!("{} could not be synced", path.display()), error)
}

#[cfg(test)]
mod tests;
