//! Changing what others change too: loops on the revision, over any state tool.

use async_trait::async_trait;
use helve_client::{
    Error, Record, StateTool, StoreOutcome, Ttl,
    extend::{Backoff, Ended, pause, within},
    limits::DEADLINE_MAX,
};
use serde_json::Value;
use tokio::time::Instant;

/// Two values for one key.
#[derive(Debug)]
pub struct Contested<'a> {
    /// What the caller wants to store.
    pub mine: &'a Value,
    /// What is stored; `None` if the key was deleted meanwhile, or expired.
    pub theirs: Option<&'a Record<Value>>,
}

/// What is to become of a contested key.
#[derive(Debug, Clone, PartialEq)]
pub enum Resolution {
    /// This value, merged from both.
    Store(Value),
    /// What is stored stays.
    KeepTheirs,
}

/// What became of a contested key.
#[derive(Debug, Clone, PartialEq)]
pub enum Settled {
    /// The caller's value, or what was made of both, is stored.
    Stored(Record<Value>),
    /// What was stored stayed; `None` if that is nothing.
    Kept(Option<Record<Value>>),
}

/// What every state tool can do besides, if it promises [`revisions`](helve_client::Promises::revisions).
#[async_trait]
pub trait StateToolExt: StateTool {
    /// Changes a value, and loses no other caller's change: reads, calls `change` with what is
    /// there, writes if no other caller wrote in between, else starts over. A key that exists keeps
    /// its lifetime; a new one gets that of the options. `change` may be called several times: it
    /// must do nothing but compute.
    ///
    /// # Errors
    /// [`Conflict`](helve_client::ErrorKind::Conflict) if others wrote first until the deadline ended: nothing was written.
    /// [`Ambiguous`](helve_client::ErrorKind::Ambiguous) if it ended during the write. Else those of every read and write.
    async fn update<F>(&self, key: &str, mut change: F) -> Result<Record<Value>, Error>
    where
        F: FnMut(Option<Value>) -> Value + Send,
    {
        let deadline = Instant::now() + self.deadline().min(DEADLINE_MAX);
        let mut backoff = Backoff::contention();
        loop {
            let found = within(deadline, self.retrieve_record(key), Ended::Reading).await?;
            let (ttl, revision) = seen(found.as_ref());
            let value = change(found.map(|record| record.value));
            let store = self.store_if(key, &value, ttl, revision);
            match within(deadline, store, Ended::Writing).await? {
                StoreOutcome::Created(info) | StoreOutcome::Replaced(info) => {
                    return Ok(Record { info, value });
                }
                StoreOutcome::Conflict { revision } => {
                    pause(deadline, &mut backoff, revision).await?;
                }
            }
        }
    }

    /// Stores a value that was made from what the key held at `revision` (0: from nothing). If
    /// others have written since, as after a partition, `resolve` decides, again and again until no
    /// other caller writes in between; it must do nothing but compute. A key that exists keeps its
    /// lifetime.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    async fn store_resolving<F>(
        &self,
        key: &str,
        value: &Value,
        mut revision: u64,
        mut resolve: F,
    ) -> Result<Settled, Error>
    where
        F: FnMut(Contested<'_>) -> Resolution + Send,
    {
        let deadline = Instant::now() + self.deadline().min(DEADLINE_MAX);
        let mut backoff = Backoff::contention();
        let mut ttl = if revision == 0 {
            Ttl::Default
        } else {
            Ttl::Keep
        };
        let mut merged = value.clone();
        loop {
            let store = self.store_if(key, &merged, ttl, revision);
            match within(deadline, store, Ended::Writing).await? {
                StoreOutcome::Created(info) | StoreOutcome::Replaced(info) => {
                    let value = merged;
                    return Ok(Settled::Stored(Record { info, value }));
                }
                StoreOutcome::Conflict { revision } => {
                    pause(deadline, &mut backoff, revision).await?;
                }
            }
            let theirs = within(deadline, self.retrieve_record(key), Ended::Reading).await?;
            let contested = Contested {
                mine: value,
                theirs: theirs.as_ref(),
            };
            match resolve(contested) {
                Resolution::Store(value) => merged = value,
                Resolution::KeepTheirs => return Ok(Settled::Kept(theirs)),
            }
            (ttl, revision) = seen(theirs.as_ref());
        }
    }
}

impl<S: StateTool + ?Sized> StateToolExt for S {}

/// The lifetime and the condition of a write over what was read.
fn seen(found: Option<&Record<Value>>) -> (Ttl, u64) {
    match found {
        Some(record) => (Ttl::Keep, record.revision()),
        None => (Ttl::Default, 0),
    }
}
