//! Guards: locks in the cluster that expire, and whose holder is checked at each write.

use std::time::Duration;

use helve_proto::Reason;
use serde_json::Value;
use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
};

use crate::{
    client::Client,
    error::{Error, ErrorKind},
    keys::{KeyOptions, Keys},
    limits::DEADLINE_MAX,
    owner::Owner,
    retry::Backoff,
    state_tool::{StateTool, StoreOutcome},
    ttl::Ttl,
};

/// Locks under keys, of [`Client::guards`](crate::Client::guards): at most one caller holds the guard of a key, until it lets go or the guard's time is over on the cluster's
/// clock. So the death of a holder delays the others, and never stops them.
///
/// A holder that was suspended for longer than its guard lives does not know that it lost it. What
/// it guards must therefore be written on a condition: on the revision that it read under the
/// guard, so that a writer in the meantime wins, or on the guard itself, through its
/// [`fence`](Guard::fence).
#[derive(Debug, Clone)]
pub struct Guards {
    keys: Keys,
}

impl Client {
    /// Locks under this owner's keys. A guard's key holds nothing else.
    #[must_use]
    pub fn guards(&self, owner: impl Into<Owner>) -> Guards {
        Guards {
            keys: self.keys(KeyOptions::new(owner)),
        }
    }
}

impl Guards {
    /// The guard of this key, if it is free. It is given up after `ttl`, which must not be zero.
    ///
    /// # Errors
    /// Those of every write, but [`Ambiguous`](ErrorKind::Ambiguous) only if not even a read says
    /// who holds it; then it may have no holder until `ttl` has passed.
    pub async fn try_acquire(&self, key: &str, ttl: Duration) -> Result<Option<Guard>, Error> {
        let holder = Value::from(holder()?);
        let acquired = self.keys.store_if(key, &holder, Ttl::After(ttl), 0).await;
        let fence = match acquired {
            Ok(StoreOutcome::Created(info) | StoreOutcome::Replaced(info)) => info.revision,
            Ok(StoreOutcome::Conflict { .. }) => return Ok(None),
            Err(error) if error.kind() == ErrorKind::Ambiguous => {
                match self.keys.retrieve_record(key).await? {
                    Some(record) if record.value == holder => record.revision(),
                    // Never written, or lapsed already: either way it is not held by this call.
                    _ => return Ok(None),
                }
            }
            Err(error) => return Err(error),
        };
        Ok(Some(Guard {
            keys: self.keys.clone(),
            key: key.to_owned(),
            fence,
            released: false,
        }))
    }

    /// The guard of this key, as soon as it is free, within `patience`. Waiting costs reads, no
    /// writes.
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict) if others held it all the time; and as [`try_acquire`](Self::try_acquire).
    pub async fn acquire(
        &self,
        key: &str,
        ttl: Duration,
        patience: Duration,
    ) -> Result<Guard, Error> {
        let until = Instant::now() + patience.min(DEADLINE_MAX);
        let mut backoff = Backoff::guard();
        loop {
            if let Some(guard) = self.try_acquire(key, ttl).await? {
                return Ok(guard);
            }
            loop {
                if Instant::now() >= until {
                    let message = "others held the guard all the time: try again";
                    return Err(Error::refused(Reason::Conflict, message, 0, 0));
                }
                sleep(backoff.next_pause()).await;
                if !self.keys.exists(key).await? {
                    break;
                }
            }
        }
    }
}

/// A lock held. Dropped, it is let go in the background, if there is a tokio runtime; else it lapses by itself.
#[derive(Debug)]
#[must_use = "dropping the guard lets it go"]
pub struct Guard {
    keys: Keys,
    key: String,
    fence: u64,
    released: bool,
}

impl Guard {
    /// The fencing token: the revision of the guard's key, higher than that of all holders before. As long as the key has it, the
    /// guard is held: a [`Transaction`](crate::Transaction) can say so in a condition. After `helve restore`, or a `helve recover` that
    /// lost entries, revisions are given again from the last one that was kept on.
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.fence
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Lets go. False: it was lost before, and another may have held it in the meantime.
    ///
    /// # Errors
    /// Those of every write. The guard then lapses by itself.
    pub async fn release(mut self) -> Result<bool, Error> {
        self.released = true;
        self.keys.delete_if(&self.key, self.fence).await
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let (false, Ok(runtime)) = (self.released, Handle::try_current()) else {
            return;
        };
        let (keys, key, fence) = (self.keys.clone(), std::mem::take(&mut self.key), self.fence);
        // It ends within the client's deadline.
        runtime.spawn(async move {
            if let Err(error) = keys.delete_if(&key, fence).await {
                tracing::debug!(key, %error, "a guard that was dropped lapses by itself");
            }
        });
    }
}

/// Tells one try from every other.
fn holder() -> Result<String, Error> {
    let mut bytes = [0; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(format!("{:032x}", u128::from_be_bytes(bytes))),
        Err(error) => {
            let message = "the operating system gave no randomness: no guard was asked for";
            Err(Error::new(ErrorKind::Entropy, message).with_source(error))
        }
    }
}
