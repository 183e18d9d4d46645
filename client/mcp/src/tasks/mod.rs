//! The tasks extension (SEP-2663) on a Helve cluster: a task survives the replica that runs it and the cluster's leader.
//!
//! A server registers its operations by name and answers `tools/call` with [`Tasks::create`]. The task is
//! durable before that returns, so `tasks/get` finds it through any replica at once. Its state, the
//! questions it asked and the answers it got are one handle under its owner; another owner's task is
//! unknown.
//!
//! | state | where |
//! |---|---|
//! | task: call, status, questions, answers, result | handle of the store `NAME`, under the task's owner |
//! | lease: which run of the task is the current one | handle of the store `NAME-open`, while the task is open |
//!
//! # Takeover
//! The replica that runs a task renews its lease several times within [`TasksBuilder::lease`]. A lease that
//! another replica has watched for that long without a change is lost: that replica begins the next run.
//! Replicas compare no clocks. Every write of a run holds only if the lease is still that run's, in one
//! transaction, so a replica that was suspended and comes back cannot change the task any more.
//!
//! A next run calls the operation from its start, with the same arguments. Questions that were answered
//! before are answered at once, and [`TaskContext::checkpoint`] holds what the operation last saved. An
//! operation that must not run twice is registered with [`Recovery::Fail`]: its task then fails instead.
//!
//! # Lifetimes
//! A task lives for its `ttlMs`, counted by the cluster's clock from its creation. After that it is
//! unknown to `tasks/get`, and its run is stopped.

mod acknowledged;
mod context;
mod listen;
mod listens;
mod record;
mod runs;
mod store;
#[cfg(test)]
mod tests;
mod watches;

use std::{collections::BTreeMap, fmt, pin::Pin, sync::Arc, time::Duration};

use helve_client::{Client, Error};
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolResult, ClientCapabilities, CreateTaskResult, DetailedTask, InputResponses,
        JsonObject,
    },
    service::RequestContext,
    task_manager::{TaskExit, TaskOptions},
};
use tokio_util::sync::CancellationToken;

#[cfg(any(test, fuzzing))]
pub(crate) use self::listen::named_tasks;
pub use self::{
    context::TaskContext,
    listen::{TASK_IDS_MAX, task_filter},
    listens::{LISTENS_MAX, LISTENS_OF_PRINCIPAL_MAX},
};
use self::{
    listens::Listens,
    record::{INPUT_KEYS_MAX, TaskRecord},
    runs::Runs,
    store::{Change, TaskStore},
    watches::Watches,
};

use crate::metrics::{Limit, Metrics, TaskEvent};

/// Tasks that one replica runs at once, unless the builder says otherwise.
pub const RUNNING_MAX: usize = 256;
/// Tasks that one owner may have, finished ones that still live included, unless the builder says otherwise.
pub const PER_OWNER_MAX: u64 = 1_000;
/// How long a lease may stay unchanged until another replica takes the task over.
const LEASE: Duration = Duration::from_secs(5);
/// How often a run, and a subscriber's replica without a watch, looks at a task that others may have changed.
const LOOK: Duration = Duration::from_millis(250);

/// The future of one run of an operation.
pub type Running = Pin<Box<dyn Future<Output = Result<CallToolResult, TaskExit>> + Send>>;

/// What becomes of a task whose replica died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// Another replica calls the operation again. It may thus run more than once, and must tolerate that.
    Rerun,
    /// The task fails, with an error that says so.
    Fail,
}

#[derive(Clone)]
struct Operation {
    recovery: Recovery,
    run: Arc<dyn Fn(TaskContext) -> Running + Send + Sync>,
}

/// Registers operations and bounds, then starts [`Tasks`].
#[must_use = "tasks exist once they are started"]
pub struct TasksBuilder {
    client: Client,
    name: String,
    operations: BTreeMap<String, Operation>,
    lease: Duration,
    look: Duration,
    running_max: usize,
    per_owner_max: u64,
    listens: (usize, usize),
    metrics: Metrics,
}

impl TasksBuilder {
    /// Registers an operation. Every replica of a server registers the same ones.
    pub fn operation<F, R>(mut self, name: &str, recovery: Recovery, run: F) -> Self
    where
        F: Fn(TaskContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<CallToolResult, TaskExit>> + Send + 'static,
    {
        let run = Arc::new(move |context| -> Running { Box::pin(run(context)) });
        self.operations
            .insert(name.to_owned(), Operation { recovery, run });
        self
    }

    /// How long a lease may stay unchanged until another replica takes the task over; 5 s by default. It is
    /// renewed four times as often. Too short, and a slow cluster makes tasks run twice.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How often a run looks for answers and cancellations that came through other replicas, and a
    /// subscriber's replica for news, as long as no watch tells it; 250 ms by default. Each look is one read
    /// of the cluster.
    pub fn look(mut self, look: Duration) -> Self {
        self.look = look;
        self
    }

    /// Tasks that this replica runs at once; [`RUNNING_MAX`] by default. A creation over it is refused.
    pub fn running_max(mut self, max: usize) -> Self {
        self.running_max = max;
        self
    }

    /// Tasks that one owner may have, finished ones that still live included; [`PER_OWNER_MAX`] by default. A
    /// creation over it is refused. Creations at the same moment may exceed it by as many as there are.
    pub fn per_owner_max(mut self, max: u64) -> Self {
        self.per_owner_max = max;
        self
    }

    /// Subscriptions that one principal may hold at this replica, [`LISTENS_OF_PRINCIPAL_MAX`] by default, and all
    /// together, [`LISTENS_MAX`] by default. [`task_filter`] refuses those over it.
    pub fn listens_max(mut self, of_principal: usize, all: usize) -> Self {
        self.listens = (of_principal, all);
        self
    }

    /// Counts tasks and subscriptions among what the server counts: give it the metrics of its [`Access`](crate::serve::Access).
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics = metrics.clone();
        self
    }

    /// Starts looking for tasks whose replica died, until `shutdown` is cancelled. Then this replica's runs
    /// are stopped and their leases are given up, so that others take over at once.
    #[must_use]
    pub fn start(self, shutdown: CancellationToken) -> Tasks {
        let store = TaskStore::new(&self.client, &self.name);
        let runs = Runs::new(
            store.clone(),
            self.operations,
            self.lease,
            self.look,
            (self.running_max, self.metrics.clone()),
            shutdown,
        );
        runs.watch_leases();
        let (of_principal, all) = self.listens;
        Tasks {
            watches: Watches::new(&self.client, &self.name, self.look),
            listens: Listens::new(of_principal, all, self.metrics.clone()),
            store,
            runs,
            per_owner_max: self.per_owner_max,
            metrics: self.metrics,
        }
    }
}

impl fmt::Debug for TasksBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TasksBuilder")
            .field("name", &self.name)
            .field("operations", &self.operations.keys())
            .finish_non_exhaustive()
    }
}

/// The tasks of one server, the same through each of its replicas. Clones share everything.
#[derive(Clone)]
pub struct Tasks {
    store: TaskStore,
    runs: Runs,
    watches: Watches,
    listens: Listens,
    per_owner_max: u64,
    metrics: Metrics,
}

impl Tasks {
    /// Tasks in the stores `name` and `name-open`: 1 to 59 bytes of `[a-z0-9_-]`. Replicas of one server
    /// share a name, and no other server has it.
    pub fn builder(client: &Client, name: &str) -> TasksBuilder {
        TasksBuilder {
            client: client.clone(),
            name: name.to_owned(),
            operations: BTreeMap::new(),
            lease: LEASE,
            look: LOOK,
            running_max: RUNNING_MAX,
            per_owner_max: PER_OWNER_MAX,
            listens: (LISTENS_OF_PRINCIPAL_MAX, LISTENS_MAX),
            metrics: Metrics::new(),
        }
    }

    /// Whether the client of this request declared the extension. If not, a server either answers without a
    /// task, or refuses by [`required`].
    #[must_use]
    pub fn declared(context: &RequestContext<RoleServer>) -> bool {
        context
            .client_capabilities()
            .is_some_and(|capabilities| capabilities.supports_tasks())
    }

    /// Creates a task of a registered operation and begins to run it here. The task is durable when this
    /// returns. `owner` is the verified subject of the caller, at most 256 bytes; only it reaches the task.
    ///
    /// # Errors
    /// `-32603` with a reason in `data`: `OVERLOADED` if this replica runs as many tasks as it may,
    /// `QUOTA` if the owner has as many as it may, `TOO_LARGE` if the arguments are over a task's
    /// bounds, `UNAVAILABLE` if the cluster cannot answer. If the cluster's answer
    /// was lost (`AMBIGUOUS`), the task may exist and run, though the client has no id of it.
    pub async fn create(
        &self,
        operation: &str,
        owner: &str,
        arguments: JsonObject,
        options: TaskOptions,
    ) -> Result<CreateTaskResult, ErrorData> {
        if !self.runs.knows(operation) {
            let message = format!("the operation {operation} is not registered");
            return Err(ErrorData::internal_error(message, None));
        }
        let Some(place) = self.runs.reserve() else {
            self.metrics.refused(Limit::RunningTasks);
            return Err(refusal(
                "OVERLOADED",
                "this replica runs as many tasks as it may: try again later",
            ));
        };
        let owned = self
            .store
            .count(owner)
            .await
            .map_err(|error| failed(&error))?;
        if owned >= self.per_owner_max {
            self.metrics.refused(Limit::OwnerTasks);
            return Err(refusal(
                "QUOTA",
                "this caller has as many tasks as it may: let some end and lapse first",
            ));
        }
        let record = TaskRecord::new(operation, arguments, options);
        let created = self.store.create(owner, record).await;
        let held = created.map_err(|error| failed(&error))?;
        let task = held.record.task(held.id());
        self.metrics.task_event(TaskEvent::Created);
        self.runs.begin(held, place);
        Ok(CreateTaskResult::new(task))
    }

    /// Answers `tasks/get`.
    ///
    /// # Errors
    /// `-32602` if the owner has no such task, or its lifetime has ended; `-32603` with a reason if the cluster
    /// cannot answer.
    pub async fn get(&self, task_id: &str, owner: &str) -> Result<DetailedTask, ErrorData> {
        let found = self.store.get(owner, task_id).await;
        match found.map_err(|error| failed(&error))? {
            Some(record) => Ok(record.value.detailed(task_id)),
            None => Err(unknown(task_id)),
        }
    }

    /// Answers `tasks/update`: keeps the answers to questions that are open. Answers to others, and second
    /// answers, are ignored, as SEP-2663 wants it.
    ///
    /// # Errors
    /// As [`get`](Self::get); `-32602` too if there are more than 64 answers, and `-32603` with the
    /// reason `TOO_LARGE` if the task would be over its bounds with them.
    pub async fn update(
        &self,
        task_id: &str,
        owner: &str,
        responses: InputResponses,
    ) -> Result<(), ErrorData> {
        if responses.len() > INPUT_KEYS_MAX {
            let message = format!("more than {INPUT_KEYS_MAX} inputResponses");
            return Err(ErrorData::invalid_params(message, None));
        }
        self.change(task_id, owner, move |record| record.answer(&responses))
            .await
    }

    /// Answers `tasks/cancel`: asks the run to stop. The run decides how the task ends. A task that has ended
    /// stays as it is.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn cancel(&self, task_id: &str, owner: &str) -> Result<(), ErrorData> {
        self.change(task_id, owner, TaskRecord::ask_to_cancel).await
    }

    async fn change(
        &self,
        task_id: &str,
        owner: &str,
        change: impl FnMut(&mut TaskRecord) -> bool + Send,
    ) -> Result<(), ErrorData> {
        let changed = self.store.change(owner, task_id, change).await;
        match changed.map_err(|error| failed(&error))? {
            Change::Made | Change::Needless => {
                self.runs.wake(task_id);
                Ok(())
            }
            Change::Unknown => Err(unknown(task_id)),
            Change::TooLarge => Err(too_large()),
        }
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks")
            .field("runs", &self.runs)
            .finish_non_exhaustive()
    }
}

/// The error for a client that did not declare the extension, of a tool that answers by tasks alone:
/// `-32021`, which names the capability.
#[must_use]
pub fn required() -> ErrorData {
    let capability = ClientCapabilities::builder().enable_tasks().build();
    ErrorData::missing_required_client_capability(capability)
}

/// The task id comes from the caller: only its beginning is echoed.
fn unknown(task_id: &str) -> ErrorData {
    let shown: String = task_id.chars().take(64).collect();
    ErrorData::invalid_params(
        format!("unknown task {shown}: it was never created, has expired, or is another caller's"),
        None,
    )
}

fn refusal(reason: &str, message: &'static str) -> ErrorData {
    let data = serde_json::json!({"helve.v1/reason": reason});
    ErrorData::internal_error(message, Some(data))
}

fn too_large() -> ErrorData {
    refusal("TOO_LARGE", "the task is over the task store's bounds")
}

/// The cause goes to the log; the client hears what to do.
fn failed(error: &Error) -> ErrorData {
    use helve_client::ErrorKind::{Ambiguous, Full, Invalid, Overloaded};
    tracing::warn!(%error, "a task cannot be read or written");
    match error.kind() {
        Ambiguous => refusal(
            "AMBIGUOUS",
            "the task store's answer was lost: ask for the task's state, then decide",
        ),
        Full => refusal("QUOTA", "the task store is full: tell the operator"),
        Overloaded => refusal("OVERLOADED", "the task store is busy: try again later"),
        Invalid => too_large(),
        _ => refusal(
            "UNAVAILABLE",
            "the task store cannot answer now: try again later",
        ),
    }
}
