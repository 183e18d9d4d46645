//! What is stored of a task.

use std::{collections::BTreeMap, sync::Arc};

use rmcp::{
    ErrorData,
    model::{
        CallToolResult, DetailedTask, InputRequest, InputResponses, JsonObject, Task, TaskPayload,
        TaskStatus,
    },
    task_manager::{TaskExit, TaskOptions, current_timestamp},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::wire::weight::parsed_bytes;

/// Questions that a task may ask over its life.
pub(super) const INPUT_KEYS_MAX: usize = 64;
/// Bytes of JSON that a task may hold: call, questions, answers, checkpoint and result. A handle holds
/// 1 MiB; the rest is for the record's own fields.
pub(super) const TASK_BYTES_MAX: usize = 1_000_000;
/// Bytes that a task may take up once it is parsed, by the measure of a message. A million bytes of
/// small objects would be a hundred million, for as long as the task runs.
const TASK_WEIGHT_MAX: usize = 8 << 20;

/// A question to the client, and its answer once it came.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Input {
    request: InputRequest,
    response: Option<Value>,
}

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ended {
    Completed(JsonObject),
    Failed(JsonObject),
    Cancelled,
}

impl Ended {
    pub(super) fn failed(message: &str) -> Self {
        let error = ErrorData::internal_error(message.to_owned(), None);
        Self::Failed(object(&error).unwrap_or_default())
    }
}

impl From<Result<CallToolResult, TaskExit>> for Ended {
    fn from(outcome: Result<CallToolResult, TaskExit>) -> Self {
        match outcome {
            Ok(result) => object(&result).map_or_else(
                || Self::failed("the result has no JSON form"),
                Self::Completed,
            ),
            Err(TaskExit::Cancelled) => Self::Cancelled,
            Err(TaskExit::Error(error)) => object(&error)
                .map_or_else(|| Self::failed("the error has no JSON form"), Self::Failed),
        }
    }
}

/// A task as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct TaskRecord {
    pub(super) operation: String,
    /// The same in all copies of the record.
    #[serde(with = "shared")]
    pub(super) arguments: Arc<JsonObject>,
    created_at: String,
    updated_at: String,
    pub(super) ttl_ms: Option<u64>,
    poll_interval_ms: Option<u64>,
    status_message: Option<String>,
    #[serde(default)]
    inputs: BTreeMap<String, Input>,
    #[serde(default)]
    pub(super) cancel_requested: bool,
    #[serde(default)]
    pub(super) checkpoint: Option<Value>,
    #[serde(default)]
    ended: Option<Ended>,
}

/// What asking a question led to.
#[derive(Debug, PartialEq)]
pub(super) enum Asked {
    /// The question is open, and was before.
    Open,
    /// The question is open now.
    New,
    Answered(Value),
    /// The task may ask no more.
    TooMany,
}

impl TaskRecord {
    pub(super) fn new(operation: &str, arguments: JsonObject, options: TaskOptions) -> Self {
        let now = current_timestamp();
        Self {
            operation: operation.to_owned(),
            arguments: Arc::new(arguments),
            created_at: now.clone(),
            updated_at: now,
            ttl_ms: options.ttl_ms,
            poll_interval_ms: options.poll_interval_ms,
            status_message: options.status_message,
            inputs: BTreeMap::new(),
            cancel_requested: false,
            checkpoint: None,
            ended: None,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.ended.is_none()
    }

    fn touch(&mut self) {
        self.updated_at = current_timestamp();
    }

    /// Asks under a key. A run that follows another asks what was asked before.
    pub(super) fn ask(&mut self, key: &str, request: &InputRequest) -> Asked {
        if let Some(input) = self.inputs.get(key) {
            return match &input.response {
                Some(response) => Asked::Answered(response.clone()),
                None => Asked::Open,
            };
        }
        if self.inputs.len() >= INPUT_KEYS_MAX {
            return Asked::TooMany;
        }
        let input = Input {
            request: request.clone(),
            response: None,
        };
        self.inputs.insert(key.to_owned(), input);
        self.touch();
        Asked::New
    }

    pub(super) fn answer_to(&self, key: &str) -> Option<&Value> {
        self.inputs.get(key)?.response.as_ref()
    }

    /// Keeps answers to open questions; false if there is none among them.
    pub(super) fn answer(&mut self, responses: &InputResponses) -> bool {
        if !self.is_open() || self.cancel_requested {
            return false;
        }
        let mut is_changed = false;
        for (key, response) in responses {
            let input = self.inputs.get_mut(key);
            if let Some(input) = input.filter(|input| input.response.is_none()) {
                input.response = Some(response.clone());
                is_changed = true;
            }
        }
        if is_changed {
            self.touch();
        }
        is_changed
    }

    /// False if the task has ended or was asked before.
    pub(super) fn ask_to_cancel(&mut self) -> bool {
        if !self.is_open() || self.cancel_requested {
            return false;
        }
        self.cancel_requested = true;
        self.touch();
        true
    }

    pub(super) fn set_status_message(&mut self, message: &str) {
        self.status_message = Some(message.to_owned());
        self.touch();
    }

    pub(super) fn end(&mut self, ended: Ended) {
        self.ended = Some(ended);
        self.touch();
    }

    /// Whether the task is over a bound of its size, as JSON or parsed. What has ended is not kept
    /// parsed, and was done: its result is bounded in bytes alone.
    pub(super) fn is_too_large(&self) -> bool {
        serde_json::to_vec(self).map_or(true, |json| {
            json.len() > TASK_BYTES_MAX
                || self.ended.is_none() && parsed_bytes(&json) > TASK_WEIGHT_MAX
        })
    }

    /// Keeps what subscribers are told of: not the call, the checkpoint and the answered questions.
    pub(super) fn shed(&mut self) {
        self.arguments = Arc::default();
        self.checkpoint = None;
        self.inputs.retain(|_, input| input.response.is_none());
    }

    /// Keeps of a task that grew over the bound what its owner needs to hear of it.
    pub(super) fn shrink(&mut self) {
        self.inputs.clear();
        self.checkpoint = None;
        self.arguments = Arc::default();
        self.status_message = None;
    }

    pub(super) fn task(&self, task_id: &str) -> Task {
        let mut task = Task::new(task_id, self.status(), &self.created_at, &self.updated_at);
        task.status_message.clone_from(&self.status_message);
        task.ttl_ms = self.ttl_ms;
        task.poll_interval_ms = self.poll_interval_ms;
        task
    }

    pub(super) fn detailed(&self, task_id: &str) -> DetailedTask {
        DetailedTask::new(self.task(task_id), self.payload())
    }

    fn status(&self) -> TaskStatus {
        self.payload().status()
    }

    fn payload(&self) -> TaskPayload {
        match &self.ended {
            Some(Ended::Completed(result)) => TaskPayload::Completed {
                result: result.clone(),
            },
            Some(Ended::Failed(error)) => TaskPayload::Failed {
                error: error.clone(),
            },
            Some(Ended::Cancelled) => TaskPayload::Cancelled,
            None => self.waiting(),
        }
    }

    /// A task that was asked to stop waits for no answer.
    fn waiting(&self) -> TaskPayload {
        let open = |input: &&Input| input.response.is_none() && !self.cancel_requested;
        let input_requests: BTreeMap<_, _> = self
            .inputs
            .iter()
            .filter(|(_, input)| open(input))
            .map(|(key, input)| (key.clone(), input.request.clone()))
            .collect();
        if input_requests.is_empty() {
            TaskPayload::Working
        } else {
            TaskPayload::InputRequired { input_requests }
        }
    }
}

fn object(value: &impl Serialize) -> Option<JsonObject> {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => Some(object),
        _ => None,
    }
}

/// An object that copies share, as it is stored.
mod shared {
    use std::sync::Arc;

    use rmcp::model::JsonObject;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(super) fn serialize<S: Serializer>(
        object: &Arc<JsonObject>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        (**object).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<JsonObject>, D::Error> {
        JsonObject::deserialize(deserializer).map(Arc::new)
    }
}
