//! Tasks of few bytes that take up many once they are parsed.

use helve_client::{HandleOptions, HandleStore as _, Ttl};
use rmcp::{
    model::{JsonObject, TaskStatus},
    task_manager::TaskOptions,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{OWNER, answer, client, create, reason, replica, until};
use crate::tasks::record::TaskRecord;

/// Small objects, and the same as one string.
fn heavy_and_light() -> [Value; 2] {
    let heavy = json!(vec![json!({"": 0}); 20_000]);
    let light = json!(heavy.to_string());
    [heavy, light]
}

fn arguments(items: Value) -> JsonObject {
    [("items".to_owned(), items)].into_iter().collect()
}

#[tokio::test]
async fn task_whose_arguments_parse_to_too_much_is_refused() {
    let tasks = replica(&client()).start(CancellationToken::new());
    let [heavy, light] = heavy_and_light();
    let create = |items| tasks.create("wait", OWNER, arguments(items), TaskOptions::default());
    let refused = create(heavy).await.unwrap_err();
    assert_eq!(reason(&refused), Some("TOO_LARGE"));
    create(light).await.unwrap();
}

#[tokio::test]
async fn answer_that_parses_to_too_much_is_refused_and_can_follow() {
    let tasks = replica(&client()).start(CancellationToken::new());
    let [heavy, light] = heavy_and_light();
    let id = create(&tasks, "ask").await;
    until(&tasks, &id, TaskStatus::InputRequired).await;
    let refused = tasks.update(&id, OWNER, [("ok".to_owned(), heavy)].into());
    assert_eq!(reason(&refused.await.unwrap_err()), Some("TOO_LARGE"));
    let asked = tasks.get(&id, OWNER).await.unwrap();
    assert_eq!(asked.status(), TaskStatus::InputRequired);
    answer(&tasks, &id, "ok", light).await;
    until(&tasks, &id, TaskStatus::Completed).await;
}

/// Earlier versions wrote such tasks.
#[tokio::test]
async fn task_over_its_bounds_is_answered_and_cancelled() {
    let client = client();
    let [heavy, _] = heavy_and_light();
    let record = TaskRecord::new("wait", arguments(heavy), TaskOptions::default());
    assert!(record.is_too_large());
    let stored = client.handles::<TaskRecord>(HandleOptions::new("jobs", OWNER));
    stored.put("task-1", &record, Ttl::Never).await.unwrap();
    let tasks = replica(&client).start(CancellationToken::new());
    let found = tasks.get("task-1", OWNER).await.unwrap();
    assert_eq!(found.status(), TaskStatus::Working);
    tasks.cancel("task-1", OWNER).await.unwrap();
    let stored = stored.get("task-1").await.unwrap().unwrap();
    assert!(stored.cancel_requested);
}
