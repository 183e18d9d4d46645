//! The keys of a ring in the cluster, as a replica holds them.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, PoisonError, RwLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use helve_client::{Error, ErrorKind};
use tokio::{
    sync::Mutex,
    task::AbortHandle,
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};

use super::{
    key_ring::KeyRing,
    keys::{KeyId, SealingKey, StateKeys},
    ring::{KeyPhase, Ring},
};

/// How often a replica reads the ring. A sixth of [`PICK_UP_MAX`](super::PICK_UP_MAX), so that a slow read or two do not matter.
const REFRESH: Duration = Duration::from_secs(5);
/// A state under an unknown key makes a replica read the ring, but not more often than this: anybody can make one up. All that come
/// meanwhile wait for one read.
const REFRESH_AFTER: Duration = Duration::from_secs(1);
/// A replica that could not read the ring for this long holds its keys no more: one of them may have been removed because it is
/// known to others.
const STALE_AFTER: Duration = Duration::from_secs(5 * 60);

/// The keys of a [`KeyRing`], read from the cluster at the start, every five seconds, and whenever a state names a key that is not
/// among them. Replicas that share a ring open each other's states through every phase of a rotation. If the cluster cannot be
/// reached for five minutes, nothing is sealed or opened any more until it can.
pub struct ClusterKeys {
    ring: KeyRing,
    held: RwLock<Held>,
    reads_begun: AtomicU64,
    /// One read at a time.
    last_read: Mutex<LastRead>,
    refresher: AbortHandle,
}

struct LastRead {
    /// Reads are numbered from 1.
    number: u64,
    ended: Instant,
    failed: bool,
}

#[derive(Clone)]
struct Held {
    generation: u64,
    active: Arc<SealingKey>,
    keys: Arc<BTreeMap<KeyId, Arc<SealingKey>>>,
    read_at: Instant,
}

impl Held {
    fn of(ring: &Ring, read_at: Instant) -> Result<Self, Error> {
        let mut active = None;
        let mut keys = BTreeMap::new();
        for (known, key) in ring.keys()? {
            let key = Arc::new(key);
            if known.phase == KeyPhase::Active {
                active = Some(Arc::clone(&key));
            }
            keys.insert(known.id, key);
        }
        let active = active.ok_or_else(|| {
            let message = "the key ring has no key: make one with `helve key add`";
            Error::new(ErrorKind::Invalid, message)
        })?;
        Ok(Self {
            generation: ring.generation,
            active,
            keys: Arc::new(keys),
            read_at,
        })
    }
}

impl ClusterKeys {
    /// Reads the ring, and goes on reading it until the last clone of the answer is dropped. Needs a tokio runtime.
    ///
    /// # Errors
    /// Those of every read; [`Invalid`](ErrorKind::Invalid) if the ring has no key yet, or does not open under the operator's key.
    pub async fn open(ring: KeyRing) -> Result<Arc<Self>, Error> {
        let began = Instant::now();
        let (_, first) = ring.read().await?;
        let held = Held::of(&first, began)?;
        Ok(Arc::new_cyclic(|keys: &Weak<Self>| Self {
            ring,
            held: RwLock::new(held),
            reads_begun: AtomicU64::new(1),
            last_read: Mutex::new(LastRead {
                number: 1,
                ended: Instant::now(),
                failed: false,
            }),
            refresher: tokio::spawn(refresh(Weak::clone(keys))).abort_handle(),
        }))
    }

    /// Reads the ring, `pause` after the last time; or takes the outcome of a read that began after this call did.
    async fn read(&self, pause: Duration) -> Result<(), Error> {
        let begun = self.reads_begun.load(Ordering::Acquire);
        let mut last = self.last_read.lock().await;
        if last.number <= begun {
            sleep_until(last.ended + pause).await;
            let number = 1 + self.reads_begun.fetch_add(1, Ordering::AcqRel);
            let outcome = self.replace_held().await;
            *last = LastRead {
                number,
                ended: Instant::now(),
                failed: outcome.is_err(),
            };
            return outcome;
        }
        if last.failed {
            let message = "the key ring could not be read";
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        Ok(())
    }

    async fn replace_held(&self) -> Result<(), Error> {
        let began = Instant::now();
        let (_, ring) = self.ring.read().await?;
        let read = Held::of(&ring, began)?;
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        if read.generation < held.generation {
            let message = format!(
                "key ring `{}` went back from generation {} to {}: somebody put an old one in its place",
                self.ring.name(),
                held.generation,
                read.generation,
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        *held = read;
        Ok(())
    }

    /// What is held, if it is not too old.
    fn held(&self) -> Result<Held, Error> {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        if held.read_at.elapsed() > STALE_AFTER {
            let message = "the key ring could not be read for too long";
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        Ok(held.clone())
    }
}

/// Ends with the keys.
async fn refresh(keys: Weak<ClusterKeys>) {
    let mut ticks = interval(REFRESH);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick is at once, and the ring has just been read.
    ticks.tick().await;
    let mut failed = false;
    loop {
        ticks.tick().await;
        let Some(keys) = keys.upgrade() else {
            return;
        };
        let read = keys.read(Duration::ZERO).await;
        match &read {
            Err(error) if !failed => {
                tracing::warn!(%error, ring = keys.ring.name(), "the key ring cannot be read: its last keys are held on to");
            }
            Ok(()) if failed => {
                tracing::info!(ring = keys.ring.name(), "the key ring is read again");
            }
            _ => {}
        }
        failed = read.is_err();
    }
}

#[async_trait]
impl StateKeys for ClusterKeys {
    async fn active(&self) -> Result<Arc<SealingKey>, Error> {
        if let Ok(held) = self.held() {
            return Ok(held.active);
        }
        self.read(REFRESH_AFTER).await?;
        Ok(self.held()?.active)
    }

    async fn find(&self, id: KeyId) -> Result<Option<Arc<SealingKey>>, Error> {
        let found = |held: Held| held.keys.get(&id).map(Arc::clone);
        if let Ok(held) = self.held()
            && let Some(key) = found(held)
        {
            return Ok(Some(key));
        }
        // Another replica may seal under a key that was added since.
        self.read(REFRESH_AFTER).await?;
        Ok(found(self.held()?))
    }
}

impl Drop for ClusterKeys {
    fn drop(&mut self) {
        self.refresher.abort();
    }
}

impl fmt::Debug for ClusterKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterKeys")
            .field("ring", &self.ring)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
