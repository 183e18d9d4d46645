//! How often tasks are looked at, and for how long.

use futures::StreamExt as _;
use helve_client::MemoryBuilder;
use rmcp::{model::JsonObject, task_manager::TaskOptions};
use serde_json::json;
use tokio::{
    task::yield_now,
    time::{Instant, advance},
};

use super::*;
use crate::tasks::{record::Ended, store::Held};

const OWNER: &str = "alice";
const LOOK: Duration = Duration::from_millis(250);
const SUBSCRIBERS: usize = 20;

async fn task() -> (Watches, TaskStore, Held) {
    let client = MemoryBuilder::new().build().unwrap();
    let store = TaskStore::new(&client, "jobs");
    let record = TaskRecord::new("work", JsonObject::new(), TaskOptions::default());
    let held = store.create(OWNER, record).await.unwrap();
    (Watches::new(&client, "jobs", LOOK), store, held)
}

async fn until_unwatched(watches: &Watches) {
    while watches.count() > 0 {
        advance(LOOK).await;
        yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn subscribers_of_one_task_share_each_look_at_it() {
    let (watches, store, mut held) = task().await;
    let subscribe = |_| Box::pin(watches.states(OWNER, held.id()));
    let mut subscribers: Vec<_> = (0..SUBSCRIBERS).map(subscribe).collect();
    for subscriber in &mut subscribers {
        assert!(subscriber.next().await.unwrap().value.is_open());
    }
    store
        .end(&mut held, |record| record.end(Ended::Cancelled))
        .await;
    for subscriber in &mut subscribers {
        assert!(!subscriber.next().await.unwrap().value.is_open());
        assert!(subscriber.next().await.is_none(), "nothing comes after");
    }
    let looks = watches.looks();
    assert!(looks < SUBSCRIBERS, "{looks} looks");
    assert_eq!(watches.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn task_is_looked_at_only_while_somebody_waits_for_it() {
    let (watches, _store, held) = task().await;
    let mut first = Box::pin(watches.states(OWNER, held.id()));
    let second = Box::pin(watches.states(OWNER, held.id()));
    first.next().await.unwrap();
    drop(first);
    advance(LOOK * 2).await;
    assert_eq!(watches.count(), 1, "one still waits");
    drop(second);
    until_unwatched(&watches).await;
    let mut again = Box::pin(watches.states(OWNER, held.id()));
    assert!(again.next().await.is_some());
}

#[tokio::test(start_paused = true)]
async fn task_of_another_owner_has_no_state() {
    let (watches, _store, held) = task().await;
    for (owner, id) in [("mallory", held.id()), (OWNER, "task-unknown")] {
        let mut states = Box::pin(watches.states(owner, id));
        assert!(states.next().await.is_none(), "{owner} {id}");
    }
    until_unwatched(&watches).await;
}

#[tokio::test(start_paused = true)]
async fn change_is_told_at_once_and_not_at_the_next_look() {
    let (watches, store, mut held) = task().await;
    let mut states = Box::pin(watches.states(OWNER, held.id()));
    assert!(states.next().await.unwrap().value.is_open());
    // The feed has begun once it has the task looked at again.
    while watches.looks() < 2 {
        yield_now().await;
    }
    let begun = Instant::now();
    store
        .end(&mut held, |record| record.end(Ended::Cancelled))
        .await;
    assert!(!states.next().await.unwrap().value.is_open());
    // Time is the test's own: it goes on only when every task waits for it.
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn tasks_are_looked_at_rarely_while_a_watch_tells() {
    let (watches, _store, held) = task().await;
    let mut states = Box::pin(watches.states(OWNER, held.id()));
    states.next().await.unwrap();
    while watches.looks() < 2 {
        yield_now().await;
    }
    for _ in 0..20 {
        advance(LOOK).await;
        yield_now().await;
    }
    assert_eq!(watches.looks(), 2);
    for _ in 0..2 {
        advance(LOOK_RARELY).await;
        yield_now().await;
    }
    assert!(watches.looks() > 2, "an expiry would never be found");
}

#[tokio::test(start_paused = true)]
async fn watched_task_is_kept_without_what_is_not_told() {
    let client = MemoryBuilder::new().build().unwrap();
    let store = TaskStore::new(&client, "jobs");
    let arguments: JsonObject = [("text".to_owned(), json!("x"))].into_iter().collect();
    let record = TaskRecord::new("work", arguments, TaskOptions::default());
    let mut held = store.create(OWNER, record).await.unwrap();
    store
        .write(&mut held, |record| record.checkpoint = Some(json!(1)))
        .await;
    let watches = Watches::new(&client, "jobs", LOOK);
    let mut states = Box::pin(watches.states(OWNER, held.id()));
    let task = states.next().await.unwrap();
    assert!(task.value.arguments.is_empty() && task.value.checkpoint.is_none());
    let [told, whole] = [&task.value, &held.record].map(|record| record.detailed(held.id()));
    assert_eq!(told, whole);
}
