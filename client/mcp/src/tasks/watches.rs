//! The tasks that subscribers of this replica wait for. Each is looked at once at a time, however many wait for it: when the cluster
//! tells that it changed, or at intervals where no watch tells.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{Stream, StreamExt as _, stream};
use helve_client::{Changes, Client, ErrorKind, Record, Watch};
use tokio::{
    sync::{Notify, watch},
    time::{interval, timeout},
};

use super::{record::TaskRecord, store::TaskStore};

/// How often a task is looked at though a watch tells of its changes: its expiry is told only when its row is removed.
const LOOK_RARELY: Duration = Duration::from_secs(30);

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

/// A task that subscribers wait for.
struct Watched {
    seen: watch::Sender<Seen>,
    /// It may have changed.
    news: Notify,
}

/// The tasks of one replica that are waited for, and whether a feed runs for them.
#[derive(Default)]
struct Wanted {
    tasks: HashMap<Key, Arc<Watched>>,
    is_fed: bool,
}

/// The looks of one replica. Clones are the same.
#[derive(Clone)]
pub(super) struct Watches(Arc<Inner>);

struct Inner {
    client: Client,
    /// Of the store that the tasks are in.
    name: String,
    store: TaskStore,
    look: Duration,
    wanted: Mutex<Wanted>,
    /// A watch tells of each change of a task, now.
    is_told: AtomicBool,
    #[cfg(test)]
    looks: std::sync::atomic::AtomicUsize,
}

impl Watches {
    /// Of the tasks in the store `name`.
    pub(super) fn new(client: &Client, name: &str, look: Duration) -> Self {
        Self(Arc::new(Inner {
            client: client.clone(),
            name: name.to_owned(),
            store: TaskStore::new(client, name),
            look: look.max(Duration::from_millis(1)),
            wanted: Mutex::default(),
            is_told: AtomicBool::new(false),
            #[cfg(test)]
            looks: 0.into(),
        }))
    }

    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        let wanted = &self.0.wanted;
        wanted.lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut wanted = self.wanted();
        if let Some(task) = wanted.tasks.get(&key) {
            return task.seen.subscribe();
        }
        let (seen, receiver) = watch::channel(Seen::Nothing);
        let news = Notify::new();
        let task = Arc::new(Watched { seen, news });
        wanted.tasks.insert(key.clone(), Arc::clone(&task));
        let feeds = !std::mem::replace(&mut wanted.is_fed, true);
        drop(wanted);
        if feeds {
            let watches = self.clone();
            tokio::spawn(async move { watches.feed().await });
        }
        let watches = self.clone();
        tokio::spawn(async move { watches.follow(&key, &task).await });
        receiver
    }

    /// Looks until the task has no subscriber, or cannot change any more.
    async fn follow(&self, key: &Key, task: &Watched) {
        loop {
            if let Some(now) = self.look(key).await {
                let is_last = now.is_last();
                task.seen.send_if_modified(|seen| {
                    let is_news = is_last || seen.revision() != now.revision();
                    if is_news {
                        *seen = now;
                    }
                    is_news
                });
                if is_last {
                    self.wanted().tasks.remove(key);
                    return;
                }
            }
            let until = match self.0.is_told.load(Ordering::SeqCst) {
                true => self.0.look.max(LOOK_RARELY),
                false => self.0.look,
            };
            let news = async {
                tokio::select! {
                    () = task.news.notified() => {}
                    () = task.seen.closed() => {}
                }
            };
            // Without news it looks all the same.
            let _timely = timeout(until, news).await;
            if self.is_unwanted(key, task) {
                return;
            }
        }
    }

    /// Forgets a task that no subscriber waits for.
    fn is_unwanted(&self, key: &Key, task: &Watched) -> bool {
        // Subscribers are added within this lock.
        let mut wanted = self.wanted();
        let is_unwanted = task.seen.receiver_count() == 0;
        if is_unwanted {
            wanted.tasks.remove(key);
        }
        is_unwanted
    }

    /// Passes on which tasks change, as long as one is waited for. Where hosts tell no changes, the looks at intervals have to do.
    async fn feed(&self) {
        let mut tries = interval(self.0.look);
        while self.is_fed() {
            tries.tick().await;
            let tasks = Watch::store(&self.0.name);
            match self.0.client.watch(tasks).await {
                Ok(changes) => self.pass_on(changes).await,
                Err(error) if error.kind() == ErrorKind::Unsupported => return,
                Err(error) => tracing::debug!(%error, "changes of tasks cannot be watched now"),
            }
            self.0.is_told.store(false, Ordering::SeqCst);
            self.all_may_have_changed();
        }
    }

    /// Whether a task is waited for. If none is, the feed has ended.
    fn is_fed(&self) -> bool {
        let mut wanted = self.wanted();
        wanted.is_fed = !wanted.tasks.is_empty();
        wanted.is_fed
    }

    async fn pass_on(&self, mut changes: Changes) {
        // What changed before the watch began was told to no one.
        self.0.is_told.store(true, Ordering::SeqCst);
        self.all_may_have_changed();
        let mut checks = interval(self.0.look);
        loop {
            let next = tokio::select! {
                next = changes.next() => next,
                _tick = checks.tick() => {
                    if self.wanted().tasks.is_empty() {
                        return;
                    }
                    continue;
                }
            };
            let Some(Ok(changed)) = next else {
                return;
            };
            let wanted = self.wanted();
            for change in changed.changes {
                if let Some(task) = wanted.tasks.get(&(change.info.owner, change.info.name)) {
                    task.news.notify_one();
                }
            }
        }
    }

    fn all_may_have_changed(&self) {
        for task in self.wanted().tasks.values() {
            task.news.notify_one();
        }
    }

    /// `None`: the cluster cannot answer now.
    async fn look(&self, (owner, id): &Key) -> Option<Seen> {
        #[cfg(test)]
        self.0.looks.fetch_add(1, Ordering::SeqCst);
        match self.0.store.get(owner, id).await {
            Ok(Some(mut task)) => {
                task.value.shed();
                Some(Seen::Task(Arc::new(task)))
            }
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
        self.0.looks.load(Ordering::SeqCst)
    }

    /// Tasks that are looked at.
    pub(super) fn count(&self) -> usize {
        self.wanted().tasks.len()
    }
}

#[cfg(test)]
mod tests;
