//! The state tool on a client, whatever its host.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use helve_proto::v1::{
    BatchRetrieveRequest, BatchStoreRequest, DeleteKeyRequest, ExistsRequest, KeyRecord, Lifetime,
    ListKeysReply, ListKeysRequest, RecordInfo, RetrieveRequest, StoreItem, StoreRequest,
    WriteStatus,
};
use serde_json::Value;

use crate::{
    client::Client,
    error::{Error, ErrorKind},
    promises::Promises,
    record::{Listing, Record, decode, encode, present, record},
    state_tool::{StateTool, StoreOutcome},
    ttl::{Defaults, Ttl},
};

/// Whose keys, and how long they live.
#[derive(Debug, Clone, Default)]
pub struct KeyOptions {
    owner: String,
    defaults: Defaults,
}

impl KeyOptions {
    /// No owner, no lifetimes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What [`Ttl::Default`], and so every plain store, stands for. Without it: for ever.
    #[must_use]
    pub fn default_ttl(mut self, ttl: Duration) -> Self {
        self.defaults.ttl = Some(ttl);
        self
    }

    /// Keys that nobody retrieves or stores for this long expire, whatever their [`Ttl`].
    #[must_use]
    pub fn idle_ttl(mut self, ttl: Duration) -> Self {
        self.defaults.idle_ttl = Some(ttl);
        self
    }

    /// All calls are this end user's: at most 256 bytes. Every owner has keys of their own.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = owner.into();
        self
    }
}

/// The state tool, whatever the client's host. Clones share [`close`](StateTool::close).
#[derive(Debug, Clone)]
pub struct Keys {
    client: Client,
    options: KeyOptions,
    closed: Arc<AtomicBool>,
}

impl Keys {
    pub(crate) fn new(client: Client, options: KeyOptions) -> Self {
        Self {
            client,
            options,
            closed: Arc::default(),
        }
    }

    /// The same keys' names for another end user; it shares nothing with this one but the client.
    #[must_use]
    pub fn for_owner(&self, owner: impl Into<String>) -> Self {
        Self::new(self.client.clone(), self.options.clone().owner(owner))
    }

    pub(crate) fn owner(&self) -> String {
        self.options.owner.clone()
    }

    pub(crate) fn lifetime(&self, ttl: Ttl) -> Result<Option<Lifetime>, Error> {
        ttl.lifetime(self.options.defaults).map(Some)
    }

    pub(crate) fn closed(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.closed)
    }

    /// The client, for as long as these keys are open.
    pub(crate) fn open(&self) -> Result<&Client, Error> {
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

    /// Deletes a key; true if there was one.
    pub(crate) async fn remove(&self, key: &str, if_revision: Option<u64>) -> Result<bool, Error> {
        let request = DeleteKeyRequest {
            identity: None,
            owner: self.owner(),
            key: key.to_owned(),
            if_revision,
        };
        Ok(self.open()?.call(request).await?.existed)
    }

    pub(crate) async fn write(
        &self,
        key: &str,
        value: &Value,
        ttl: Ttl,
        if_revision: Option<u64>,
    ) -> Result<StoreOutcome, Error> {
        let request = StoreRequest {
            identity: None,
            owner: self.owner(),
            key: key.to_owned(),
            value: encode(value)?,
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

    fn list_request(&self, prefix: &str) -> ListKeysRequest {
        ListKeysRequest {
            owner: self.owner(),
            prefix: prefix.to_owned(),
            ..ListKeysRequest::default()
        }
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
        let outcome = self.write(key, value, ttl, Some(revision)).await;
        outcome.or_else(|error| match error.kind() {
            ErrorKind::Conflict { revision, .. } => Ok(StoreOutcome::Conflict { revision }),
            _ => Err(error),
        })
    }

    async fn retrieve_record(&self, key: &str) -> Result<Option<Record<Value>>, Error> {
        let request = RetrieveRequest {
            owner: self.owner(),
            key: key.to_owned(),
        };
        let reply = self.open()?.call(request).await?;
        let found = reply.record;
        found
            .map(|found| record(found.info, &found.value))
            .transpose()
    }

    async fn delete(&self, key: &str) -> Result<(), Error> {
        self.remove(key, None).await.map(drop)
    }

    async fn list_infos(&self, prefix: &str) -> Result<Listing<RecordInfo>, Error> {
        let listing = self.parts(self.list_request(prefix)).await?;
        listing.try_map(|key| present(key.info, "info"))
    }

    async fn list_values(&self, prefix: &str) -> Result<Listing<Record<Value>>, Error> {
        let request = ListKeysRequest {
            with_values: true,
            ..self.list_request(prefix)
        };
        let listing = self.parts(request).await?;
        listing.try_map(|key| record(key.info, &key.value))
    }

    async fn exists(&self, key: &str) -> Result<bool, Error> {
        let request = ExistsRequest {
            owner: self.owner(),
            key: key.to_owned(),
        };
        Ok(self.open()?.call(request).await?.exists)
    }

    async fn batch_store(&self, items: &[(String, Value)]) -> Result<(), Error> {
        let lifetime = self.lifetime(Ttl::Default)?;
        let item = |(key, value): &(String, Value)| {
            Ok(StoreItem {
                key: key.clone(),
                value: encode(value)?,
                lifetime,
                if_revision: None,
            })
        };
        let request = BatchStoreRequest {
            identity: None,
            owner: self.owner(),
            items: items.iter().map(item).collect::<Result<_, Error>>()?,
        };
        self.open()?.call(request).await.map(drop)
    }

    async fn batch_retrieve(&self, keys: &[String]) -> Result<Vec<Option<Value>>, Error> {
        let request = BatchRetrieveRequest {
            owner: self.owner(),
            keys: keys.to_vec(),
        };
        let reply = self.open()?.call(request).await?;
        let values = reply.keys.into_iter().map(|key| key.record);
        values
            .map(|found| found.map(|found| decode(&found.value)).transpose())
            .collect()
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
