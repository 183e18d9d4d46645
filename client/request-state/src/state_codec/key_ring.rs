//! A key ring in the cluster, as its operator sees it.

use std::fmt;

use helve_client::{
    Client, Error, ErrorKind, HandleOptions, HandleStore, Handles, PutOutcome, Ttl,
    extend::{decode, present},
};
use helve_proto::v1::{GetRequest, HandleStatus, Lifetime, RenewRequest, Unit, lifetime::Absolute};
use tokio::time::{Instant, timeout_at};

use super::{
    key::OperatorKey,
    keys::{KeyId, SealingKey},
    primitives::Key,
    ring::{Patience, Ring, RingKey, wrapping},
};

/// The store in which rings lie. No server keeps handles of end users in it.
const STORE: &str = "helve-key-rings";

/// A named ring of keys, kept in the cluster and sealed under the operator's key: a reader of the
/// cluster, its disks or its backups learns no key. Servers take
/// [`ClusterKeys`](super::ClusterKeys) of it.
///
/// To rotate: [`add`](Self::add) a key, [`activate`](Self::activate) it once the replicas hold it,
/// and [`remove`](Self::remove) the old one once nothing that it sealed can be redeemed. Two
/// operators at once do not undo each other: each change is made to the ring that it was decided
/// on, or decided again.
#[derive(Clone)]
pub struct KeyRing {
    client: Client,
    handles: Handles<String>,
    name: String,
    wrap: Key,
}

impl KeyRing {
    /// The ring of this name: 1 to 64 bytes of `[a-z0-9_-]`. It need not exist.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if it is no such name.
    pub fn new(client: &Client, name: &str, operator: &OperatorKey) -> Result<Self, Error> {
        let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
        if name.is_empty() || name.len() > 64 || !name.bytes().all(allowed) {
            let message =
                format!("`{name}` is no name of a key ring: 1 to 64 of a-z, 0-9, _ and -");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(Self {
            client: client.clone(),
            handles: client.handles(HandleOptions::shared(STORE)),
            name: name.to_owned(),
            wrap: wrapping(operator),
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The keys of the ring, in the order in which they were added; none if there is no such ring.
    ///
    /// # Errors
    /// Those of every read; [`Invalid`](ErrorKind::Invalid) if the ring does not open under the operator's key.
    pub async fn list(&self) -> Result<Vec<RingKey>, Error> {
        let (_, ring) = self.read().await?;
        Ok(ring.keys()?.into_iter().map(|(known, _)| known).collect())
    }

    /// Makes a key and adds it: to an empty ring as the active one, else to be picked up.
    ///
    /// # Errors
    /// Those of every write; [`Invalid`](ErrorKind::Invalid) if the ring is full or does not open;
    /// [`Entropy`](ErrorKind::Entropy) if there is no randomness.
    pub async fn add(&self) -> Result<RingKey, Error> {
        let key = OperatorKey::generate()?;
        let id = SealingKey::new(&key).id();
        let known = self.change(|ring, now_ms| ring.add(&key, now_ms)).await?;
        present(known.into_iter().find(|known| known.id == id), "new key")
    }

    /// Lets a key seal, and the one before it retire. A key that replicas may not hold yet is refused, unless forced.
    ///
    /// # Errors
    /// Those of every write; [`Invalid`](ErrorKind::Invalid) if there is no such key, or it is too early.
    pub async fn activate(&self, id: KeyId, patience: Patience) -> Result<Vec<RingKey>, Error> {
        self.change(|ring, now_ms| ring.activate(id, now_ms, patience))
            .await
    }

    /// Forgets a key that does not seal. One whose states may still be redeemable is refused, unless forced.
    ///
    /// # Errors
    /// Those of every write; [`Invalid`](ErrorKind::Invalid) if there is no such key, it is active, or it is too early.
    pub async fn remove(&self, id: KeyId, patience: Patience) -> Result<Vec<RingKey>, Error> {
        self.change(|ring, now_ms| ring.remove(id, now_ms, patience))
            .await
    }

    /// Changes the stored ring, and tries again if another operator was faster.
    async fn change(
        &self,
        change: impl Fn(&mut Ring, u64) -> Result<(), Error>,
    ) -> Result<Vec<RingKey>, Error> {
        let deadline = Instant::now() + self.client.deadline();
        loop {
            let now_ms = self.clock_ms().await?;
            let (revision, mut ring) = self.read().await?;
            let before = ring.generation;
            change(&mut ring, now_ms)?;
            if ring.generation == before {
                return Ok(ring.keys()?.into_iter().map(|(known, _)| known).collect());
            }
            let sealed = ring.seal(&self.wrap, &self.name)?;
            let put = self
                .handles
                .put_if(&self.name, &sealed, Ttl::Never, revision);
            let Ok(outcome) = timeout_at(deadline, put).await else {
                let message = "the deadline ended while the ring was written: list it";
                return Err(Error::new(ErrorKind::Ambiguous, message));
            };
            match outcome? {
                PutOutcome::Created(_) | PutOutcome::Replaced(_) => {
                    return Ok(ring.keys()?.into_iter().map(|(known, _)| known).collect());
                }
                PutOutcome::Conflict { .. } => {}
                PutOutcome::Expired | PutOutcome::Taken => {
                    return Err(Error::internal(
                        "a key ring has no lifetime, and is not taken",
                    ));
                }
            }
        }
    }

    /// The cluster's clock, now: that of a view may be as old as the last write, so this writes, a renewal that renews nothing.
    async fn clock_ms(&self) -> Result<u64, Error> {
        let request = RenewRequest {
            identity: None,
            store: STORE.to_owned(),
            owner: String::new(),
            id: self.name.clone(),
            lifetime: Some(Lifetime {
                absolute: Some(Absolute::Keep(Unit {})),
                idle_ttl_ms: None,
            }),
        };
        let reply = self.client.call(request).await?;
        Ok(present(reply.header, "header")?.clock_ms)
    }

    /// The ring and its revision; an empty one and 0 if there is none.
    pub(super) async fn read(&self) -> Result<(u64, Ring), Error> {
        let request = GetRequest {
            store: STORE.to_owned(),
            owner: String::new(),
            id: self.name.clone(),
        };
        let reply = self.client.call(request).await?;
        if reply.status != i32::from(HandleStatus::Live) {
            return Ok((0, Ring::empty()));
        }
        let sealed: String = decode(&reply.value)?;
        let ring = Ring::open(&sealed, &self.wrap, &self.name)?;
        Ok((present(reply.info, "info")?.revision, ring))
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
