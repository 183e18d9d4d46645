//! Runs of tasks on this replica, and the taking over of those whose replica died.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::FutureExt as _;
use helve_client::Record;
use rmcp::{ErrorData, model::CallToolResult, task_manager::TaskExit};
use tokio::{
    sync::{Mutex, Notify, OwnedSemaphorePermit, Semaphore, watch},
    time::{Instant, MissedTickBehavior, interval},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Operation, Recovery, Tasks,
    context::TaskContext,
    record::{Ended, TaskRecord},
    store::{Held, Lease, TaskStore, Written},
};

use crate::metrics::{Metrics, TaskEvent};

/// A lease is renewed, and the leases of others are looked at, this many times within its time.
const BEATS_PER_LEASE: u32 = 4;

/// A place among the tasks that this replica runs at once.
pub(super) type Place = OwnedSemaphorePermit;

#[derive(Clone)]
pub(super) struct Runs(Arc<Inner>);

struct Inner {
    store: TaskStore,
    operations: BTreeMap<String, Operation>,
    lease: Duration,
    look: Duration,
    places: Arc<Semaphore>,
    /// Wakes each run of this replica when its task was changed here.
    running: StdMutex<HashMap<String, Arc<Notify>>>,
    tracker: TaskTracker,
    shutdown: CancellationToken,
    metrics: Metrics,
    #[cfg(test)]
    is_dead: std::sync::atomic::AtomicBool,
}

/// Why a run is over.
enum Over {
    Ended(Result<CallToolResult, TaskExit>),
    Lost,
    Shutdown,
}

impl Runs {
    pub(super) fn new(
        store: TaskStore,
        operations: BTreeMap<String, Operation>,
        lease: Duration,
        look: Duration,
        (running_max, metrics): (usize, Metrics),
        shutdown: CancellationToken,
    ) -> Self {
        Self(Arc::new(Inner {
            store,
            operations,
            lease,
            look,
            places: Arc::new(Semaphore::new(running_max)),
            running: StdMutex::default(),
            tracker: TaskTracker::new(),
            shutdown,
            metrics,
            #[cfg(test)]
            is_dead: false.into(),
        }))
    }

    pub(super) fn knows(&self, operation: &str) -> bool {
        self.0.operations.contains_key(operation)
    }

    pub(super) fn reserve(&self) -> Option<Place> {
        Arc::clone(&self.0.places).try_acquire_owned().ok()
    }

    fn running(&self) -> MutexGuard<'_, HashMap<String, Arc<Notify>>> {
        self.0
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a run of this replica see at once what was changed through it.
    pub(super) fn wake(&self, task_id: &str) {
        if let Some(wake) = self.running().get(task_id) {
            wake.notify_one();
        }
    }

    /// Begins a run whose lease this replica holds.
    pub(super) fn begin(&self, held: Held, place: Place) {
        let Some(operation) = self.0.operations.get(&held.record.operation).cloned() else {
            return;
        };
        let wake = Arc::new(Notify::new());
        let id = held.id().to_owned();
        self.running().insert(id.clone(), Arc::clone(&wake));
        let runs = self.clone();
        let counted = self.0.metrics.task();
        self.0.tracker.spawn(async move {
            let _counted = counted;
            let event = runs.run(&operation, held, &wake).await;
            runs.0.metrics.task_event(event);
            runs.running().remove(&id);
            drop(place);
        });
    }

    async fn run(&self, operation: &Operation, held: Held, wake: &Notify) -> TaskEvent {
        let store = &self.0.store;
        let (sender, seen) = watch::channel(held.record.clone());
        let run = held.lease.run;
        let is_rerun = run > 1;
        let shared = Arc::new(Mutex::new(held));
        let context = {
            let held = shared.lock().await;
            TaskContext::new(store.clone(), &held, Arc::clone(&shared), seen)
        };
        let over = if is_rerun && operation.recovery == Recovery::Fail {
            let message =
                "the replica that ran the task is gone, and the operation is not run twice";
            Over::Ended(Err(TaskExit::Error(ErrorData::internal_error(
                message, None,
            ))))
        } else {
            tokio::select! {
                () = self.0.shutdown.cancelled() => Over::Shutdown,
                () = self.follow(&shared, &sender, wake) => Over::Lost,
                outcome = AssertUnwindSafe((operation.run)(context)).catch_unwind() =>
                    Over::Ended(outcome.unwrap_or_else(|_| Err(panicked()))),
            }
        };
        let mut held = shared.lock().await;
        match over {
            Over::Ended(outcome) => {
                let is_ended = tokio::select! {
                    () = self.0.shutdown.cancelled() => false,
                    () = end(store, &mut held, outcome) => true,
                };
                if is_ended {
                    return TaskEvent::Ended;
                }
                self.release(&held).await;
            }
            Over::Lost => tracing::info!(task = held.id(), run, "a task's run was lost"),
            Over::Shutdown => self.release(&held).await,
        }
        TaskEvent::GivenUp
    }

    async fn release(&self, held: &Held) {
        #[cfg(test)]
        if self.0.is_dead.load(std::sync::atomic::Ordering::SeqCst) {
            return;
        }
        if let Err(error) = self.0.store.release(held).await {
            tracing::info!(task = held.id(), %error, "a task's lease ends by itself");
        }
    }

    /// Keeps the lease, and shows the run what others changed. Returns once the run is lost.
    async fn follow(
        &self,
        shared: &Mutex<Held>,
        sender: &watch::Sender<TaskRecord>,
        wake: &Notify,
    ) {
        let mut beats = patient(self.0.lease / BEATS_PER_LEASE);
        let mut looks = patient(self.0.look);
        loop {
            let is_beat = tokio::select! {
                _ = beats.tick() => true,
                _ = looks.tick() => false,
                () = wake.notified() => false,
            };
            let mut held = shared.lock().await;
            let is_current = if is_beat {
                self.0.store.beat(&mut held).await
            } else {
                self.see(&mut held).await
            };
            match is_current {
                Ok(true) => {
                    let current = &held.record;
                    sender.send_if_modified(|seen| {
                        let is_news = seen != current;
                        if is_news {
                            seen.clone_from(current);
                        }
                        is_news
                    });
                }
                Ok(false) => return,
                Err(error) => {
                    tracing::debug!(task = held.id(), %error, "a task cannot be looked at now");
                }
            }
        }
    }

    async fn see(&self, held: &mut Held) -> Result<bool, helve_client::Error> {
        let task = self.0.store.get(&held.lease.owner, held.id()).await?;
        let Some(task) = task.filter(|task| task.value.is_open()) else {
            return Ok(false);
        };
        held.adopt(task);
        Ok(true)
    }

    /// Looks for leases that no replica renews, until shutdown.
    pub(super) fn watch_leases(&self) {
        let runs = self.clone();
        self.0.tracker.spawn(async move {
            let shutdown = runs.0.shutdown.clone();
            shutdown.run_until_cancelled(runs.take_over()).await;
        });
    }

    async fn take_over(&self) {
        let mut looks = patient(self.0.lease / BEATS_PER_LEASE);
        let mut watched = HashMap::new();
        let mut unreadable = HashSet::new();
        loop {
            looks.tick().await;
            match self.0.store.leases(&mut unreadable).await {
                Ok(leases) => {
                    watched = self.still_unchanged(&watched, &leases);
                    for lease in &leases {
                        self.take_over_if_lost(lease, &watched).await;
                    }
                }
                Err(error) => tracing::debug!(%error, "the leases of tasks cannot be read now"),
            }
        }
    }

    /// Since when this replica has seen each lease at its revision.
    fn still_unchanged(
        &self,
        before: &HashMap<String, (u64, Instant)>,
        leases: &[Record<Lease>],
    ) -> HashMap<String, (u64, Instant)> {
        let running = self.running();
        let now = Instant::now();
        leases
            .iter()
            .filter(|lease| !running.contains_key(lease.name()))
            .map(|lease| {
                let known = before.get(lease.name());
                let since = known
                    .filter(|(revision, _)| *revision == lease.revision())
                    .map_or(now, |(_, since)| *since);
                (lease.name().to_owned(), (lease.revision(), since))
            })
            .collect()
    }

    async fn take_over_if_lost(
        &self,
        lease: &Record<Lease>,
        watched: &HashMap<String, (u64, Instant)>,
    ) {
        let Some((_, since)) = watched.get(lease.name()) else {
            return;
        };
        if !lease.value.is_released && since.elapsed() < self.0.lease {
            return;
        }
        let Some(place) = self.reserve() else {
            return;
        };
        // An operation that this replica does not know belongs to another version of the server.
        let claimed = self.0.store.claim(lease, |operation| self.knows(operation));
        match claimed.await {
            Ok(Some(held)) => {
                tracing::info!(
                    task = held.id(),
                    run = held.lease.run,
                    "a task is taken over"
                );
                self.0.metrics.task_event(TaskEvent::TakenOver);
                self.begin(held, place);
            }
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "a task cannot be taken over now"),
        }
    }
}

#[cfg(test)]
impl Runs {
    /// Ends every run where it is, as the death of the process would: no lease is given up.
    pub(super) async fn abandon(&self) {
        self.0
            .is_dead
            .store(true, std::sync::atomic::Ordering::SeqCst);
        self.0.shutdown.cancel();
        self.0.tracker.close();
        self.0.tracker.wait().await;
    }

    pub(super) fn running_count(&self) -> usize {
        self.running().len()
    }
}

impl Tasks {
    /// Waits until this replica's runs are over, after the shutdown that [`TasksBuilder::start`](super::TasksBuilder::start)
    /// was given. A process that does not wait leaves its leases to lapse.
    pub async fn stopped(&self) {
        self.runs.0.tracker.close();
        self.runs.0.tracker.wait().await;
    }
}

impl fmt::Debug for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runs")
            .field("running", &self.running().len())
            .finish_non_exhaustive()
    }
}

async fn end(store: &TaskStore, held: &mut Held, outcome: Result<CallToolResult, TaskExit>) {
    let ended = Ended::from(outcome);
    let written = store.end(held, |record| record.end(ended.clone())).await;
    if written != Written::TooLarge {
        return;
    }
    let written = store.end(held, |record| {
        record.shrink();
        record.end(Ended::failed(
            "the task's result is over the bound of bytes",
        ));
    });
    if written.await == Written::TooLarge {
        tracing::error!(
            task = held.id(),
            "a task that was emptied is still too large"
        );
    }
}

fn panicked() -> TaskExit {
    TaskExit::Error(ErrorData::internal_error("the operation panicked", None))
}

fn patient(period: Duration) -> tokio::time::Interval {
    let mut interval = interval(period.max(Duration::from_millis(1)));
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
