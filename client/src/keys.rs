//! The state tool on a client, whatever its host.

mod options;
mod raw;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use helve_proto::v1::{
    DeleteKeyRequest, ExistsRequest, KeyRecord, Lifetime, ListKeysReply, ListKeysRequest,
    RecordInfo, RetrieveRequest, StoreRequest, WriteStatus,
};
use serde_json::Value;

pub use self::options::KeyOptions;

use crate::{
    client::Client,
    error::{Error, ErrorKind},
    owner::Owner,
    promises::Promises,
    record::{Listing, Page, Record, encode, page, page_limit, present, record_value},
    state_tool::{StateTool, StoreOutcome},
    ttl::Ttl,
};

/// The state tool, whatever the client's host. Clones share [`close`](StateTool::close).
#[derive(Clone)]
pub struct Keys {
    client: Client,
    options: KeyOptions,
    closed: Arc<AtomicBool>,
}

impl Client {
    /// The state tool: values under keys of the caller's choosing.
    #[must_use]
    pub fn keys(&self, options: KeyOptions) -> Keys {
        Keys::new(self.clone(), options)
    }
}

impl Keys {
    fn new(client: Client, options: KeyOptions) -> Self {
        Self {
            client,
            options,
            closed: Arc::default(),
        }
    }

    /// The same keys' names for another end user; it shares nothing with this one but the client.
    #[must_use]
    pub fn for_owner(&self, owner: impl Into<Owner>) -> Self {
        Self::new(self.client.clone(), self.options.clone().owner(owner))
    }

    /// Returns the owner's name, as requests bear it.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if the owner has no valid name.
    pub fn owner(&self) -> Result<String, Error> {
        self.options.owner.on_wire()
    }

    /// Returns the lifetime that a request bears, with the defaults of these keys.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a lifetime out of bounds.
    pub fn lifetime(&self, ttl: Ttl) -> Result<Option<Lifetime>, Error> {
        ttl.lifetime(self.options.defaults).map(Some)
    }

    pub(crate) fn closed(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.closed)
    }

    /// Returns the client, for requests that these keys have no method for.
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed) after [`close`](StateTool::close).
    pub fn open(&self) -> Result<&Client, Error> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::closed());
        }
        Ok(&self.client)
    }

    /// Deletes a key if its revision is `revision`. True: it was deleted. False: there is no such key any more, or it has
    /// another revision; nothing was deleted.
    ///
    /// # Errors
    /// Those of every write, but a conflict is an outcome here.
    pub async fn delete_if(&self, key: &str, revision: u64) -> Result<bool, Error> {
        let deleted = self.remove(key, Some(revision)).await;
        deleted.or_else(|error| match error.kind() {
            ErrorKind::Conflict { .. } => Ok(false),
            _ => Err(error),
        })
    }

    /// Deletes a key, if its revision is `if_revision` where one is given. Returns whether there was one.
    ///
    /// # Errors
    /// Those of every write, [`Conflict`](ErrorKind::Conflict) included.
    pub async fn remove(&self, key: &str, if_revision: Option<u64>) -> Result<bool, Error> {
        let request = DeleteKeyRequest {
            identity: None,
            owner: self.owner()?,
            key: key.to_owned(),
            if_revision,
        };
        Ok(self.open()?.call(request).await?.existed)
    }

    /// Stores a value, if the key's revision is `if_revision` where one is given, and says whether the key is
    /// new. 0 means: if there is no such key.
    ///
    /// # Errors
    /// Those of every write, [`Conflict`](ErrorKind::Conflict) included: [`store_if`](StateTool::store_if)
    /// returns it as an outcome.
    pub async fn write(
        &self,
        key: &str,
        value: &Value,
        ttl: Ttl,
        if_revision: Option<u64>,
    ) -> Result<StoreOutcome, Error> {
        self.write_bytes(key, encode(value)?, ttl, if_revision)
            .await
    }

    async fn write_bytes(
        &self,
        key: &str,
        value: Bytes,
        ttl: Ttl,
        if_revision: Option<u64>,
    ) -> Result<StoreOutcome, Error> {
        let request = StoreRequest {
            identity: None,
            owner: self.owner()?,
            key: key.to_owned(),
            value,
            lifetime: self.lifetime(ttl)?,
            if_revision,
        };
        let reply = self.open()?.call(request).await?;
        match WriteStatus::try_from(reply.status) {
            Ok(WriteStatus::Created) => Ok(StoreOutcome::Created(present(reply.info, "info")?)),
            Ok(WriteStatus::Replaced) => Ok(StoreOutcome::Replaced(present(reply.info, "info")?)),
            _ => Err(Error::internal("a write status that no key has")),
        }
    }

    async fn parts(&self, request: ListKeysRequest) -> Result<Listing<KeyRecord>, Error> {
        let mut parts = self.open()?.list_keys(request).await?.into_iter();
        let ListKeysReply {
            header,
            mut records,
            ..
        } = present(parts.next(), "first part")?;
        let header = present(header, "header")?;
        records.extend(parts.flat_map(|part| part.records));
        Ok(Listing {
            revision: header.index,
            clock_ms: header.clock_ms,
            items: records,
        })
    }

    fn list_request(&self, prefix: &str) -> Result<ListKeysRequest, Error> {
        Ok(ListKeysRequest {
            owner: self.owner()?,
            prefix: prefix.to_owned(),
            ..ListKeysRequest::default()
        })
    }

    fn page_request(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<ListKeysRequest, Error> {
        Ok(ListKeysRequest {
            after: after.unwrap_or_default().to_owned(),
            keys_max: page_limit(limit),
            ..self.list_request(prefix)?
        })
    }
}

fn or_conflict(stored: Result<StoreOutcome, Error>) -> Result<StoreOutcome, Error> {
    stored.or_else(|error| match error.kind() {
        ErrorKind::Conflict { revision, .. } => Ok(StoreOutcome::Conflict { revision }),
        _ => Err(error),
    })
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({:?}, {:?})", self.options.owner, self.client)
    }
}

#[async_trait]
impl StateTool for Keys {
    async fn store_record(&self, key: &str, value: &Value, ttl: Ttl) -> Result<RecordInfo, Error> {
        let stored = self.write(key, value, ttl, None).await?;
        stored.unconditional()
    }

    async fn store_if(
        &self,
        key: &str,
        value: &Value,
        ttl: Ttl,
        revision: u64,
    ) -> Result<StoreOutcome, Error> {
        or_conflict(self.write(key, value, ttl, Some(revision)).await)
    }

    async fn retrieve_record(&self, key: &str) -> Result<Option<Record<Value>>, Error> {
        let request = RetrieveRequest {
            owner: self.owner()?,
            key: key.to_owned(),
        };
        let reply = self.open()?.call(request).await?;
        let found = reply.record;
        found
            .map(|found| record_value(found.info, &found.value))
            .transpose()
    }

    async fn delete(&self, key: &str) -> Result<(), Error> {
        self.remove(key, None).await.map(drop)
    }

    async fn list_infos(&self, prefix: &str) -> Result<Listing<RecordInfo>, Error> {
        let listing = self.parts(self.list_request(prefix)?).await?;
        listing.try_map(|key| present(key.info, "info"))
    }

    async fn list_values(&self, prefix: &str) -> Result<Listing<Record<Value>>, Error> {
        let request = ListKeysRequest {
            with_values: true,
            ..self.list_request(prefix)?
        };
        let listing = self.parts(request).await?;
        listing.try_map(|key| record_value(key.info, &key.value))
    }

    async fn list_page(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<RecordInfo>, Error> {
        let request = self.page_request(prefix, after, limit)?;
        let listing = self.parts(request).await?;
        page(listing, limit, |key| present(key.info, "info"))
    }

    async fn list_values_page(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Record<Value>>, Error> {
        let listing = self.raw_page(prefix, after, limit).await?;
        page(listing, limit, |key| record_value(key.info, &key.value))
    }

    async fn exists(&self, key: &str) -> Result<bool, Error> {
        let request = ExistsRequest {
            owner: self.owner()?,
            key: key.to_owned(),
        };
        Ok(self.open()?.call(request).await?.exists)
    }

    async fn batch_store(&self, items: &[(String, Value)]) -> Result<(), Error> {
        let item = |(key, value): &(String, Value)| Ok((key.clone(), encode(value)?));
        let items = items.iter().map(item).collect::<Result<Vec<_>, Error>>()?;
        self.batch_store_bytes(&items).await
    }

    async fn batch_retrieve(&self, keys: &[String]) -> Result<Vec<Option<Value>>, Error> {
        let found = self.raw_batch(keys).await?.into_iter();
        let value = |found: KeyRecord| Ok(record_value(found.info, &found.value)?.value);
        found.map(|found| found.map(value).transpose()).collect()
    }

    fn promises(&self) -> Promises {
        self.client.promises()
    }

    fn deadline(&self) -> Duration {
        self.client.deadline()
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}
