//! Writes that wait on this machine's disk until the cluster can be reached.

mod backlog;
mod drain;
mod entry;
mod journal;
mod words;

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use helve_client::{Error, ErrorKind, Keys, PartitionState, StateTool as _, Ttl, extend::encode};
use helve_proto::{
    Reason,
    v1::{DeleteKeyRequest, StoreRequest},
};
use prost::Message as _;
use serde_json::Value;
use tokio::sync::Notify;

pub use self::words::{Condition, Drained, QueueOptions, Queued, Report, Verdict};

use self::{
    backlog::Backlog,
    drain::Identities,
    entry::{Entry, QueuedWrite, Step},
    journal::Journal,
};
use crate::limits::{JOURNAL_SLACK_BYTES, check_key, check_value_bytes};

/// Writes to keys, kept in a file until the cluster takes them, each of which takes effect at most once.
///
/// A write is synced before it is called queued. It is sent by [`drain`](Self::drain), in the order of queueing; before its first
/// try its identity and its condition are synced, and no other try bears others. So whatever dies in between, this process, a
/// node, or the connection, the write took effect once or not at all, and the next drain hears which. What came of it is synced, and
/// then told to the callback, at least once.
///
/// | what the cluster says | what becomes of the write |
/// |---|---|
/// | it took effect | [`Verdict::Applied`] |
/// | its condition does not hold | [`Verdict::Conflict`]: it is not sent again |
/// | its identity is not remembered any more, because more than an hour has passed since it was sent and no answer came | [`Verdict::Lapsed`]: whether it took effect is not known, and it is not sent again |
/// | it can never succeed | [`Verdict::Refused`]: it is not sent again |
/// | nothing, or that it cannot now | it waits, and so do those behind it |
///
/// One process has a queue's file at a time. Losing the disk loses the queue.
pub struct WriteQueue {
    held: Arc<Held>,
    keys: Keys,
    options: QueueOptions,
    report: Box<dyn Fn(&Report) + Send + Sync>,
    /// One drain at a time.
    identities: tokio::sync::Mutex<Identities>,
    queued: Notify,
}

/// The journal, and what it adds up to.
struct Held {
    state: Mutex<State>,
}

struct State {
    journal: Journal,
    backlog: Backlog,
}

impl WriteQueue {
    /// The queue in this file, with what an earlier process left there; beside it lies its lock, whose name ends in `.lock`. Its
    /// writes are for these keys' owner, with their default lifetimes, which begin when the cluster takes the write. `report` is
    /// called from within a drain: it must not wait.
    ///
    /// # Errors
    /// [`Unavailable`](ErrorKind::Unavailable) if the file cannot be read or written, or another queue has it;
    /// [`Codec`](ErrorKind::Codec) if it is damaged.
    pub async fn open(
        path: impl Into<PathBuf>,
        keys: Keys,
        options: QueueOptions,
        report: impl Fn(&Report) + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let path = path.into();
        let (journal, entries) = blocking(move || Journal::open(&path)).await?;
        let backlog = Backlog::of(entries);
        Ok(Self {
            held: Arc::new(Held {
                state: Mutex::new(State { journal, backlog }),
            }),
            keys,
            options,
            report: Box::new(report),
            identities: tokio::sync::Mutex::default(),
            queued: Notify::new(),
        })
    }

    /// How many writes wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.held.state().backlog.waiting()
    }

    /// Queues a store, and answers its number once it is synced.
    ///
    /// # Errors
    /// [`Full`](ErrorKind::Full) if the queue holds as much as it may, or the disk is full; [`Invalid`](ErrorKind::Invalid) for a
    /// key or a value that no cluster takes, and for [`Condition::AfterQueued`] if no write to the key waits;
    /// [`Unavailable`](ErrorKind::Unavailable) if the disk fails. Nothing was queued.
    pub async fn store(
        &self,
        key: &str,
        value: &Value,
        ttl: Ttl,
        condition: Condition,
    ) -> Result<u64, Error> {
        let store = StoreRequest {
            owner: self.keys.owner()?,
            key: key.to_owned(),
            value: encode(value)?,
            lifetime: self.keys.lifetime(ttl)?,
            ..StoreRequest::default()
        };
        let write = QueuedWrite {
            store: Some(store),
            ..QueuedWrite::default()
        };
        self.queue(write, condition).await
    }

    /// Queues a deletion, as [`store`](Self::store) does a store. The key need not exist.
    ///
    /// # Errors
    /// As [`store`](Self::store).
    pub async fn delete(&self, key: &str, condition: Condition) -> Result<u64, Error> {
        let delete = DeleteKeyRequest {
            owner: self.keys.owner()?,
            key: key.to_owned(),
            ..DeleteKeyRequest::default()
        };
        let write = QueuedWrite {
            delete: Some(delete),
            ..QueuedWrite::default()
        };
        self.queue(write, condition).await
    }

    /// Stores at once if the cluster serves and nothing waits, else, or if it turns out not to serve, queues.
    ///
    /// # Errors
    /// As [`store`](Self::store), and those of every write; [`Ambiguous`](ErrorKind::Ambiguous) if the write was sent at once and
    /// no answer came: it was not queued, for it may have taken effect.
    pub async fn store_or_queue(
        &self,
        state: PartitionState,
        key: &str,
        value: &Value,
        ttl: Ttl,
        condition: Condition,
    ) -> Result<Queued, Error> {
        if state.is_serving() && self.waiting() == 0 {
            let stored = match condition {
                Condition::Any => self.keys.write(key, value, ttl, None).await,
                Condition::Revision(revision) => {
                    self.keys.store_if(key, value, ttl, revision).await
                }
                Condition::AfterQueued => return Err(nothing_waits(key)),
            };
            match stored {
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    tracing::debug!(%error, key, "queueing a write that could not be sent");
                }
                stored => return stored.map(Queued::Stored),
            }
        }
        let number = self.store(key, value, ttl, condition).await?;
        Ok(Queued::Waiting(number))
    }

    async fn queue(&self, mut write: QueuedWrite, condition: Condition) -> Result<u64, Error> {
        check(&write)?;
        let QueueOptions {
            writes_max,
            bytes_max,
        } = self.options;
        let number = self
            .with(move |state| {
                let key = write.name().1.to_owned();
                match condition {
                    Condition::Any => {}
                    Condition::Revision(revision) => write.if_revision = Some(revision),
                    Condition::AfterQueued => {
                        let last = state.backlog.last_of(write.name());
                        write.after = Some(last.ok_or_else(|| nothing_waits(&key))?);
                    }
                }
                let bytes = state.backlog.bytes() + write.encoded_len();
                if state.backlog.waiting() >= writes_max || bytes > bytes_max {
                    let message =
                        "the queue holds as much as it may: drain it, or give it more room";
                    return Err(Error::new(ErrorKind::Full, message));
                }
                let number = state.backlog.next();
                state.take(number, Step::Queued(write))?;
                Ok(number)
            })
            .await?;
        self.queued.notify_one();
        Ok(number)
    }

    async fn with<O: Send + 'static>(
        &self,
        work: impl FnOnce(&mut State) -> Result<O, Error> + Send + 'static,
    ) -> Result<O, Error> {
        let held = Arc::clone(&self.held);
        blocking(move || work(&mut held.state())).await
    }
}

impl Held {
    /// Nothing panics between a journal and what it adds up to, so a poisoned lock is still right.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Notes a step once it is on disk.
    fn take(&mut self, number: u64, step: Step) -> Result<(), Error> {
        let entry = Entry {
            number,
            step: Some(step.clone()),
        };
        self.journal.append(&entry)?;
        self.backlog.note(number, step);
        Ok(())
    }

    /// Rewrites the journal without what is done with, once that is much. If that fails, the old
    /// one stays in use.
    fn compact(&mut self) -> Result<(), Error> {
        self.backlog.forget();
        let wanted = u64::try_from(self.backlog.bytes()).unwrap_or(u64::MAX);
        if self.journal.bytes() <= wanted.saturating_mul(2).saturating_add(JOURNAL_SLACK_BYTES) {
            return Ok(());
        }
        match self.journal.rewrite(&self.backlog.entries()) {
            Err(error) if !self.journal.is_broken() => {
                tracing::warn!(%error, "the queue's file stays as long as it is");
                Ok(())
            }
            rewritten => rewritten,
        }
    }
}

async fn blocking<O: Send + 'static>(
    work: impl FnOnce() -> Result<O, Error> + Send + 'static,
) -> Result<O, Error> {
    let worked = tokio::task::spawn_blocking(work).await;
    worked.map_err(|error| Error::internal("a queue's writer panicked").with_source(error))?
}

/// What the cluster would refuse for its size or its key is not queued in the first place.
fn check(write: &QueuedWrite) -> Result<(), Error> {
    let (_, key) = write.name();
    check_key(key)?;
    check_value_bytes(write.store.as_ref().map_or(0, |store| store.value.len()))
}

fn nothing_waits(key: &str) -> Error {
    let message = format!("no write to {key:?} waits: give the key's revision");
    Error::refused(Reason::BadRequest, message, 0, 0)
}

impl fmt::Debug for WriteQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteQueue")
            .field("waiting", &self.waiting())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
