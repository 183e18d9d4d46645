//! The tools that answer by tasks (SEP-2663), as the suite asks for them. Each may run on any replica, and goes
//! on elsewhere if its replica dies.

use std::time::Duration;

use helve_client::Client;
use helve_mcp::tasks::{Recovery, TaskContext, Tasks, required};
use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolRequestParams, CallToolResponse, CallToolResult, InputRequest},
    service::RequestContext,
    task_manager::{TaskExit, TaskOptions},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    input::{Answers, ask, elicitation, needs},
    tools::{completed, fixed},
};

/// The store of tasks that replicas of this server share.
const STORE: &str = "conformance-tasks";
/// Short, so that a run of the suite that kills replicas need not wait for long.
const LEASE: Duration = Duration::from_secs(2);
/// Callers are not authenticated: they share one owner.
pub(crate) const EVERYBODY: &str = "everybody";
/// `slow_compute` of less than this answers without a task.
const AT_ONCE_S: f64 = 0.001;

/// Name, description, and whether the tool answers by tasks alone.
pub(crate) const NAMES: [(&str, &str); 7] = [
    ("greet", "Greets, without a task."),
    ("slow_compute", "Sleeps for some seconds, then answers."),
    ("failing_job", "Answers an error of the tool, as a task."),
    (
        "protocol_error_job",
        "Fails with an error of the protocol, as a task.",
    ),
    ("confirm_delete", "Asks one question within its task."),
    ("multi_input", "Asks two questions at once within its task."),
    ("test_tool_with_task", "Asks before its task begins."),
];

pub(crate) fn start(client: &Client, shutdown: CancellationToken) -> Tasks {
    Tasks::builder(client, STORE)
        .lease(LEASE)
        .operation("slow_compute", Recovery::Rerun, slow_compute)
        .operation("failing_job", Recovery::Rerun, async |_| {
            Ok(completed(
                json!({"isError": true, "content": said("The job failed.")}),
            ))
        })
        .operation("protocol_error_job", Recovery::Rerun, async |_| {
            Err(ErrorData::internal_error("the job broke the protocol", None).into())
        })
        .operation("confirm_delete", Recovery::Rerun, confirm_delete)
        .operation("multi_input", Recovery::Rerun, multi_input)
        .operation("test_tool_with_task", Recovery::Rerun, greet_later)
        .start(shutdown)
}

fn said(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

fn done(text: &str) -> CallToolResult {
    completed(json!({"content": said(text)}))
}

/// Sleeps a second at a time, and remembers how many it has slept: a run that follows sleeps the rest.
async fn slow_compute(context: TaskContext) -> Result<CallToolResult, TaskExit> {
    let seconds = context.arguments().get("seconds").and_then(Value::as_f64);
    let label = context.arguments().get("label").and_then(Value::as_str);
    let label = label.unwrap_or("nothing").to_owned();
    let mut left =
        seconds.unwrap_or(0.0).clamp(0.0, 3600.0) - context.checkpoint().await?.unwrap_or(0.0);
    while left > 0.0 {
        let step = left.min(1.0);
        tokio::select! {
            () = context.cancelled() => return Err(TaskExit::Cancelled),
            () = tokio::time::sleep(Duration::from_secs_f64(step)) => {}
        }
        left -= step;
        context
            .save_checkpoint(&(seconds.unwrap_or(0.0) - left))
            .await?;
    }
    Ok(done(&format!("computed {label} in run {}", context.run())))
}

fn question(message: &str, field: &str, kind: &str) -> InputRequest {
    fixed(elicitation(message, field, kind))
}

async fn confirm_delete(context: TaskContext) -> Result<CallToolResult, TaskExit> {
    let asked = question("Delete the file?", "confirm", "boolean");
    let answer = context.request_input("confirm", asked).await?;
    Ok(done(&format!(
        "confirmed: {}",
        answer["content"]["confirm"]
    )))
}

async fn multi_input(context: TaskContext) -> Result<CallToolResult, TaskExit> {
    let (name, confirm) = futures::future::try_join(
        context.request_input("name", question("Your name?", "name", "string")),
        context.request_input("confirm", question("Go on?", "confirm", "boolean")),
    )
    .await?;
    Ok(done(&format!(
        "{} and {}",
        name["action"], confirm["action"]
    )))
}

async fn greet_later(context: TaskContext) -> Result<CallToolResult, TaskExit> {
    let name = context.arguments().get("user_name").and_then(Value::as_str);
    Ok(done(&format!("Hello, {}!", name.unwrap_or("stranger"))))
}

/// Answers a call of one of these tools.
pub(crate) async fn call(
    tasks: &Tasks,
    request: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let mut arguments = request.arguments.unwrap_or_default();
    let text = |name: &str| {
        arguments
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    match &*request.name {
        "greet" => return Ok(done(&format!("Hello, {}!", text("name"))).into()),
        "slow_compute" => {
            let seconds = arguments.get("seconds").and_then(Value::as_f64);
            let is_short = seconds.unwrap_or(0.0) < AT_ONCE_S;
            if is_short || !Tasks::declared(context) {
                return Ok(done(&format!("computed {}", text("label"))).into());
            }
        }
        "test_tool_with_task" => {
            needs(context, &["elicitation"])?;
            match Answers(request.input_responses.as_ref()).accepted("user_name", "name") {
                Some(name) => arguments.insert("user_name".to_owned(), Value::String(name)),
                None => {
                    let asked = elicitation("What is your name?", "name", "string");
                    return Ok(ask(json!({"user_name": asked}), None).into());
                }
            };
        }
        _ => {}
    }
    if !Tasks::declared(context) {
        return Err(required());
    }
    let created = tasks.create(&request.name, EVERYBODY, arguments, TaskOptions::default());
    Ok(CallToolResponse::Task(created.await?))
}
