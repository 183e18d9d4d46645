//! What a running operation sees of its task.

use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, Mutex as StdMutex, PoisonError},
};

use rmcp::{
    ErrorData,
    model::{InputRequest, JsonObject},
    task_manager::TaskExit,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::sync::{Mutex, watch};

use super::{
    record::{Asked, INPUT_KEYS_MAX, TaskRecord},
    store::{Held, TaskStore, Written},
};

/// What a running operation knows of its task, and how it asks its client. Clones are of the same run.
#[derive(Clone)]
pub struct TaskContext {
    id: String,
    owner: String,
    arguments: Arc<JsonObject>,
    run: u64,
    store: TaskStore,
    held: Arc<Mutex<Held>>,
    /// The task as this replica saw it last.
    seen: watch::Receiver<TaskRecord>,
    /// Keys that this run has asked under.
    asked: Arc<StdMutex<HashSet<String>>>,
}

impl TaskContext {
    pub(super) fn new(
        store: TaskStore,
        held: &Held,
        shared: Arc<Mutex<Held>>,
        seen: watch::Receiver<TaskRecord>,
    ) -> Self {
        Self {
            id: held.id().to_owned(),
            owner: held.lease.owner.clone(),
            arguments: Arc::clone(&held.record.arguments),
            run: held.lease.run,
            store,
            held: shared,
            seen,
            asked: Arc::default(),
        }
    }

    /// The task's id.
    #[must_use]
    pub fn task_id(&self) -> &str {
        &self.id
    }

    /// The verified subject of the caller who created the task.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The arguments that the task was created with.
    #[must_use]
    pub fn arguments(&self) -> &JsonObject {
        &self.arguments
    }

    /// Which run this is, from 1. Each replica that takes the task over begins the next one.
    #[must_use]
    pub fn run(&self) -> u64 {
        self.run
    }

    /// Asks the client under a key, and waits for the answer that `tasks/update` brings through any replica.
    /// A question that an earlier run asked keeps its answer. A key is used once in a run.
    ///
    /// # Errors
    /// [`TaskExit::Cancelled`] if the task is cancelled meanwhile: return it. [`TaskExit::Error`] if this run
    /// used the key before, the task asked 64 questions, or it would grow over its bound of bytes.
    pub async fn request_input(
        &self,
        key: impl Into<String>,
        request: InputRequest,
    ) -> Result<Value, TaskExit> {
        let key = key.into();
        let is_first = {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.insert(key.clone())
        };
        if !is_first {
            return Err(refused("the operation asked twice under one key"));
        }
        match self.ask(&key, &request).await? {
            Asked::Answered(answer) => return Ok(answer),
            Asked::TooMany => {
                let message = format!("a task asks at most {INPUT_KEYS_MAX} questions");
                return Err(refused(&message));
            }
            Asked::Open | Asked::New => {}
        }
        let mut seen = self.seen.clone();
        let answered = seen
            .wait_for(|task| task.cancel_requested || task.answer_to(&key).is_some())
            .await;
        match answered {
            Ok(task) => task.answer_to(&key).cloned().ok_or(TaskExit::Cancelled),
            // The run is over: nothing that it returns counts any more.
            Err(_) => Err(TaskExit::Cancelled),
        }
    }

    async fn ask(&self, key: &str, request: &InputRequest) -> Result<Asked, TaskExit> {
        let mut held = self.held.lock().await;
        if held.record.cancel_requested {
            return Err(TaskExit::Cancelled);
        }
        let mut asked = held.record.clone().ask(key, request);
        if asked == Asked::New {
            let written = self
                .store
                .write(&mut held, |record| asked = record.ask(key, request));
            done(written.await)?;
        }
        Ok(asked)
    }

    /// Shows a text to people who watch the task.
    ///
    /// # Errors
    /// [`TaskExit::Error`] if the task would grow over its bound of bytes.
    pub async fn set_status_message(&self, message: &str) -> Result<(), TaskExit> {
        self.write(|record| record.set_status_message(message))
            .await
    }

    /// Saves how far the operation is, in place of what it saved before. A run that follows finds it.
    ///
    /// # Errors
    /// [`TaskExit::Error`] if the value has no JSON form, or the task would grow over its bound of bytes.
    pub async fn save_checkpoint(&self, value: &impl Serialize) -> Result<(), TaskExit> {
        let value = serde_json::to_value(value)
            .map_err(|error| refused(&format!("a checkpoint without JSON form: {error}")))?;
        self.write(|record| record.checkpoint = Some(value.clone()))
            .await
    }

    /// What this run, or one before it, saved last.
    ///
    /// # Errors
    /// [`TaskExit::Error`] if it is no `T`.
    pub async fn checkpoint<T: DeserializeOwned>(&self) -> Result<Option<T>, TaskExit> {
        let saved = self.held.lock().await.record.checkpoint.clone();
        let parsed = saved.map(serde_json::from_value).transpose();
        parsed.map_err(|error| refused(&format!("a checkpoint of another form: {error}")))
    }

    /// Whether `tasks/cancel` came.
    #[must_use]
    pub fn is_cancel_requested(&self) -> bool {
        self.seen.borrow().cancel_requested
    }

    /// Waits for `tasks/cancel`. An operation that stops for it returns [`TaskExit::Cancelled`].
    pub async fn cancelled(&self) {
        let mut seen = self.seen.clone();
        // An error means that the run is over, which ends this future too.
        let _over = seen.wait_for(|task| task.cancel_requested).await;
    }

    async fn write(&self, change: impl FnMut(&mut TaskRecord) + Send) -> Result<(), TaskExit> {
        let mut held = self.held.lock().await;
        done(self.store.write(&mut held, change).await)
    }
}

impl fmt::Debug for TaskContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskContext")
            .field("id", &self.id)
            .field("run", &self.run)
            .finish_non_exhaustive()
    }
}

fn done(written: Written) -> Result<(), TaskExit> {
    match written {
        Written::Done => Ok(()),
        // Nothing that this run returns counts any more.
        Written::Lost => Err(TaskExit::Cancelled),
        Written::TooLarge => Err(refused("the task is over its bound of bytes")),
    }
}

fn refused(message: &str) -> TaskExit {
    TaskExit::Error(ErrorData::internal_error(message.to_owned(), None))
}
