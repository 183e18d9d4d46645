//! Several writes as one.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use helve_proto::{
    Reason,
    v1::{
        DeleteKeyOperation, DeleteOperation, HandleStatus, MintOperation, Operation,
        OperationReply, PutOperation, RecordInfo, RenewOperation, StoreOperation, TakeOperation,
        TransactRequest, operation::Operation as Kind, transact_reply::Result as Reply,
    },
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    client::Client,
    codec::Codec,
    error::{Error, ErrorKind},
    handles::Handles,
    keys::Keys,
    record::{NotLive, Record, encode, present, record, record_with},
    ttl::Ttl,
};

/// Writes to handles and keys that take effect together, at one revision, or not at all. At most 128, and 4 MiB; no handle and
/// no key in two of them. None of the stores may be closed when it is committed.
///
/// What cannot be built (a value without JSON form, a lifetime that does not fit) is said by [`commit`](Self::commit).
#[must_use = "a transaction does nothing until it is committed"]
pub struct Transaction {
    client: Client,
    operations: Vec<Kind>,
    /// Whether the store of each operation was closed.
    closed: Vec<Arc<AtomicBool>>,
    flaw: Option<Error>,
}

/// What a transaction came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Transacted {
    /// Every operation took effect.
    Committed(Committed),
    /// None did, because a handle does not live.
    Aborted {
        /// The first operation that could not take effect, from 0.
        operation: usize,
        /// Why not.
        status: NotLive,
    },
}

/// The replies to the operations of a transaction that took effect.
#[derive(Debug, Clone, PartialEq)]
pub struct Committed {
    /// The log index at which all of it took effect: the revision of everything it wrote.
    pub revision: u64,
    /// One for each operation, in order.
    pub replies: Vec<OperationReply>,
}

impl Committed {
    /// The record of an operation after the write; of a take, as it was. `None` for deletes, and beyond the operations.
    #[must_use]
    pub fn info(&self, operation: usize) -> Option<&RecordInfo> {
        self.replies.get(operation)?.info.as_ref()
    }

    /// What a take took.
    ///
    /// # Errors
    /// [`Codec`](ErrorKind::Codec) if it is no `T`; [`Internal`](ErrorKind::Internal) if the operation is no take.
    pub fn taken<T: DeserializeOwned>(&self, operation: usize) -> Result<Record<T>, Error> {
        let reply = present(self.replies.get(operation), "operation")?;
        record(reply.info.clone(), &reply.value)
    }

    /// What a take took of a store with this codec.
    ///
    /// # Errors
    /// As [`taken`](Self::taken).
    pub fn taken_with<T>(
        &self,
        operation: usize,
        codec: &impl Codec<T>,
    ) -> Result<Record<T>, Error> {
        let reply = present(self.replies.get(operation), "operation")?;
        record_with(reply.info.clone(), || codec.decode(reply.value.clone()))
    }
}

impl Client {
    /// A transaction over handles and keys, still empty.
    pub fn transaction(&self) -> Transaction {
        Transaction::new(self.clone())
    }
}

impl Transaction {
    fn new(client: Client) -> Self {
        Self {
            client,
            operations: Vec::new(),
            closed: Vec::new(),
            flaw: None,
        }
    }

    /// Keeps a value under a new id: `info(operation).name` of the reply.
    pub fn mint<T, C: Codec<T>>(self, store: &Handles<T, C>, value: &T, ttl: Ttl) -> Self {
        self.with(store.closed(), || {
            Ok(Kind::Mint(MintOperation {
                store: store.name(),
                owner: store.owner()?,
                id_prefix: store.id_prefix(),
                value: store.encode(value)?,
                lifetime: store.lifetime(ttl)?,
            }))
        })
    }

    /// Writes a value under an id. A handle that expired or was taken aborts the transaction.
    pub fn put<T, C: Codec<T>>(self, store: &Handles<T, C>, id: &str, value: &T, ttl: Ttl) -> Self {
        self.with(store.closed(), || {
            Ok(Kind::Put(PutOperation {
                store: store.name(),
                owner: store.owner()?,
                id: id.to_owned(),
                value: store.encode(value)?,
                lifetime: store.lifetime(ttl)?,
                if_revision: None,
            }))
        })
    }

    /// Takes a handle; the reply has its value. One that does not live aborts the transaction.
    pub fn take<T, C>(self, store: &Handles<T, C>, id: &str) -> Self {
        self.with(store.closed(), || {
            Ok(Kind::Take(TakeOperation {
                store: store.name(),
                owner: store.owner()?,
                id: id.to_owned(),
                if_revision: None,
            }))
        })
    }

    /// Gives a handle a new lifetime. One that does not live aborts the transaction.
    pub fn renew<T, C>(self, store: &Handles<T, C>, id: &str, ttl: Ttl) -> Self {
        self.with(store.closed(), || {
            Ok(Kind::Renew(RenewOperation {
                store: store.name(),
                owner: store.owner()?,
                id: id.to_owned(),
                lifetime: store.lifetime(ttl)?,
                if_revision: None,
            }))
        })
    }

    /// Deletes a handle. One that does not live aborts the transaction.
    pub fn delete<T, C>(self, store: &Handles<T, C>, id: &str) -> Self {
        self.with(store.closed(), || {
            Ok(Kind::Delete(DeleteOperation {
                store: store.name(),
                owner: store.owner()?,
                id: id.to_owned(),
                if_revision: None,
            }))
        })
    }

    /// Stores a value under a key.
    pub fn store<V: Serialize + ?Sized>(self, keys: &Keys, key: &str, value: &V, ttl: Ttl) -> Self {
        self.store_encoded(keys, key, || encode(value), ttl)
    }

    /// Stores bytes as they are, which need be no JSON, under a key.
    pub fn store_bytes(self, keys: &Keys, key: &str, value: Bytes, ttl: Ttl) -> Self {
        self.store_encoded(keys, key, || Ok(value), ttl)
    }

    fn store_encoded(
        self,
        keys: &Keys,
        key: &str,
        value: impl FnOnce() -> Result<Bytes, Error>,
        ttl: Ttl,
    ) -> Self {
        self.with(keys.closed(), || {
            Ok(Kind::Store(StoreOperation {
                owner: keys.owner()?,
                key: key.to_owned(),
                value: value()?,
                lifetime: keys.lifetime(ttl)?,
                if_revision: None,
            }))
        })
    }

    /// Deletes a key; it need not exist.
    pub fn delete_key(self, keys: &Keys, key: &str) -> Self {
        self.with(keys.closed(), || {
            Ok(Kind::DeleteKey(DeleteKeyOperation {
                owner: keys.owner()?,
                key: key.to_owned(),
                if_revision: None,
            }))
        })
    }

    /// The last operation holds only if the record's revision is this one; 0: if there is no such record. If it does not, the
    /// transaction is a [`Conflict`](ErrorKind::Conflict).
    pub fn if_revision(mut self, revision: u64) -> Self {
        let last = self.operations.last_mut();
        let Some(condition) = last.and_then(Kind::if_revision_mut) else {
            let message = "if_revision must follow an operation other than mint";
            self.flaw
                .get_or_insert(Error::refused(Reason::BadRequest, message, 0, 0));
            return self;
        };
        *condition = Some(revision);
        self
    }

    /// Makes it so, all or nothing.
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict) if an `if_revision` does not hold; [`Closed`](ErrorKind::Closed) if one of the stores is
    /// closed; and those of every write.
    pub async fn commit(self) -> Result<Transacted, Error> {
        let is_closed = |closed: &Arc<AtomicBool>| closed.load(Ordering::Acquire);
        if self.closed.iter().any(is_closed) {
            return Err(Error::closed());
        }
        if let Some(flaw) = self.flaw {
            return Err(flaw);
        }
        let operation = |kind| Operation {
            operation: Some(kind),
        };
        let request = TransactRequest {
            identity: None,
            operations: self.operations.into_iter().map(operation).collect(),
        };
        let reply = self.client.call(request).await?;
        match present(reply.result, "result")? {
            Reply::Committed(committed) => Ok(Transacted::Committed(Committed {
                revision: present(reply.header, "header")?.index,
                replies: committed.replies,
            })),
            Reply::Aborted(aborted) => Ok(Transacted::Aborted {
                operation: usize::try_from(aborted.operation).unwrap_or(usize::MAX),
                status: not_live(aborted.status)?,
            }),
        }
    }

    fn with(
        mut self,
        closed: Arc<AtomicBool>,
        operation: impl FnOnce() -> Result<Kind, Error>,
    ) -> Self {
        self.closed.push(closed);
        match operation() {
            Ok(operation) => self.operations.push(operation),
            Err(flaw) => {
                self.flaw.get_or_insert(flaw);
            }
        }
        self
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operations = self.operations.len();
        write!(f, "Transaction({operations} operations, {:?})", self.client)
    }
}

fn not_live(status: i32) -> Result<NotLive, Error> {
    match HandleStatus::try_from(status) {
        Ok(HandleStatus::Expired) => Ok(NotLive::Expired),
        Ok(HandleStatus::Taken) => Ok(NotLive::Taken),
        Ok(HandleStatus::Unknown) => Ok(NotLive::Unknown),
        Ok(HandleStatus::Live | HandleStatus::Unspecified) | Err(_) => Err(Error::new(
            ErrorKind::Internal,
            "a transaction was aborted for a reason that this version does not know",
        )),
    }
}
