//! The tasks that subscribers of this replica wait for. Each is looked at once at a time, however many wait for it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{Stream, stream};
use helve_client::Record;
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};

use super::{record::TaskRecord, store::TaskStore};

/// Owner and id.
type Key = (String, String);

/// What the last look at a task found.
#[derive(Debug, Clone)]
enum Seen {
    Nothing,
    Task(Arc<Record<TaskRecord>>),
    Gone,
}

impl Seen {
    fn revision(&self) -> Option<u64> {
        match self {
            Self::Task(task) => Some(task.revision()),
            Self::Nothing | Self::Gone => None,
        }
    }

    /// Whether nothing comes after it.
    fn is_last(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Task(task) => !task.value.is_open(),
            Self::Gone => true,
        }
    }
}

/// The looks of one replica. Clones are the same.
#[derive(Clone)]
pub(super) struct Watches(Arc<Inner>);

struct Inner {
    store: TaskStore,
    look: Duration,
    watched: Mutex<HashMap<Key, watch::Sender<Seen>>>,
    #[cfg(test)]
    looks: std::sync::atomic::AtomicUsize,
}

impl Watches {
    pub(super) fn new(store: TaskStore, look: Duration) -> Self {
        Self(Arc::new(Inner {
            store,
            look,
            watched: Mutex::default(),
            #[cfg(test)]
            looks: 0.into(),
        }))
    }

    fn watched(&self) -> MutexGuard<'_, HashMap<Key, watch::Sender<Seen>>> {
        let watched = &self.0.watched;
        watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The states of a task, the present one first, until it has ended or is gone. States between two looks are left out. Needs a
    /// tokio runtime around it.
    pub(super) fn states(
        &self,
        owner: &str,
        id: &str,
    ) -> impl Stream<Item = Arc<Record<TaskRecord>>> + Send + use<> {
        let mut seen = self.receiver((owner.to_owned(), id.to_owned()));
        seen.mark_changed();
        stream::unfold(seen, async |mut seen| {
            loop {
                seen.changed().await.ok()?;
                let now = seen.borrow_and_update().clone();
                match now {
                    Seen::Nothing => {}
                    Seen::Task(task) => return Some((task, seen)),
                    Seen::Gone => return None,
                }
            }
        })
    }

    fn receiver(&self, key: Key) -> watch::Receiver<Seen> {
        let mut watched = self.watched();
        if let Some(sender) = watched.get(&key) {
            return sender.subscribe();
        }
        let (sender, receiver) = watch::channel(Seen::Nothing);
        watched.insert(key.clone(), sender);
        drop(watched);
        let watches = self.clone();
        tokio::spawn(async move { watches.follow(&key).await });
        receiver
    }

    /// Looks until the task has no subscriber, or cannot change any more.
    async fn follow(&self, key: &Key) {
        let mut looks = interval(self.0.look.max(Duration::from_millis(1)));
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            if self.is_unwanted(key) {
                return;
            }
            let Some(now) = self.look(key).await else {
                continue;
            };
            let is_last = now.is_last();
            let mut watched = self.watched();
            if let Some(sender) = watched.get(key) {
                sender.send_if_modified(|seen| {
                    let is_news = is_last || seen.revision() != now.revision();
                    if is_news {
                        *seen = now;
                    }
                    is_news
                });
            }
            if is_last {
                watched.remove(key);
                return;
            }
        }
    }

    /// Forgets a task that no subscriber waits for.
    fn is_unwanted(&self, key: &Key) -> bool {
        let mut watched = self.watched();
        let waiting = watched.get(key).map_or(0, watch::Sender::receiver_count);
        if waiting == 0 {
            watched.remove(key);
        }
        waiting == 0
    }

    /// `None`: the cluster cannot answer now.
    async fn look(&self, (owner, id): &Key) -> Option<Seen> {
        #[cfg(test)]
        self.0
            .looks
            .fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        match self.0.store.get(owner, id).await {
            Ok(Some(task)) => Some(Seen::Task(Arc::new(task))),
            Ok(None) => Some(Seen::Gone),
            Err(error) => {
                tracing::debug!(%error, "a subscriber's task cannot be read now");
                None
            }
        }
    }
}

#[cfg(test)]
impl Watches {
    /// Looks that were made.
    pub(super) fn looks(&self) -> usize {
        self.0.looks.load(std::sync::atomic::Ordering::SeqCst)
    }

    /// Tasks that are looked at.
    pub(super) fn count(&self) -> usize {
        self.watched().len()
    }
}

#[cfg(test)]
mod tests;
