//! The handle store: what an MCP server keeps between calls, under ids that it mints.

use std::{convert::Infallible, time::Duration};

use async_trait::async_trait;
use helve_proto::v1::RecordInfo;
use tokio::time::Instant;

use crate::{
    error::Error,
    limits::DEADLINE_MAX,
    record::{Listing, NotLive, Page, Record, Resolved},
    retry::Backoff,
    steps::{Ended, pause, within},
    ttl::Ttl,
};

/// A store of values of type `T` under opaque ids (SEP-2567 state handles), after mcpkit's `HandleStore`. Object safe: an MCP
/// server holds an `Arc<dyn HandleStore<Cart>>`.
///
/// # Where it differs from mcpkit
/// - Every method is async and can fail: the state is elsewhere.
/// - [`put`](Self::put) and [`delete`](Self::delete) of an expired handle answer `false`, and put writes nothing.
/// - A handle has expired at its very deadline; mcpkit's is still valid then.
/// - [`len`](Self::len) counts live handles alone, and those of the store's owner alone.
/// - A read never deletes: it cannot race with a renewal.
/// - Minting fails if the operating system gives no randomness; there is no predictable fallback.
/// - After [`close`](Self::close), calls answer [`Closed`](crate::ErrorKind::Closed).
/// - A put with [`Ttl::Keep`] leaves the lifetime as it is, which mcpkit cannot say.
#[async_trait]
pub trait HandleStore<T: Send + Sync + 'static>: Send + Sync {
    /// Keeps a value under a new id: `prefix-` and 26 characters of base32, 128 bits of randomness.
    ///
    /// # Errors
    /// [`Entropy`](crate::ErrorKind::Entropy) if there is no randomness, and those of every write.
    async fn mint(&self, value: &T, ttl: Ttl) -> Result<String, Error> {
        Ok(self.mint_record(value, ttl).await?.name)
    }

    /// As [`mint`](Self::mint), but answers all that is known of the new handle: its id is the `name`, and its `revision` is what
    /// [`put_if`](Self::put_if) and [`take_if`](Self::take_if) compare.
    ///
    /// # Errors
    /// As [`mint`](Self::mint).
    async fn mint_record(&self, value: &T, ttl: Ttl) -> Result<RecordInfo, Error>;

    /// Writes a value under an id of the caller's choosing. True if the handle existed and was replaced; false if it was
    /// created, and also if it has expired or was taken and therefore nothing was written ([`resolve`](Self::resolve) and
    /// [`put_if`](Self::put_if) tell these apart).
    ///
    /// # Errors
    /// Those of every write.
    async fn put(&self, id: &str, value: &T, ttl: Ttl) -> Result<bool, Error>;

    /// Writes a value if the handle's revision is `revision`; 0: if there is no such handle.
    ///
    /// # Errors
    /// Those of every write, but a conflict is an outcome here.
    async fn put_if(
        &self,
        id: &str,
        value: &T,
        ttl: Ttl,
        revision: u64,
    ) -> Result<PutOutcome, Error>;

    /// The value, if the handle lives. Restarts the idle time.
    ///
    /// # Errors
    /// Those of every read.
    async fn get(&self, id: &str) -> Result<Option<T>, Error> {
        Ok(self.resolve(id).await?.live().map(|record| record.value))
    }

    /// The handle with its revision and times, or what became of it. Restarts the idle time.
    ///
    /// # Errors
    /// Those of every read.
    async fn resolve(&self, id: &str) -> Result<Resolved<Record<T>>, Error>;

    /// Gets and deletes: of any number of callers one receives the value, the others hear `Taken`.
    ///
    /// # Errors
    /// Those of every write. After [`Codec`](crate::ErrorKind::Codec) the value is gone.
    async fn take(&self, id: &str) -> Result<Resolved<Record<T>>, Error>;

    /// As [`take`](Self::take), if the handle's revision is `revision`: so that no caller takes what it has not seen.
    ///
    /// # Errors
    /// As [`take`](Self::take), but a conflict is an outcome here.
    async fn take_if(&self, id: &str, revision: u64) -> Result<TakeOutcome<T>, Error>;

    /// Gives a live handle a new lifetime. The revision stays.
    ///
    /// # Errors
    /// Those of every write.
    async fn renew(&self, id: &str, ttl: Ttl) -> Result<Resolved<RecordInfo>, Error>;

    /// Deletes a handle; true if it lived.
    ///
    /// # Errors
    /// Those of every write.
    async fn delete(&self, id: &str) -> Result<bool, Error>;

    /// How many of the store's handles live, under its owner.
    ///
    /// # Errors
    /// Those of every read.
    async fn len(&self) -> Result<u64, Error>;

    /// Whether none of the store's handles lives.
    ///
    /// # Errors
    /// Those of every read.
    async fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.len().await? == 0)
    }

    /// The live handles of the store under its owner, by id, without their values. Does not restart idle times.
    ///
    /// # Errors
    /// Those of every read, [`Lapsed`](crate::ErrorKind::Lapsed), and [`Invalid`](crate::ErrorKind::Invalid) if the list is over its
    /// limit.
    async fn list(&self) -> Result<Listing<RecordInfo>, Error>;

    /// As [`list`](Self::list), with the values.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    async fn list_values(&self) -> Result<Listing<Record<T>>, Error>;

    /// As [`list_values`](Self::list_values), but of the first `max` handles alone, and no more is read: for stores of any size.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    async fn list_first_values(&self, max: usize) -> Result<Listing<Record<T>>, Error> {
        let mut page = self.list_values_page(None, max).await?;
        page.items.truncate(max);
        Ok(Listing {
            revision: page.revision,
            clock_ms: page.clock_ms,
            items: page.items,
        })
    }

    /// As [`list`](Self::list), but of at most `limit` handles, and of those behind the id `after` alone. It costs about as much as it lists,
    /// however large the store is: for stores of any size. [`next`](Page::next) is what the next page begins behind. A `limit` of 0 is
    /// taken as 1.
    ///
    /// # Errors
    /// As [`list`](Self::list); within the deadline.
    async fn list_page(&self, after: Option<&str>, limit: usize)
    -> Result<Page<RecordInfo>, Error>;

    /// As [`list_page`](Self::list_page), with the values.
    ///
    /// # Errors
    /// As [`list_page`](Self::list_page).
    async fn list_values_page(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Record<T>>, Error>;

    /// How long each call may take, retries included.
    fn deadline(&self) -> Duration;

    /// Ends this store object: its calls from now on answer [`Closed`](crate::ErrorKind::Closed). The values stay, and other store
    /// objects and the client go on. Closing again does nothing.
    fn close(&self);
}

/// What a conditional put did.
#[derive(Debug, Clone, PartialEq)]
pub enum PutOutcome {
    /// There was no such handle before.
    Created(RecordInfo),
    /// The value was replaced.
    Replaced(RecordInfo),
    /// The revision is another one, and nothing was written. Read again, decide again.
    Conflict {
        /// The handle's revision; 0 if there is no such handle.
        revision: u64,
    },
    /// The handle has expired: nothing was written.
    Expired,
    /// The handle's value was taken: nothing was written.
    Taken,
}

/// What a conditional take did.
#[derive(Debug, Clone, PartialEq)]
pub enum TakeOutcome<T> {
    /// It lived, and this call took it.
    Took(Record<T>),
    /// The revision is another one, and nothing was taken. Read again, decide again.
    Conflict {
        /// The handle's revision; 0 if there is no such handle.
        revision: u64,
    },
    /// It does not live, for this reason; nothing was taken.
    NotLive(NotLive),
}

/// What every handle store can do besides.
#[async_trait]
pub trait HandleStoreExt<T: Send + Sync + 'static>: HandleStore<T> {
    /// Changes a value, and loses no other caller's change: reads, calls `change`, writes if no
    /// other caller wrote in between, else starts over. Keeps the lifetime. `change` may be called
    /// several times: it must do nothing but compute. Answers the handle as written, or why there
    /// is none.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) if others wrote first until the store's deadline ended: nothing was written.
    /// [`Ambiguous`](crate::ErrorKind::Ambiguous) if it ended during the write. Else those of every read and write.
    async fn update<F>(&self, id: &str, mut change: F) -> Result<Resolved<Record<T>>, Error>
    where
        F: FnMut(T) -> T + Send,
    {
        let outcome = self
            .try_update(id, |value| Ok::<T, Infallible>(change(value)))
            .await?;
        match outcome {
            Ok(resolved) => Ok(resolved),
            Err(never) => match never {},
        }
    }

    /// As [`update`](Self::update), but `change` may give up: its error is answered, and nothing is written.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    async fn try_update<F, E>(
        &self,
        id: &str,
        mut change: F,
    ) -> Result<Result<Resolved<Record<T>>, E>, Error>
    where
        F: FnMut(T) -> Result<T, E> + Send,
        E: Send,
    {
        let deadline = Instant::now() + self.deadline().min(DEADLINE_MAX);
        let mut backoff = Backoff::contention();
        loop {
            let Record { info, value } =
                match within(deadline, self.resolve(id), Ended::Reading).await? {
                    Resolved::Live(record) => record,
                    gone => return Ok(Ok(gone)),
                };
            let value = match change(value) {
                Ok(value) => value,
                Err(error) => return Ok(Err(error)),
            };
            let put = self.put_if(id, &value, Ttl::Keep, info.revision);
            let revision = match within(deadline, put, Ended::Writing).await? {
                PutOutcome::Created(info) | PutOutcome::Replaced(info) => {
                    return Ok(Ok(Resolved::Live(Record { info, value })));
                }
                PutOutcome::Expired => return Ok(Ok(Resolved::Expired)),
                PutOutcome::Taken => return Ok(Ok(Resolved::Taken)),
                PutOutcome::Conflict { revision } => revision,
            };
            pause(deadline, &mut backoff, revision).await?;
        }
    }
}

impl<T: Send + Sync + 'static, S: HandleStore<T> + ?Sized> HandleStoreExt<T> for S {}
