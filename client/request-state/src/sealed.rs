//! Values that the cluster never sees: sealed before they leave this process, opened when they are back.
//!
//! [`SealClient::sealed`] makes a client whose every value is sealed end to end, whatever made it: [`Handles`](helve_client::Handles),
//! [`Keys`](helve_client::Keys), transactions. Ids, keys, owners, times and sizes are still seen. Processes that share records need the same
//! keys; the cluster needs none.

mod calls;
#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use helve_client::{Backend, Client, Error, ErrorKind, Promises, WatchParts};
use helve_proto::v1::{
    ListKeysReply, ListKeysRequest, ListReply, ListRequest, RecordInfo, StatusReply, WatchRequest,
    exchange_answer::Answer, exchange_call::Call,
};
use helve_seal::{KEY_ID_BYTES, KeyId, Keyring, Place, SEAL_BYTES};

use crate::state_codec::{OperatorKey, primitives::random};

const PURPOSE: &str = "helve end to end 1";
/// What a sealed value begins with: the form, and how it is bound.
const NAMED: u8 = 1;
const MINTED: u8 = 2;
/// Bytes that it has more than the plain one.
const ADDED_BYTES: u64 = (1 + KEY_ID_BYTES + SEAL_BYTES) as u64;

/// The keys of values that are sealed end to end: the newest seals, all open. Cloning is cheap.
///
/// To rotate, restart all processes with `[old, and_newest(new)]` made the other way round first,
/// so that all open what the first of them seals: `EndToEnd::new(new)?.and_newest(old)?`, then
/// `EndToEnd::new(old)?.and_newest(new)?`. What is not stored again stays under the old key.
#[derive(Clone)]
pub struct EndToEnd {
    secrets: Vec<OperatorKey>,
    ring: Keyring,
}

impl EndToEnd {
    /// Seals and opens under this key.
    ///
    /// # Errors
    /// Never for one key.
    pub fn new(key: &OperatorKey) -> Result<Self, Error> {
        Self::of(vec![key.clone()])
    }

    /// Seals under this key from now on, and still opens under those before.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if the key is there already.
    pub fn and_newest(&self, key: &OperatorKey) -> Result<Self, Error> {
        Self::of(self.secrets.iter().chain([key]).cloned().collect())
    }

    fn of(secrets: Vec<OperatorKey>) -> Result<Self, Error> {
        let ring = Keyring::new(secrets.iter().map(OperatorKey::secret), PURPOSE);
        let ring = ring.map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))?;
        Ok(Self { secrets, ring })
    }

    /// Seals a value for a record. A minted handle has no id yet: its value is bound to store and
    /// owner alone, so that a person who controls the cluster could swap the values of two handles
    /// that one owner minted there, until either is written again.
    fn seal(&self, bound: &Bound<'_>, value: &mut Bytes) -> Result<(), Error> {
        let key = self.ring.newest().expect("a ring begins with a key");
        let sealed = bound.at(|place| Ok(key.seal(&random()?, place, value)))?;
        let form = bound.name.map_or(MINTED, |_| NAMED);
        *value = [&[form], &key.id().bytes()[..], &sealed].concat().into();
        Ok(())
    }

    /// Opens the value of a record.
    fn open(
        &self,
        store: Option<&str>,
        info: &mut RecordInfo,
        value: &mut Bytes,
    ) -> Result<(), Error> {
        let opened = self.opened(store, info, value);
        *value = opened.ok_or_else(|| {
            let message = format!(
                "the value of `{}` does not open: another key sealed it, no key did, or it was changed or moved; give that key, or put the value back",
                info.name
            );
            Error::new(ErrorKind::Sealed, message)
        })?;
        Ok(())
    }

    fn opened(&self, store: Option<&str>, info: &RecordInfo, value: &Bytes) -> Option<Bytes> {
        let (form, rest) = value.split_first()?;
        let (id, sealed) = rest.split_at_checked(KEY_ID_BYTES)?;
        let key = self.ring.find(KeyId::from_bytes(id)?)?;
        let name = match *form {
            NAMED => Some(info.name.as_str()),
            MINTED => None,
            _ => return None,
        };
        let bound = Bound {
            store,
            owner: &info.owner,
            name,
        };
        let mut plain = bound.at(|place| key.open(place, sealed))?;
        Some(std::mem::take(&mut *plain).into())
    }
}

impl fmt::Debug for EndToEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndToEnd")
            .field("keys", &self.ring.ids())
            .finish_non_exhaustive()
    }
}

/// What a value is bound to.
struct Bound<'a> {
    /// `None`: it is a key's.
    store: Option<&'a str>,
    owner: &'a str,
    /// `None`: of a handle that is only to be minted.
    name: Option<&'a str>,
}

impl Bound<'_> {
    fn at<R>(&self, act: impl FnOnce(&Place<'_>) -> R) -> R {
        match (self.store, self.name) {
            (Some(store), Some(id)) => act(&Place {
                kind: "handle",
                parts: &[store, self.owner, id],
            }),
            (Some(store), None) => act(&Place {
                kind: "minted handle",
                parts: &[store, self.owner],
            }),
            (None, name) => act(&Place {
                kind: "key",
                parts: &[self.owner, name.unwrap_or_default()],
            }),
        }
    }
}

/// Clients whose values are sealed end to end.
pub trait SealClient {
    /// The same client, but values are sealed under these keys before they leave it, and opened when they come back. A value that
    /// was not sealed so, or was changed or moved, is [`Sealed`](ErrorKind::Sealed): use a client without keys for those.
    #[must_use]
    fn sealed(&self, keys: &EndToEnd) -> Client;
}

impl SealClient for Client {
    fn sealed(&self, keys: &EndToEnd) -> Client {
        let deadline = self.deadline();
        let inner = self.backend();
        let keys = keys.clone();
        Self::new(Arc::new(SealedBackend { inner, keys })).with_deadline(deadline)
    }
}

/// A host whose values are sealed on the way in, and opened on the way out.
#[derive(Debug)]
struct SealedBackend {
    inner: Arc<dyn Backend>,
    keys: EndToEnd,
}

#[async_trait]
impl Backend for SealedBackend {
    async fn call(&self, mut call: Call, deadline: Duration) -> Result<Answer, Error> {
        let stores = calls::seal(&self.keys, &mut call)?;
        let mut answer = self.inner.call(call, deadline).await?;
        calls::open(&self.keys, &mut answer, &stores)?;
        Ok(answer)
    }

    async fn list_handles(
        &self,
        request: ListRequest,
        deadline: Duration,
    ) -> Result<Vec<ListReply>, Error> {
        let (store, with_values) = (request.store.clone(), request.with_values);
        let mut parts = self.inner.list_handles(request, deadline).await?;
        for handle in parts.iter_mut().flat_map(|part| &mut part.handles) {
            let value = with_values.then_some(&mut handle.value);
            calls::record(&self.keys, Some(&store), handle.info.as_mut(), value)?;
        }
        Ok(parts)
    }

    async fn list_keys(
        &self,
        request: ListKeysRequest,
        deadline: Duration,
    ) -> Result<Vec<ListKeysReply>, Error> {
        let with_values = request.with_values;
        let mut parts = self.inner.list_keys(request, deadline).await?;
        for record in parts.iter_mut().flat_map(|part| &mut part.records) {
            let value = with_values.then_some(&mut record.value);
            calls::record(&self.keys, None, record.info.as_mut(), value)?;
        }
        Ok(parts)
    }

    async fn watch(&self, request: WatchRequest, deadline: Duration) -> Result<WatchParts, Error> {
        let parts = self.inner.watch(request, deadline).await?;
        let keys = self.keys.clone();
        let unsealed = parts.map(move |part| {
            let mut part = part?;
            for change in &mut part.changes {
                let store = Some(&*change.store).filter(|store| !store.is_empty());
                calls::record(&keys, store, change.info.as_mut(), None)?;
            }
            Ok(part)
        });
        Ok(unsealed.boxed())
    }

    fn deadline(&self) -> Duration {
        self.inner.deadline()
    }

    fn promises(&self) -> Promises {
        self.inner.promises()
    }

    async fn survey(&self, patience: Duration) -> Vec<Option<StatusReply>> {
        self.inner.survey(patience).await
    }

    fn close(&self) {
        self.inner.close();
    }
}
