//! The file tool: one JSON file a key, below one directory.

mod batch;
mod disk;
mod failures;
mod lock;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use helve_client::{Error, Listing, Promises, Record, StoreOutcome};
use helve_proto::v1::RecordInfo;
use serde_json::Value;

use self::disk::Disk;
use super::{
    bounds::Room,
    gate::Gate,
    keeper::{self, Access, Keeper, state_tool},
    options::{Lifespan, ToolOptions},
    row::Row,
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
/// - A write that meets an error after its file took its place is [`Ambiguous`](helve_client::ErrorKind::Ambiguous).
#[derive(Debug)]
pub struct FileTool {
    disk: Arc<Disk>,
    gate: Gate,
}

impl FileTool {
    /// What it promises.
    pub const PROMISES: Promises = {
        let mut promises = Promises::NONE;
        promises.linearizable = true;
        promises.exactly_once = true;
        promises.atomic_batch = true;
        promises.one_view = true;
        promises.revisions = true;
        promises.ordered_revisions = true;
        promises.ttl = true;
        promises
    };

    /// Keys below this directory, which is made if it is not there.
    ///
    /// # Errors
    /// [`Unavailable`](helve_client::ErrorKind::Unavailable) if it cannot be made; [`Invalid`](helve_client::ErrorKind::Invalid) for a lifetime of zero.
    pub fn open(directory: impl AsRef<Path>, options: ToolOptions) -> Result<Self, Error> {
        Ok(Self {
            gate: Gate::new(options)?,
            disk: Arc::new(Disk::open(PathBuf::from(directory.as_ref()))?),
        })
    }

    /// Removes all files whose deadline has passed, and answers how many. One that is no row of this tool is left as it is, and
    /// logged.
    ///
    /// # Errors
    /// Those of every write.
    pub async fn sweep(&self) -> Result<usize, Error> {
        keeper::write(self, |lock| self.with(lock, Disk::sweep)).await
    }

    /// Works where the runtime may block. The lock is held until the work is done, whether or not somebody still waits for it.
    async fn with<O: Send + 'static>(
        &self,
        lock: fs::File,
        work: impl FnOnce(&Disk) -> Result<O, Error> + Send + 'static,
    ) -> Result<O, Error> {
        let disk = Arc::clone(&self.disk);
        let worked = tokio::task::spawn_blocking(move || {
            let outcome = work(&disk);
            drop(lock);
            outcome
        });
        worked
            .await
            .map_err(|error| Error::internal("a file's writer panicked").with_source(error))?
    }
}

state_tool!(FileTool);

#[async_trait]
impl Keeper for FileTool {
    type Way = fs::File;

    fn gate(&self) -> &Gate {
        &self.gate
    }

    fn promised(&self) -> Promises {
        Self::PROMISES
    }

    async fn reach(&self, access: Access) -> Result<fs::File, Error> {
        lock::acquire(&self.disk, access).await
    }

    async fn put(
        &self,
        lock: fs::File,
        (key, value): (&str, &Value),
        lifespan: Lifespan,
        if_revision: Option<u64>,
    ) -> Result<StoreOutcome, Error> {
        let (key, value) = (key.to_owned(), value.clone());
        let store = move |disk: &Disk| disk.store(key, value, lifespan, if_revision);
        self.with(lock, store).await
    }

    async fn put_all(
        &self,
        lock: fs::File,
        items: &[(String, Value)],
        lifespan: Lifespan,
    ) -> Result<(), Error> {
        let items = items.to_vec();
        self.with(lock, move |disk| disk.store_all(items, lifespan))
            .await
    }

    async fn get(
        &self,
        lock: fs::File,
        keys: &[String],
    ) -> Result<Vec<Option<Record<Value>>>, Error> {
        let keys = keys.to_vec();
        self.with(lock, move |disk| {
            let rows = keys.iter().map(|key| disk.live(key));
            rows.map(|row| Ok(row?.map(Row::into_record))).collect()
        })
        .await
    }

    async fn has(&self, lock: fs::File, key: &str) -> Result<bool, Error> {
        let key = key.to_owned();
        self.with(lock, move |disk| Ok(disk.live(&key)?.is_some()))
            .await
    }

    async fn remove(&self, lock: fs::File, key: &str) -> Result<(), Error> {
        let key = key.to_owned();
        self.with(lock, move |disk| disk.delete(&key)).await
    }

    async fn infos(&self, lock: fs::File, prefix: &str) -> Result<Listing<RecordInfo>, Error> {
        let (prefix, mut room) = (prefix.to_owned(), Room::LIST);
        let info = move |row: Row| {
            room.take(0)?;
            Ok(row.info())
        };
        self.with(lock, move |disk| disk.list(&prefix, info)).await
    }

    async fn records(&self, lock: fs::File, prefix: &str) -> Result<Listing<Record<Value>>, Error> {
        let (prefix, mut room) = (prefix.to_owned(), Room::LIST);
        let record = move |row: Row| {
            let record = row.into_record();
            room.take(record.info.value_bytes)?;
            Ok(record)
        };
        self.with(lock, move |disk| disk.list(&prefix, record))
            .await
    }
}

#[cfg(test)]
mod tests;
