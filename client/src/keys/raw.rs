//! Values that need be no JSON, under the same keys.

use bytes::Bytes;
use helve_proto::v1::{
    BatchRetrieveRequest, BatchStoreRequest, KeyRecord, ListKeysRequest, RecordInfo,
    RetrieveRequest, StoreItem,
};

use super::{Keys, or_conflict};
use crate::{
    error::Error,
    record::{Listing, Page, Record, page, record_with},
    state_tool::StoreOutcome,
    ttl::Ttl,
};

impl Keys {
    /// Stores bytes as they are. They need not be JSON; a call that reads them as JSON fails then.
    ///
    /// # Errors
    /// Those of every write.
    pub async fn store_bytes(
        &self,
        key: &str,
        value: Bytes,
        ttl: Ttl,
    ) -> Result<RecordInfo, Error> {
        self.write_bytes(key, value, ttl, None)
            .await?
            .unconditional()
    }

    /// As [`store_bytes`](Self::store_bytes), if the key's revision is `revision`; with 0, if the key
    /// does not exist.
    ///
    /// # Errors
    /// Those of every write, but a conflict is an outcome here.
    pub async fn store_bytes_if(
        &self,
        key: &str,
        value: Bytes,
        ttl: Ttl,
        revision: u64,
    ) -> Result<StoreOutcome, Error> {
        or_conflict(self.write_bytes(key, value, ttl, Some(revision)).await)
    }

    /// The value as it was stored, with its revision and times, if the key exists. Restarts the idle
    /// time.
    ///
    /// # Errors
    /// Those of every read.
    pub async fn retrieve_bytes(&self, key: &str) -> Result<Option<Record<Bytes>>, Error> {
        let request = RetrieveRequest {
            owner: self.owner()?,
            key: key.to_owned(),
        };
        let found = self.open()?.call(request).await?.record;
        found.map(bytes).transpose()
    }

    /// At most `limit` keys that begin with `prefix` and come after `after`, with their values as they
    /// were stored: as [`list_values_page`](crate::StateTool::list_values_page).
    ///
    /// # Errors
    /// Those of every list.
    pub async fn list_bytes_page(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Record<Bytes>>, Error> {
        let listing = self.raw_page(prefix, after, limit).await?;
        page(listing, limit, bytes)
    }

    /// Stores bytes under several keys, all or none: as [`batch_store`](crate::StateTool::batch_store).
    ///
    /// # Errors
    /// Those of every write.
    pub async fn batch_store_bytes(&self, items: &[(String, Bytes)]) -> Result<(), Error> {
        let lifetime = self.lifetime(Ttl::Default)?;
        let item = |(key, value): &(String, Bytes)| StoreItem {
            key: key.clone(),
            value: value.clone(),
            lifetime,
            if_revision: None,
        };
        let request = BatchStoreRequest {
            identity: None,
            owner: self.owner()?,
            items: items.iter().map(item).collect(),
        };
        self.open()?.call(request).await.map(drop)
    }

    /// The values of several keys as they were stored, from one view, in the order asked for: as
    /// [`batch_retrieve`](crate::StateTool::batch_retrieve).
    ///
    /// # Errors
    /// Those of every read.
    pub async fn batch_retrieve_bytes(&self, keys: &[String]) -> Result<Vec<Option<Bytes>>, Error> {
        let found = self.raw_batch(keys).await?.into_iter();
        Ok(found.map(|found| Some(found?.value)).collect())
    }

    pub(super) async fn raw_batch(&self, keys: &[String]) -> Result<Vec<Option<KeyRecord>>, Error> {
        let request = BatchRetrieveRequest {
            owner: self.owner()?,
            keys: keys.to_vec(),
        };
        let reply = self.open()?.call(request).await?;
        Ok(reply.keys.into_iter().map(|key| key.record).collect())
    }

    pub(super) async fn raw_page(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Listing<KeyRecord>, Error> {
        let request = ListKeysRequest {
            with_values: true,
            ..self.page_request(prefix, after, limit)?
        };
        self.parts(request).await
    }
}

fn bytes(found: KeyRecord) -> Result<Record<Bytes>, Error> {
    record_with(found.info, || Ok(found.value))
}
