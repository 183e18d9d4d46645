//! Watches: changes of records as they happen.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use futures::{Stream, StreamExt as _, stream::BoxStream};
use helve_proto::v1::{
    self, ChangeKind, RecordInfo, WatchHandle, WatchKeys, WatchOwner, WatchReply, WatchRequest,
    WatchStore, watch_request::Target,
};

use crate::{
    client::Client,
    error::{Error, ErrorKind},
    owner::Owner,
    record::present,
};

/// What a host tells a watch, part by part: the first part at once.
pub type WatchParts = BoxStream<'static, Result<WatchReply, Error>>;

/// What to watch, and from where on.
#[derive(Debug)]
#[must_use = "give it to Client::watch"]
pub struct Watch {
    target: Result<Target, Error>,
    after: Option<u64>,
}

impl Watch {
    fn of(target: Result<Target, Error>) -> Self {
        Self {
            target,
            after: None,
        }
    }

    /// The handles of a store, of all owners.
    pub fn store(store: impl Into<String>) -> Self {
        Self::of(Ok(Target::Store(WatchStore {
            store: store.into(),
            owner: None,
        })))
    }

    /// The handles that one owner has in a store.
    pub fn store_of(store: impl Into<String>, owner: impl Into<Owner>) -> Self {
        let owned = |owner| {
            Target::Store(WatchStore {
                store: store.into(),
                owner: Some(owner),
            })
        };
        Self::of(owner.into().on_wire().map(owned))
    }

    /// One handle.
    pub fn handle(
        store: impl Into<String>,
        owner: impl Into<Owner>,
        id: impl Into<String>,
    ) -> Self {
        let owned = |owner| {
            Target::Handle(WatchHandle {
                store: store.into(),
                owner,
                id: id.into(),
            })
        };
        Self::of(owner.into().on_wire().map(owned))
    }

    /// An owner's keys that begin with this prefix; an empty one means all.
    pub fn keys(owner: impl Into<Owner>, prefix: impl Into<String>) -> Self {
        let owned = |owner| {
            Target::Keys(WatchKeys {
                owner,
                prefix: prefix.into(),
            })
        };
        Self::of(owner.into().on_wire().map(owned))
    }

    /// All handles and keys of an owner.
    pub fn owner(owner: impl Into<Owner>) -> Self {
        let owned = |owner| Target::Owner(WatchOwner { owner });
        Self::of(owner.into().on_wire().map(owned))
    }

    /// Begins with the changes that follow this revision: the [`revision`](Changes::revision) of an earlier watch, or of a
    /// [`Listing`](crate::Listing). Without it the watch begins with what follows its opening.
    pub fn after(mut self, revision: u64) -> Self {
        self.after = Some(revision);
        self
    }

    /// The request on the wire.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if the owner has no valid name.
    pub fn request(self) -> Result<WatchRequest, Error> {
        Ok(WatchRequest {
            target: Some(self.target?),
            after: self.after,
            cluster_id: String::new(),
        })
    }
}

/// One change of a record.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// What happened.
    pub kind: ChangeKind,
    /// The store of a handle; `None`: it is a key.
    pub store: Option<String>,
    /// Name and owner of the record, and the change's own revision. Times, lifetimes and the value's size are of a put only.
    pub info: RecordInfo,
    /// The number of the change among all of its revision: the pair of both only grows.
    pub ordinal: u32,
}

/// Changes that came together, in order; none: the log went on without any.
#[derive(Debug, Clone, PartialEq)]
pub struct Changed {
    /// The changes.
    pub changes: Vec<Change>,
    /// Every change up to this revision was told, here or before.
    pub revision: u64,
    /// The replicated clock, in milliseconds since the Unix epoch.
    pub clock_ms: u64,
}

/// A watch under way. It goes on at another node when its node fails, and tells each change once, in the order of the log.
///
/// # Errors
/// After an error of kind [`Unavailable`](ErrorKind::Unavailable) or [`Overloaded`](ErrorKind::Overloaded) the next item is tried
/// for again, from where the watch is. [`Lapsed`](ErrorKind::Lapsed) means that no node has all changes that follow any more: list
/// again, and watch after the list's revision. After that and after any other error the stream ends.
pub struct Changes {
    parts: WatchParts,
    revision: u64,
    is_over: bool,
    /// A client without clones closes its connections when it is dropped.
    _client: Client,
}

impl Changes {
    /// Every change up to this revision was told.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Changes(after {})", self.revision)
    }
}

impl Stream for Changes {
    type Item = Result<Changed, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let next = std::task::ready!(self.parts.poll_next_unpin(context));
        let Some(part) = next else {
            self.is_over = true;
            return Poll::Ready(None);
        };
        let changed = part.and_then(changed);
        match &changed {
            Ok(changed) => self.revision = changed.revision,
            Err(error) => self.is_over = !is_passing(error),
        }
        Poll::Ready(Some(changed))
    }
}

/// Whether a watch goes on after an error.
pub(crate) fn is_passing(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Overloaded)
}

fn changed(part: WatchReply) -> Result<Changed, Error> {
    let changes = part.changes.into_iter().map(change);
    Ok(Changed {
        changes: changes.collect::<Result<_, _>>()?,
        revision: part.revision,
        clock_ms: present(part.header, "header")?.clock_ms,
    })
}

fn change(told: v1::Change) -> Result<Change, Error> {
    Ok(Change {
        kind: told.kind(),
        store: Some(told.store).filter(|store| !store.is_empty()),
        info: present(told.info, "info")?,
        ordinal: told.ordinal,
    })
}

impl Client {
    /// Watches records. Every change that is acknowledged after this returns is told, in the order of the log.
    ///
    /// # Errors
    /// [`Lapsed`](ErrorKind::Lapsed) if no node has all changes after the revision asked for; [`Unsupported`](ErrorKind::Unsupported)
    /// if the host tells no changes; and those of every read.
    pub async fn watch(&self, watch: Watch) -> Result<Changes, Error> {
        let backend = self.backend();
        let mut parts = backend.watch(watch.request()?, self.deadline()).await?;
        let first = parts.next().await;
        let first = first.ok_or_else(|| Error::internal("a watch without a first part"))??;
        Ok(Changes {
            revision: first.revision,
            // The first part may have changes already, where it goes on.
            parts: if first.changes.is_empty() {
                parts
            } else {
                futures::stream::iter([Ok(first)]).chain(parts).boxed()
            },
            is_over: false,
            _client: self.clone(),
        })
    }
}
