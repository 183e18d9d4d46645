//! The handle store on a client, whatever its host.

use std::{
    fmt,
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use helve_proto::v1::{
    CountRequest, DeleteRequest, GetRequest, HandleStatus, Lifetime, ListReply, ListRequest,
    ListedHandle, MintRequest, PutRequest, RecordInfo, RenewRequest, TakeRequest, WriteStatus,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    client::Client,
    error::{Error, ErrorKind},
    handle_store::{HandleStore, PutOutcome},
    record::{Listing, Record, Resolved, encode, present, record},
    ttl::{Defaults, Ttl},
};

/// What a store of handles is.
#[derive(Debug, Clone)]
pub struct HandleOptions {
    store: String,
    owner: String,
    id_prefix: String,
    defaults: Defaults,
}

impl HandleOptions {
    /// The store of this name: 1 to 64 bytes of `[a-z0-9_-]`. No owner, no id prefix, no lifetimes. Names are checked by the
    /// first call.
    pub fn new(store: impl Into<String>) -> Self {
        Self {
            store: store.into(),
            owner: String::new(),
            id_prefix: String::new(),
            defaults: Defaults::default(),
        }
    }

    /// What [`Ttl::Default`] stands for. Without it: for ever.
    #[must_use]
    pub fn default_ttl(mut self, ttl: Duration) -> Self {
        self.defaults.ttl = Some(ttl);
        self
    }

    /// Handles that nobody gets or writes for this long expire, whatever their [`Ttl`]. A get restarts the time.
    #[must_use]
    pub fn idle_ttl(mut self, ttl: Duration) -> Self {
        self.defaults.idle_ttl = Some(ttl);
        self
    }

    /// Minted ids begin with `prefix-`: at most 64 bytes of `[a-z0-9_-]`.
    #[must_use]
    pub fn id_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.id_prefix = prefix.into();
        self
    }

    /// All calls are this end user's: at most 256 bytes. Handles of another owner, or of none, are unknown to it.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = owner.into();
        self
    }
}

/// A store of handles, whatever the client's host. Values are kept as JSON. Clones share [`close`](HandleStore::close).
pub struct Handles<T> {
    client: Client,
    options: HandleOptions,
    closed: Arc<AtomicBool>,
    value: PhantomData<fn(T) -> T>,
}

impl<T> Handles<T> {
    pub(crate) fn new(client: Client, options: HandleOptions) -> Self {
        Self {
            client,
            options,
            closed: Arc::default(),
            value: PhantomData,
        }
    }

    /// The same store for another end user; it shares nothing with this one but the client.
    #[must_use]
    pub fn for_owner(&self, owner: impl Into<String>) -> Self {
        Self::new(self.client.clone(), self.options.clone().owner(owner))
    }

    pub(crate) fn name(&self) -> String {
        self.options.store.clone()
    }

    pub(crate) fn owner(&self) -> String {
        self.options.owner.clone()
    }

    pub(crate) fn id_prefix(&self) -> String {
        self.options.id_prefix.clone()
    }

    pub(crate) fn lifetime(&self, ttl: Ttl) -> Result<Option<Lifetime>, Error> {
        ttl.lifetime(self.options.defaults).map(Some)
    }

    pub(crate) fn closed(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.closed)
    }

    fn client(&self) -> Result<&Client, Error> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::closed());
        }
        Ok(&self.client)
    }

    async fn write(
        &self,
        id: &str,
        value: &T,
        ttl: Ttl,
        if_revision: Option<u64>,
    ) -> Result<PutOutcome, Error>
    where
        T: Serialize,
    {
        let request = PutRequest {
            identity: None,
            store: self.name(),
            owner: self.owner(),
            id: id.to_owned(),
            value: encode(value)?,
            lifetime: self.lifetime(ttl)?,
            if_revision,
        };
        let reply = self.client()?.call(request).await?;
        match WriteStatus::try_from(reply.status) {
            Ok(WriteStatus::Created) => Ok(PutOutcome::Created(present(reply.info, "info")?)),
            Ok(WriteStatus::Replaced) => Ok(PutOutcome::Replaced(present(reply.info, "info")?)),
            Ok(WriteStatus::Expired) => Ok(PutOutcome::Expired),
            Ok(WriteStatus::Taken) => Ok(PutOutcome::Taken),
            Ok(WriteStatus::Unspecified) | Err(_) => Err(Error::internal(
                "a write status that this version does not know",
            )),
        }
    }

    async fn parts(&self, request: ListRequest) -> Result<Listing<ListedHandle>, Error> {
        let mut parts = self.client()?.list_handles(request).await?.into_iter();
        let ListReply {
            header,
            mut handles,
            ..
        } = present(parts.next(), "first part")?;
        let header = present(header, "header")?;
        handles.extend(parts.flat_map(|part| part.handles));
        Ok(Listing {
            revision: header.index,
            clock_ms: header.clock_ms,
            items: handles,
        })
    }

    fn list_request(&self) -> ListRequest {
        ListRequest {
            store: self.name(),
            owner: Some(self.owner()),
            ..ListRequest::default()
        }
    }
}

#[async_trait]
impl<T> HandleStore<T> for Handles<T>
where
    T: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    async fn mint(&self, value: &T, ttl: Ttl) -> Result<String, Error> {
        let request = MintRequest {
            identity: None,
            store: self.name(),
            owner: self.owner(),
            id_prefix: self.id_prefix(),
            value: encode(value)?,
            lifetime: self.lifetime(ttl)?,
        };
        let reply = self.client()?.call(request).await?;
        Ok(present(reply.info, "info")?.name)
    }

    async fn put(&self, id: &str, value: &T, ttl: Ttl) -> Result<bool, Error> {
        let outcome = self.write(id, value, ttl, None).await?;
        Ok(matches!(outcome, PutOutcome::Replaced(_)))
    }

    async fn put_if(
        &self,
        id: &str,
        value: &T,
        ttl: Ttl,
        revision: u64,
    ) -> Result<PutOutcome, Error> {
        let outcome = self.write(id, value, ttl, Some(revision)).await;
        outcome.or_else(|error| match error.kind() {
            ErrorKind::Conflict { revision, .. } => Ok(PutOutcome::Conflict { revision }),
            _ => Err(error),
        })
    }

    async fn resolve(&self, id: &str) -> Result<Resolved<Record<T>>, Error> {
        let request = GetRequest {
            store: self.name(),
            owner: self.owner(),
            id: id.to_owned(),
        };
        let reply = self.client()?.call(request).await?;
        Resolved::from_status(reply.status, || record(reply.info, &reply.value))
    }

    async fn take(&self, id: &str) -> Result<Resolved<Record<T>>, Error> {
        let request = TakeRequest {
            identity: None,
            store: self.name(),
            owner: self.owner(),
            id: id.to_owned(),
            if_revision: None,
        };
        let reply = self.client()?.call(request).await?;
        Resolved::from_status(reply.status, || record(reply.info, &reply.value))
    }

    async fn renew(&self, id: &str, ttl: Ttl) -> Result<Resolved<RecordInfo>, Error> {
        let request = RenewRequest {
            identity: None,
            store: self.name(),
            owner: self.owner(),
            id: id.to_owned(),
            lifetime: self.lifetime(ttl)?,
        };
        let reply = self.client()?.call(request).await?;
        Resolved::from_status(reply.status, || present(reply.info, "info"))
    }

    async fn delete(&self, id: &str) -> Result<bool, Error> {
        let request = DeleteRequest {
            identity: None,
            store: self.name(),
            owner: self.owner(),
            id: id.to_owned(),
            if_revision: None,
        };
        let reply = self.client()?.call(request).await?;
        Ok(reply.status == i32::from(HandleStatus::Live))
    }

    async fn len(&self) -> Result<u64, Error> {
        let request = CountRequest {
            store: self.name(),
            owner: Some(self.owner()),
        };
        Ok(self.client()?.call(request).await?.live)
    }

    async fn list(&self) -> Result<Listing<RecordInfo>, Error> {
        let listing = self.parts(self.list_request()).await?;
        listing.try_map(|handle| present(handle.info, "info"))
    }

    async fn list_values(&self) -> Result<Listing<Record<T>>, Error> {
        let request = ListRequest {
            with_values: true,
            ..self.list_request()
        };
        let listing = self.parts(request).await?;
        listing.try_map(|handle| record(handle.info, &handle.value))
    }

    async fn list_first_values(&self, max: usize) -> Result<Listing<Record<T>>, Error> {
        let request = ListRequest {
            with_values: true,
            handles_max: (max as u64).max(1),
            ..self.list_request()
        };
        let mut listing = self.parts(request).await?;
        // None of none, and a node of an older version knows no maximum.
        listing.items.truncate(max);
        listing.try_map(|handle| record(handle.info, &handle.value))
    }

    fn deadline(&self) -> Duration {
        self.client.deadline()
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}

impl<T> Clone for Handles<T> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            options: self.options.clone(),
            closed: Arc::clone(&self.closed),
            value: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Handles<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handles")
            .field("client", &self.client)
            .field("options", &self.options)
            .field("closed", &self.closed)
            .finish()
    }
}
