//! Key isolation: a state tool that sees the keys below one key prefix, and no others.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use helve_client::{Error, Listing, Page, Promises, Record, StateTool, StoreOutcome, Ttl};
use helve_proto::{Reason, v1::RecordInfo};
use serde_json::Value;

/// The keys of another tool that begin with a prefix, named without it. Its holder can neither
/// read, write nor list any other key: a key has no meaning but its characters, so there is none
/// that leads out. Closing it leaves the other tool open.
///
/// The prefix counts towards the 1,024 bytes of a key.
#[derive(Clone)]
pub struct Prefixed {
    tool: Arc<dyn StateTool>,
    prefix: String,
    closed: Arc<AtomicBool>,
}

impl Prefixed {
    /// The keys that begin with these characters, which the operator chooses: neither may be a prefix of another's, or the one
    /// sees the other's keys. For names that others choose there is [`for_agent`](Self::for_agent).
    #[must_use]
    pub fn new(tool: Arc<dyn StateTool>, prefix: impl Into<String>) -> Self {
        Self {
            tool,
            prefix: prefix.into(),
            closed: Arc::default(),
        }
    }

    /// The keys below `agents/{id}/`. No two ids share a key.
    ///
    /// # Errors
    /// [`Invalid`](helve_client::ErrorKind::Invalid) if the id is no [part of a key](crate::Versions::new).
    pub fn for_agent(tool: Arc<dyn StateTool>, id: &str) -> Result<Self, Error> {
        check_part(id)?;
        Ok(Self::new(tool, format!("agents/{id}/")))
    }

    fn open(&self) -> Result<&dyn StateTool, Error> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::closed());
        }
        Ok(&*self.tool)
    }

    fn inside(&self, key: &str) -> Result<String, Error> {
        if key.is_empty() {
            let message = "an empty key: a key has 1 to 1,024 bytes";
            return Err(Error::refused(Reason::BadKey, message, 0, 0));
        }
        Ok(format!("{}{key}", self.prefix))
    }

    fn outside(&self, mut info: RecordInfo) -> Result<RecordInfo, Error> {
        match info.name.strip_prefix(&self.prefix) {
            Some(name) => info.name = name.to_owned(),
            None => {
                return Err(Error::internal(
                    "a key beyond the prefix that was asked for",
                ));
            }
        }
        Ok(info)
    }

    /// The prefix of a page, and the key that it begins behind, as the other tool has them. Its key that is the prefix alone is none here.
    fn place(&self, prefix: &str, after: Option<&str>) -> (String, String) {
        let inner = format!("{}{prefix}", self.prefix);
        (
            inner,
            format!("{}{}", self.prefix, after.unwrap_or_default()),
        )
    }

    fn outside_page<I>(
        &self,
        page: Page<I>,
        outside: impl Fn(I) -> Result<I, Error>,
    ) -> Result<Page<I>, Error> {
        let beyond = || Error::internal("a page that ends beyond the prefix that was asked for");
        let next = page.next.map(|next| {
            let next = next.strip_prefix(&self.prefix);
            next.map(str::to_owned).ok_or_else(beyond)
        });
        Ok(Page {
            revision: page.revision,
            clock_ms: page.clock_ms,
            items: page
                .items
                .into_iter()
                .map(outside)
                .collect::<Result<_, _>>()?,
            next: next.transpose()?,
        })
    }

    fn outside_record(&self, record: Record<Value>) -> Result<Record<Value>, Error> {
        Ok(Record {
            info: self.outside(record.info)?,
            value: record.value,
        })
    }
}

#[async_trait]
impl StateTool for Prefixed {
    async fn store_record(&self, key: &str, value: &Value, ttl: Ttl) -> Result<RecordInfo, Error> {
        let key = self.inside(key)?;
        self.outside(self.open()?.store_record(&key, value, ttl).await?)
    }

    async fn store_if(
        &self,
        key: &str,
        value: &Value,
        ttl: Ttl,
        revision: u64,
    ) -> Result<StoreOutcome, Error> {
        let key = self.inside(key)?;
        Ok(
            match self.open()?.store_if(&key, value, ttl, revision).await? {
                StoreOutcome::Created(info) => StoreOutcome::Created(self.outside(info)?),
                StoreOutcome::Replaced(info) => StoreOutcome::Replaced(self.outside(info)?),
                conflict @ StoreOutcome::Conflict { .. } => conflict,
            },
        )
    }

    async fn retrieve_record(&self, key: &str) -> Result<Option<Record<Value>>, Error> {
        let key = self.inside(key)?;
        let found = self.open()?.retrieve_record(&key).await?;
        found.map(|record| self.outside_record(record)).transpose()
    }

    async fn delete(&self, key: &str) -> Result<(), Error> {
        let key = self.inside(key)?;
        self.open()?.delete(&key).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, Error> {
        let prefix = format!("{}{prefix}", self.prefix);
        let keys = self.open()?.list(&prefix).await?;
        let mut outside = Vec::with_capacity(keys.len());
        for key in keys {
            let Some(key) = key.strip_prefix(&self.prefix) else {
                return Err(Error::internal(
                    "a key beyond the prefix that was asked for",
                ));
            };
            // The prefix itself can be a key of the other tool, and is none of this one.
            if !key.is_empty() {
                outside.push(key.to_owned());
            }
        }
        Ok(outside)
    }

    async fn list_infos(&self, prefix: &str) -> Result<Listing<RecordInfo>, Error> {
        let prefix = format!("{}{prefix}", self.prefix);
        let mut listing = self.open()?.list_infos(&prefix).await?;
        listing.items.retain(|info| info.name != self.prefix);
        listing.try_map(|info| self.outside(info))
    }

    async fn list_values(&self, prefix: &str) -> Result<Listing<Record<Value>>, Error> {
        let prefix = format!("{}{prefix}", self.prefix);
        let mut listing = self.open()?.list_values(&prefix).await?;
        listing
            .items
            .retain(|record| record.info.name != self.prefix);
        listing.try_map(|record| self.outside_record(record))
    }

    async fn list_page(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<RecordInfo>, Error> {
        let (inner, after) = self.place(prefix, after);
        let tool = self.open()?;
        let page = tool.list_page(&inner, Some(&after), limit).await?;
        self.outside_page(page, |info| self.outside(info))
    }

    async fn list_values_page(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Record<Value>>, Error> {
        let (inner, after) = self.place(prefix, after);
        let tool = self.open()?;
        let page = tool.list_values_page(&inner, Some(&after), limit).await?;
        self.outside_page(page, |record| self.outside_record(record))
    }

    async fn exists(&self, key: &str) -> Result<bool, Error> {
        let key = self.inside(key)?;
        self.open()?.exists(&key).await
    }

    async fn batch_store(&self, items: &[(String, Value)]) -> Result<(), Error> {
        let inside = |(key, value): &(String, Value)| Ok((self.inside(key)?, value.clone()));
        let items = items
            .iter()
            .map(inside)
            .collect::<Result<Vec<_>, Error>>()?;
        self.open()?.batch_store(&items).await
    }

    async fn batch_retrieve(&self, keys: &[String]) -> Result<Vec<Option<Value>>, Error> {
        let keys = keys.iter().map(|key| self.inside(key));
        let keys = keys.collect::<Result<Vec<_>, Error>>()?;
        self.open()?.batch_retrieve(&keys).await
    }

    fn promises(&self) -> Promises {
        self.tool.promises()
    }

    fn deadline(&self) -> Duration {
        self.tool.deadline()
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}

impl fmt::Debug for Prefixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prefixed")
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// Whether a name may stand between two `/` of a key, so that no two names share a key below them.
pub(crate) fn check_part(name: &str) -> Result<(), Error> {
    if name.is_empty() || name.contains(['/', '\0']) {
        let message = format!(
            "{name:?} is no part of a key: it must hold something, and neither `/` nor NUL"
        );
        return Err(Error::refused(Reason::BadKey, message, 0, 0));
    }
    Ok(())
}
