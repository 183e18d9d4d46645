//! The handle store on a client, whatever its host.

mod options;

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
use bytes::Bytes;
use helve_proto::v1::{
    CountRequest, DeleteRequest, GetRequest, HandleStatus, Lifetime, ListReply, ListRequest,
    ListedHandle, MintRequest, PutRequest, RecordInfo, RenewRequest, TakeRequest, WriteStatus,
};

pub use self::options::HandleOptions;
use crate::{
    client::Client,
    codec::{Codec, Json},
    error::{Error, ErrorKind},
    handle_store::{HandleStore, PutOutcome, TakeOutcome},
    owner::Owner,
    record::{Listing, NotLive, Page, Record, Resolved, page, page_limit, present, record_with},
    ttl::Ttl,
};

/// A store of handles, whatever the client's host. Values are kept as its [`Codec`] says: as JSON, if not told otherwise. Clones share
/// [`close`](HandleStore::close).
pub struct Handles<T, C = Json> {
    client: Client,
    options: HandleOptions,
    codec: Arc<C>,
    closed: Arc<AtomicBool>,
    value: PhantomData<fn(T) -> T>,
}

impl Client {
    /// A store of handles, whose values are kept as JSON. Options name it: stores of the same name on the same cluster are one.
    #[must_use]
    pub fn handles<T>(&self, options: HandleOptions) -> Handles<T> {
        Handles::new(self.clone(), options, Arc::new(Json))
    }

    /// As [`handles`](Self::handles), with a [codec](crate::Codec) for the values: [`Raw`](crate::Raw) for bytes as they are.
    #[must_use]
    pub fn handles_with<T, C: Codec<T>>(&self, options: HandleOptions, codec: C) -> Handles<T, C> {
        Handles::new(self.clone(), options, Arc::new(codec))
    }
}

impl<T, C> Handles<T, C> {
    fn new(client: Client, options: HandleOptions, codec: Arc<C>) -> Self {
        Self {
            client,
            options,
            codec,
            closed: Arc::default(),
            value: PhantomData,
        }
    }

    /// The same store for another end user; it shares nothing with this one but the client.
    #[must_use]
    pub fn for_owner(&self, owner: impl Into<Owner>) -> Self {
        let options = self.options.clone().owner(owner);
        Self::new(self.client.clone(), options, Arc::clone(&self.codec))
    }

    pub(crate) fn name(&self) -> String {
        self.options.store.clone()
    }

    pub(crate) fn owner(&self) -> Result<String, Error> {
        self.options.owner.on_wire()
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
        C: Codec<T>,
    {
        let request = PutRequest {
            identity: None,
            store: self.name(),
            owner: self.owner()?,
            id: id.to_owned(),
            value: self.codec.encode(value)?,
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

    async fn taken(&self, id: &str, if_revision: Option<u64>) -> Result<Resolved<Record<T>>, Error>
    where
        C: Codec<T>,
    {
        let request = TakeRequest {
            identity: None,
            store: self.name(),
            owner: self.owner()?,
            id: id.to_owned(),
            if_revision,
        };
        let reply = self.client()?.call(request).await?;
        Resolved::from_status(reply.status, || self.record(reply.info, reply.value))
    }

    fn record(&self, info: Option<RecordInfo>, value: Bytes) -> Result<Record<T>, Error>
    where
        C: Codec<T>,
    {
        record_with(info, || self.codec.decode(value))
    }

    pub(crate) fn encode(&self, value: &T) -> Result<Bytes, Error>
    where
        C: Codec<T>,
    {
        self.codec.encode(value)
    }

    fn page_request(&self, after: Option<&str>, limit: usize) -> Result<ListRequest, Error> {
        Ok(ListRequest {
            after: after.unwrap_or_default().to_owned(),
            handles_max: page_limit(limit),
            ..self.list_request()?
        })
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

    fn list_request(&self) -> Result<ListRequest, Error> {
        Ok(ListRequest {
            store: self.name(),
            owner: Some(self.owner()?),
            ..ListRequest::default()
        })
    }
}

#[async_trait]
impl<T, C> HandleStore<T> for Handles<T, C>
where
    T: Send + Sync + 'static,
    C: Codec<T>,
{
    async fn mint_record(&self, value: &T, ttl: Ttl) -> Result<RecordInfo, Error> {
        let request = MintRequest {
            identity: None,
            store: self.name(),
            owner: self.owner()?,
            id_prefix: self.id_prefix(),
            value: self.codec.encode(value)?,
            lifetime: self.lifetime(ttl)?,
        };
        let reply = self.client()?.call(request).await?;
        present(reply.info, "info")
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
            owner: self.owner()?,
            id: id.to_owned(),
        };
        let reply = self.client()?.call(request).await?;
        Resolved::from_status(reply.status, || self.record(reply.info, reply.value))
    }

    async fn take(&self, id: &str) -> Result<Resolved<Record<T>>, Error> {
        self.taken(id, None).await
    }

    async fn take_if(&self, id: &str, revision: u64) -> Result<TakeOutcome<T>, Error> {
        match self.taken(id, Some(revision)).await {
            Ok(Resolved::Live(record)) => Ok(TakeOutcome::Took(record)),
            Ok(Resolved::Expired) => Ok(TakeOutcome::NotLive(NotLive::Expired)),
            Ok(Resolved::Taken) => Ok(TakeOutcome::NotLive(NotLive::Taken)),
            Ok(Resolved::Unknown) => Ok(TakeOutcome::NotLive(NotLive::Unknown)),
            Err(error) => match error.kind() {
                ErrorKind::Conflict { revision, .. } => Ok(TakeOutcome::Conflict { revision }),
                _ => Err(error),
            },
        }
    }

    async fn renew(&self, id: &str, ttl: Ttl) -> Result<Resolved<RecordInfo>, Error> {
        let request = RenewRequest {
            identity: None,
            store: self.name(),
            owner: self.owner()?,
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
            owner: self.owner()?,
            id: id.to_owned(),
            if_revision: None,
        };
        let reply = self.client()?.call(request).await?;
        Ok(reply.status == i32::from(HandleStatus::Live))
    }

    async fn len(&self) -> Result<u64, Error> {
        let request = CountRequest {
            store: self.name(),
            owner: Some(self.owner()?),
        };
        Ok(self.client()?.call(request).await?.live)
    }

    async fn list(&self) -> Result<Listing<RecordInfo>, Error> {
        let listing = self.parts(self.list_request()?).await?;
        listing.try_map(|handle| present(handle.info, "info"))
    }

    async fn list_values(&self) -> Result<Listing<Record<T>>, Error> {
        let request = ListRequest {
            with_values: true,
            ..self.list_request()?
        };
        let listing = self.parts(request).await?;
        listing.try_map(|handle| self.record(handle.info, handle.value))
    }

    async fn list_page(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<RecordInfo>, Error> {
        let request = self.page_request(after, limit)?;
        let listing = self.parts(request).await?;
        page(listing, limit, |handle| present(handle.info, "info"))
    }

    async fn list_values_page(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Record<T>>, Error> {
        let request = ListRequest {
            with_values: true,
            ..self.page_request(after, limit)?
        };
        let listing = self.parts(request).await?;
        page(listing, limit, |handle| {
            self.record(handle.info, handle.value)
        })
    }

    fn deadline(&self) -> Duration {
        self.client.deadline()
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}

impl<T, C> Clone for Handles<T, C> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            options: self.options.clone(),
            codec: Arc::clone(&self.codec),
            closed: Arc::clone(&self.closed),
            value: PhantomData,
        }
    }
}

impl<T, C> fmt::Debug for Handles<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HandleOptions { store, owner, .. } = &self.options;
        write!(f, "Handles({store:?}, {owner:?}, {:?})", self.client)
    }
}
