//! Tasks across replicas: each `Tasks` on one client is a replica of its own.

mod leases;
mod weights;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use helve_client::{Client, MemoryBuilder};
use rmcp::{
    ErrorData,
    model::{
        CallToolResult, ContentBlock, DetailedTask, InputRequest, JsonObject, TaskPayload,
        TaskStatus,
    },
    task_manager::{TaskExit, TaskOptions},
};
use serde_json::{Value, json};
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;

use super::{
    Recovery, TaskContext, Tasks, TasksBuilder,
    record::{Asked, INPUT_KEYS_MAX, TASK_BYTES_MAX, TaskRecord},
};

const OWNER: &str = "alice";
const LEASE: Duration = Duration::from_millis(200);

fn client() -> Client {
    MemoryBuilder::new().build().unwrap()
}

fn text(text: &str) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

fn question() -> InputRequest {
    serde_json::from_value(json!({"method": "elicitation/create", "params": {
        "message": "Go on?",
        "requestedSchema": {"type": "object", "properties": {"ok": {"type": "boolean"}}},
    }}))
    .unwrap()
}

/// Asks, then says what it was answered and in which run.
async fn ask(context: TaskContext) -> Result<CallToolResult, TaskExit> {
    let answer = context.request_input("ok", question()).await?;
    Ok(text(&format!("{answer} in run {}", context.run())))
}

async fn wait_for_cancel(context: TaskContext) -> Result<CallToolResult, TaskExit> {
    context.cancelled().await;
    Err(TaskExit::Cancelled)
}

fn replica(client: &Client) -> TasksBuilder {
    Tasks::builder(client, "jobs")
        .lease(LEASE)
        .look(Duration::from_millis(5))
        .operation("ask", Recovery::Rerun, ask)
        .operation("wait", Recovery::Rerun, wait_for_cancel)
        .operation("once", Recovery::Fail, wait_for_cancel)
        .operation("large", Recovery::Rerun, async |_| {
            Ok(text(&"x".repeat(TASK_BYTES_MAX)))
        })
        .operation("panic", Recovery::Rerun, async |_| panic!("planned"))
        .operation("error", Recovery::Rerun, async |_| {
            Err(ErrorData::internal_error("no disk", None).into())
        })
}

async fn create(tasks: &Tasks, operation: &str) -> String {
    let created = tasks.create(operation, OWNER, JsonObject::new(), TaskOptions::default());
    created.await.unwrap().task.task_id
}

/// Waits until the task is in this status.
async fn until(tasks: &Tasks, id: &str, status: TaskStatus) -> DetailedTask {
    loop {
        let task = tasks.get(id, OWNER).await.unwrap();
        if task.status() == status {
            return task;
        }
        assert!(!task.status().is_terminal(), "ended as {task:?}");
        yield_now().await;
    }
}

fn said(task: &DetailedTask) -> &str {
    let TaskPayload::Completed { result } = &task.payload else {
        panic!("not completed: {task:?}");
    };
    result["content"][0]["text"].as_str().unwrap()
}

fn failure(task: &DetailedTask) -> &str {
    let TaskPayload::Failed { error } = &task.payload else {
        panic!("not failed: {task:?}");
    };
    error["message"].as_str().unwrap()
}

async fn answer(tasks: &Tasks, id: &str, key: &str, value: Value) {
    let responses = [(key.to_owned(), value)].into();
    tasks.update(id, OWNER, responses).await.unwrap();
}

#[tokio::test]
async fn task_is_found_and_answered_through_another_replica() {
    let (client, shutdown) = (client(), CancellationToken::new());
    let [one, other] = [(); 2].map(|()| replica(&client).start(shutdown.clone()));
    let id = create(&one, "ask").await;
    let asked = until(&other, &id, TaskStatus::InputRequired).await;
    assert!(
        matches!(asked.payload, TaskPayload::InputRequired { input_requests } if input_requests.contains_key("ok"))
    );
    answer(&other, &id, "unknown", json!(0)).await;
    answer(&other, &id, "ok", json!("yes")).await;
    answer(&other, &id, "ok", json!("second answers are ignored")).await;
    let ended = until(&other, &id, TaskStatus::Completed).await;
    assert_eq!(said(&ended), "\"yes\" in run 1");
}

#[tokio::test]
async fn task_of_another_owner_is_unknown() {
    let tasks = replica(&client()).start(CancellationToken::new());
    let id = create(&tasks, "wait").await;
    for error in [
        tasks.get(&id, "mallory").await.unwrap_err(),
        tasks.cancel(&id, "mallory").await.unwrap_err(),
        tasks.update(&id, "mallory", [].into()).await.unwrap_err(),
        tasks.get("no id \u{0}", OWNER).await.unwrap_err(),
    ] {
        assert_eq!(error.code.0, -32602);
    }
    assert_eq!(
        tasks.get(&id, OWNER).await.unwrap().status(),
        TaskStatus::Working
    );
}

#[tokio::test]
async fn cancel_through_another_replica_ends_the_task() {
    let (client, shutdown) = (client(), CancellationToken::new());
    let [one, other] = [(); 2].map(|()| replica(&client).start(shutdown.clone()));
    for operation in ["wait", "ask"] {
        let id = create(&one, operation).await;
        other.cancel(&id, OWNER).await.unwrap();
        until(&other, &id, TaskStatus::Cancelled).await;
        other.cancel(&id, OWNER).await.unwrap();
    }
}

/// The replica of `dead` is gone without a word: what it would do next never happens.
async fn kill(dead: Tasks) {
    dead.runs.abandon().await;
}

#[tokio::test]
async fn replica_that_dies_is_followed_by_another_run() {
    let (client, shutdown) = (client(), CancellationToken::new());
    let one = replica(&client).start(CancellationToken::new());
    let asked = create(&one, "ask").await;
    let waiting = create(&one, "wait").await;
    let once = create(&one, "once").await;
    until(&one, &asked, TaskStatus::InputRequired).await;
    kill(one).await;
    let other = replica(&client).start(shutdown);
    answer(&other, &asked, "ok", json!(7)).await;
    let ended = until(&other, &asked, TaskStatus::Completed).await;
    assert_eq!(said(&ended), "7 in run 2");
    other.cancel(&waiting, OWNER).await.unwrap();
    until(&other, &waiting, TaskStatus::Cancelled).await;
    let failed = until(&other, &once, TaskStatus::Failed).await;
    assert!(failure(&failed).contains("not run twice"), "{failed:?}");
}

#[tokio::test]
async fn replica_that_stops_gives_its_tasks_up_at_once() {
    let (client, stopping) = (client(), CancellationToken::new());
    // A lease that never lapses within this test.
    let patient = || replica(&client).lease(Duration::from_secs(3600));
    let one = patient().start(stopping.clone());
    let id = create(&one, "ask").await;
    until(&one, &id, TaskStatus::InputRequired).await;
    stopping.cancel();
    one.stopped().await;
    let other = patient().start(CancellationToken::new());
    answer(&other, &id, "ok", json!(true)).await;
    let ended = until(&other, &id, TaskStatus::Completed).await;
    assert_eq!(said(&ended), "true in run 2");
}

#[tokio::test]
async fn checkpoint_and_answers_reach_the_next_run() {
    let client = client();
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let steps = move |context: TaskContext| {
        let counted = Arc::clone(&counted);
        async move {
            let done: u32 = context.checkpoint().await?.unwrap_or(0);
            if done == 0 {
                let _answer = context.request_input("first", question()).await?;
                counted.fetch_add(1, Ordering::Relaxed);
                context.save_checkpoint(&1).await?;
            }
            let answer = context.request_input("second", question()).await?;
            Ok(text(&format!("{answer} after {done}")))
        }
    };
    let start = || {
        replica(&client)
            .operation("steps", Recovery::Rerun, steps.clone())
            .start(CancellationToken::new())
    };
    let one = start();
    let id = create(&one, "steps").await;
    until(&one, &id, TaskStatus::InputRequired).await;
    answer(&one, &id, "first", json!(1)).await;
    loop {
        let task = until(&one, &id, TaskStatus::InputRequired).await;
        if matches!(&task.payload, TaskPayload::InputRequired { input_requests } if input_requests.contains_key("second"))
        {
            break;
        }
    }
    kill(one).await;
    let other = start();
    answer(&other, &id, "second", json!(2)).await;
    let ended = until(&other, &id, TaskStatus::Completed).await;
    assert_eq!(said(&ended), "2 after 1");
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn operation_that_panics_or_fails_fails_its_task() {
    let tasks = replica(&client()).start(CancellationToken::new());
    for (operation, why) in [
        ("panic", "panicked"),
        ("error", "no disk"),
        ("large", "over the bound"),
    ] {
        let id = create(&tasks, operation).await;
        let failed = until(&tasks, &id, TaskStatus::Failed).await;
        assert!(failure(&failed).contains(why), "{failed:?}");
    }
}

#[tokio::test]
async fn task_is_unknown_after_its_lifetime() {
    let tasks = replica(&client()).start(CancellationToken::new());
    let options = TaskOptions::default().with_ttl_ms(300);
    let created = tasks
        .create("wait", OWNER, JsonObject::new(), options)
        .await;
    let id = created.unwrap().task.task_id;
    loop {
        match tasks.get(&id, OWNER).await {
            Ok(task) => assert_eq!(task.status(), TaskStatus::Working),
            Err(error) => {
                assert_eq!(error.code.0, -32602);
                break;
            }
        }
        yield_now().await;
    }
    // Its run is over too, so that its place is free.
    while tasks.runs.running_count() > 0 {
        yield_now().await;
    }
}

fn reason(error: &ErrorData) -> Option<&str> {
    error.data.as_ref()?["helve.v1/reason"].as_str()
}

#[tokio::test]
async fn creations_over_the_bounds_are_refused() {
    let client = client();
    let few = replica(&client)
        .running_max(1)
        .start(CancellationToken::new());
    let id = create(&few, "wait").await;
    let options = TaskOptions::default;
    let refused = few
        .create("wait", OWNER, JsonObject::new(), options())
        .await;
    assert_eq!(reason(&refused.unwrap_err()), Some("OVERLOADED"));
    few.cancel(&id, OWNER).await.unwrap();
    until(&few, &id, TaskStatus::Cancelled).await;

    let owned = replica(&client)
        .per_owner_max(1)
        .start(CancellationToken::new());
    let refused = owned
        .create("wait", OWNER, JsonObject::new(), options())
        .await;
    assert_eq!(reason(&refused.unwrap_err()), Some("QUOTA"));
    let bob = owned
        .create("wait", "bob", JsonObject::new(), options())
        .await;
    bob.unwrap();

    let mut arguments = JsonObject::new();
    arguments.insert("text".to_owned(), json!("x".repeat(TASK_BYTES_MAX)));
    let refused = few.create("wait", OWNER, arguments, options()).await;
    assert_eq!(reason(&refused.unwrap_err()), Some("TOO_LARGE"));
    let unknown = few
        .create("unknown", OWNER, JsonObject::new(), options())
        .await;
    assert!(unknown.unwrap_err().message.contains("not registered"));
}

#[tokio::test]
async fn key_is_used_once_in_a_run() {
    let twice = async |context: TaskContext| {
        let first = context.request_input("ok", question());
        let second = context.request_input("ok", question());
        let (_, second) = futures::future::join(first, second).await;
        match second {
            Err(TaskExit::Error(error)) => Ok(text(&error.message)),
            _ => Ok(text("asked twice")),
        }
    };
    let tasks = replica(&client())
        .operation("twice", Recovery::Rerun, twice)
        .start(CancellationToken::new());
    let id = create(&tasks, "twice").await;
    until(&tasks, &id, TaskStatus::InputRequired).await;
    answer(&tasks, &id, "ok", json!(1)).await;
    let ended = until(&tasks, &id, TaskStatus::Completed).await;
    assert!(said(&ended).contains("twice under one key"), "{ended:?}");
}

#[test]
fn questions_of_a_task_are_bounded() {
    let mut record = TaskRecord::new("ask", JsonObject::new(), TaskOptions::default());
    for key in 0..INPUT_KEYS_MAX {
        assert_eq!(record.ask(&key.to_string(), &question()), Asked::New);
    }
    assert_eq!(record.ask("one more", &question()), Asked::TooMany);
    assert_eq!(record.ask("0", &question()), Asked::Open);
}
