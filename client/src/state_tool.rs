//! The state tool: JSON values under keys of the caller's choosing.

use std::time::Duration;

use async_trait::async_trait;
use helve_proto::v1::RecordInfo;
use serde_json::Value;

use crate::{
    error::Error,
    limits,
    promises::Promises,
    record::{Listing, Page, Record, page_of_all},
    ttl::Ttl,
};

/// JSON values under keys, after Caxton's `McpStateTool`. A key is 1 to 1,024 bytes of UTF-8 without NUL; `/` has no special
/// meaning. Object safe.
///
/// # Where it differs from Caxton's
/// - [`batch_store`](Self::batch_store) is atomic, and [`batch_retrieve`](Self::batch_retrieve) reads one view.
/// - [`list`](Self::list) is in lexicographic order of the bytes.
/// - Keys have revisions and lifetimes: [`store_if`](Self::store_if), [`retrieve_record`](Self::retrieve_record).
/// - Errors are `Send + Sync`.
///
/// Not every implementation can promise all of it: [`promises`](Self::promises) says what each does, and what it does not promise
/// it either does less well, as documented there, or refuses as [`Unsupported`](crate::ErrorKind::Unsupported).
#[async_trait]
pub trait StateTool: Send + Sync {
    /// Stores a value, with the lifetime of the options.
    ///
    /// # Errors
    /// Those of every write.
    async fn store(&self, key: &str, value: &Value) -> Result<(), Error> {
        let stored = self.store_record(key, value, Ttl::Default).await;
        stored.map(drop)
    }

    /// Stores a value with a lifetime of its own, and answers the revision and times that it got.
    ///
    /// # Errors
    /// Those of every write; [`Unsupported`](crate::ErrorKind::Unsupported) if there is a lifetime, and the tool does not promise
    /// any.
    async fn store_record(&self, key: &str, value: &Value, ttl: Ttl) -> Result<RecordInfo, Error>;

    /// Stores a value if the key's revision is `revision`; 0: if there is no such key.
    ///
    /// # Errors
    /// Those of every write, but a conflict is an outcome here.
    async fn store_if(
        &self,
        key: &str,
        value: &Value,
        ttl: Ttl,
        revision: u64,
    ) -> Result<StoreOutcome, Error>;

    /// The value, if there is such a key. Restarts the idle time.
    ///
    /// # Errors
    /// Those of every read.
    async fn retrieve(&self, key: &str) -> Result<Option<Value>, Error> {
        let record = self.retrieve_record(key).await?;
        Ok(record.map(|record| record.value))
    }

    /// The value with its revision and times, if there is such a key. Restarts the idle time.
    ///
    /// # Errors
    /// Those of every read.
    async fn retrieve_record(&self, key: &str) -> Result<Option<Record<Value>>, Error>;

    /// Deletes a key; it need not exist.
    ///
    /// # Errors
    /// Those of every write.
    async fn delete(&self, key: &str) -> Result<(), Error>;

    /// The keys that begin with these characters, in lexicographic order of their bytes; empty: all keys of the owner.
    ///
    /// # Errors
    /// Those of every read, [`Lapsed`](crate::ErrorKind::Lapsed), and [`Invalid`](crate::ErrorKind::Invalid) if the list is over
    /// its limit.
    async fn list(&self, prefix: &str) -> Result<Vec<String>, Error> {
        let listing = self.list_infos(prefix).await?;
        Ok(listing.items.into_iter().map(|info| info.name).collect())
    }

    /// As [`list`](Self::list), with revisions and times.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    async fn list_infos(&self, prefix: &str) -> Result<Listing<RecordInfo>, Error>;

    /// As [`list_infos`](Self::list_infos), with the values.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    async fn list_values(&self, prefix: &str) -> Result<Listing<Record<Value>>, Error>;

    /// As [`list_infos`](Self::list_infos), but of at most `limit` keys, and of those behind the key `after` alone, which need not exist.
    /// On a cluster and in memory it costs about as much as it lists, however many keys there are; a tool that does not say so reads all.
    /// [`next`](Page::next) is what the next page begins behind. A `limit` of 0 is taken as 1.
    ///
    /// # Errors
    /// As [`list`](Self::list); within the deadline.
    async fn list_page(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<RecordInfo>, Error> {
        let listing = self.list_infos(prefix).await?;
        page_of_all(listing, after, limit)
    }

    /// As [`list_page`](Self::list_page), with the values.
    ///
    /// # Errors
    /// As [`list_page`](Self::list_page).
    async fn list_values_page(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Record<Value>>, Error> {
        let listing = self.list_values(prefix).await?;
        page_of_all(listing, after, limit)
    }

    /// Whether there is such a key.
    ///
    /// # Errors
    /// Those of every read.
    async fn exists(&self, key: &str) -> Result<bool, Error>;

    /// Stores all, or, if [`promised`](Promises::atomic_batch), none. At most 128, no key twice, 4 MiB in all.
    ///
    /// # Errors
    /// Those of every write.
    async fn batch_store(&self, items: &[(String, Value)]) -> Result<(), Error>;

    /// The values in the order asked for, all from one view. At most 128.
    ///
    /// # Errors
    /// Those of every read.
    async fn batch_retrieve(&self, keys: &[String]) -> Result<Vec<Option<Value>>, Error>;

    /// What holds besides what the methods say. If not told: nothing.
    fn promises(&self) -> Promises {
        Promises::NONE
    }

    /// How long each call may take, and a loop of several; 5 s if not told.
    fn deadline(&self) -> Duration {
        limits::DEADLINE
    }

    /// Ends this object: its calls from now on answer [`Closed`](crate::ErrorKind::Closed). The values stay. Closing again does
    /// nothing.
    fn close(&self);
}

/// What a conditional store did.
#[derive(Debug, Clone, PartialEq)]
pub enum StoreOutcome {
    /// There was no such key before, or it had expired.
    Created(RecordInfo),
    /// The value was replaced.
    Replaced(RecordInfo),
    /// The revision is another one, and nothing was written. Read again, decide again.
    Conflict {
        /// The key's revision; 0 if there is no such key.
        revision: u64,
    },
}

impl StoreOutcome {
    /// Returns what a store without condition wrote.
    ///
    /// # Errors
    /// [`Internal`](crate::ErrorKind::Internal) for a conflict, which such a store cannot have.
    pub fn unconditional(self) -> Result<RecordInfo, Error> {
        match self {
            Self::Created(info) | Self::Replaced(info) => Ok(info),
            Self::Conflict { .. } => Err(Error::internal("a conflict without condition")),
        }
    }
}
