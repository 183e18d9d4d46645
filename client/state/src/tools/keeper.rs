//! What all these tools do alike, whatever keeps their keys.

use async_trait::async_trait;
use helve_client::{Error, Listing, Promises, Record, StoreOutcome, Ttl};
use helve_proto::v1::RecordInfo;
use serde_json::Value;

use super::{
    bounds::{check_key, check_value},
    gate::Gate,
    options::Lifespan,
};

/// What a call wants with the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// What keeps a tool's keys: the calls that differ. What they are given is within the bounds. Closing, deadlines, and what lateness
/// means, are not theirs.
#[async_trait]
pub(super) trait Keeper: Send + Sync {
    /// What is needed before anything is done: a connection, a lock.
    type Way: Send;

    fn gate(&self) -> &Gate;

    fn promised(&self) -> Promises;

    fn lifespan(&self, ttl: Ttl) -> Result<Lifespan, Error> {
        self.gate().options().lifespan(ttl)
    }

    /// Has no effect on the keys.
    async fn reach(&self, access: Access) -> Result<Self::Way, Error>;

    /// Stores a value if the key has this revision; 0: if there is no such key.
    async fn put(
        &self,
        way: Self::Way,
        item: (&str, &Value),
        lifespan: Lifespan,
        if_revision: Option<u64>,
    ) -> Result<StoreOutcome, Error>;

    /// Stores at least one.
    async fn put_all(
        &self,
        way: Self::Way,
        items: &[(String, Value)],
        lifespan: Lifespan,
    ) -> Result<(), Error>;

    /// The records in the order asked for.
    async fn get(
        &self,
        way: Self::Way,
        keys: &[String],
    ) -> Result<Vec<Option<Record<Value>>>, Error>;

    async fn has(&self, way: Self::Way, key: &str) -> Result<bool, Error>;

    async fn remove(&self, way: Self::Way, key: &str) -> Result<(), Error>;

    async fn names(&self, way: Self::Way, prefix: &str) -> Result<Vec<String>, Error> {
        let listing = self.infos(way, prefix).await?;
        Ok(listing.items.into_iter().map(|info| info.name).collect())
    }

    async fn infos(&self, way: Self::Way, prefix: &str) -> Result<Listing<RecordInfo>, Error>;

    async fn records(&self, way: Self::Way, prefix: &str) -> Result<Listing<Record<Value>>, Error>;
}

/// A call without effect, within the deadline.
pub(super) async fn read<K: Keeper + ?Sized, O: Send, F>(
    keeper: &K,
    work: impl FnOnce(K::Way) -> F + Send,
) -> Result<O, Error>
where
    F: Future<Output = Result<O, Error>> + Send,
{
    let read = async { work(keeper.reach(Access::Read).await?).await };
    keeper.gate().begin()?.without_effect(read).await
}

/// A call with an effect, within the deadline. One that did not even get there had none.
pub(super) async fn write<K: Keeper + ?Sized, O: Send, F>(
    keeper: &K,
    work: impl FnOnce(K::Way) -> F + Send,
) -> Result<O, Error>
where
    F: Future<Output = Result<O, Error>> + Send,
{
    let call = keeper.gate().begin()?;
    let way = call.without_effect(keeper.reach(Access::Write)).await?;
    call.with_effect(work(way)).await
}

pub(super) async fn store(
    keeper: &impl Keeper,
    (key, value): (&str, &Value),
    ttl: Ttl,
    if_revision: Option<u64>,
) -> Result<StoreOutcome, Error> {
    check_key(key)?;
    check_value(value)?;
    let lifespan = keeper.lifespan(ttl)?;
    write(keeper, |way| {
        keeper.put(way, (key, value), lifespan, if_revision)
    })
    .await
}

/// Makes a state tool of a keeper.
macro_rules! state_tool {
    ($tool:ident) => {
        const _: () = {
            use ::helve_client::{Error, Listing, Promises, Record, StateTool, StoreOutcome, Ttl};
            use ::helve_proto::v1::RecordInfo;
            use ::serde_json::Value;
            use ::std::time::Duration;
            use $crate::tools::{
                bounds::{check_batch, check_key, check_keys, check_prefix},
                keeper::{Keeper as _, read, store, write},
            };

            #[::async_trait::async_trait]
            impl StateTool for $tool {
                async fn store_record(
                    &self,
                    key: &str,
                    value: &Value,
                    ttl: Ttl,
                ) -> Result<RecordInfo, Error> {
                    store(self, (key, value), ttl, None).await?.unconditional()
                }

                async fn store_if(
                    &self,
                    key: &str,
                    value: &Value,
                    ttl: Ttl,
                    revision: u64,
                ) -> Result<StoreOutcome, Error> {
                    store(self, (key, value), ttl, Some(revision)).await
                }

                async fn retrieve_record(&self, key: &str) -> Result<Option<Record<Value>>, Error> {
                    check_key(key)?;
                    let keys = [key.to_owned()];
                    let found = read(self, |way| self.get(way, &keys)).await?;
                    Ok(found.into_iter().flatten().next())
                }

                async fn delete(&self, key: &str) -> Result<(), Error> {
                    check_key(key)?;
                    write(self, |way| self.remove(way, key)).await
                }

                async fn list(&self, prefix: &str) -> Result<Vec<String>, Error> {
                    check_prefix(prefix)?;
                    read(self, |way| self.names(way, prefix)).await
                }

                async fn list_infos(&self, prefix: &str) -> Result<Listing<RecordInfo>, Error> {
                    check_prefix(prefix)?;
                    read(self, |way| self.infos(way, prefix)).await
                }

                async fn list_values(&self, prefix: &str) -> Result<Listing<Record<Value>>, Error> {
                    check_prefix(prefix)?;
                    read(self, |way| self.records(way, prefix)).await
                }

                async fn exists(&self, key: &str) -> Result<bool, Error> {
                    check_key(key)?;
                    read(self, |way| self.has(way, key)).await
                }

                async fn batch_store(&self, items: &[(String, Value)]) -> Result<(), Error> {
                    check_batch(items)?;
                    let lifespan = self.lifespan(Ttl::Default)?;
                    if items.is_empty() {
                        return self.gate().begin().map(drop);
                    }
                    write(self, |way| self.put_all(way, items, lifespan)).await
                }

                async fn batch_retrieve(
                    &self,
                    keys: &[String],
                ) -> Result<Vec<Option<Value>>, Error> {
                    check_keys(keys.iter())?;
                    if keys.is_empty() {
                        return self.gate().begin().map(|_| Vec::new());
                    }
                    let found = read(self, |way| self.get(way, keys)).await?;
                    let value = |record: Option<Record<Value>>| record.map(|record| record.value);
                    Ok(found.into_iter().map(value).collect())
                }

                fn promises(&self) -> Promises {
                    self.promised()
                }

                fn deadline(&self) -> Duration {
                    self.gate().options().deadline
                }

                fn close(&self) {
                    self.gate().close();
                }
            }
        };
    };
}

pub(super) use state_tool;
