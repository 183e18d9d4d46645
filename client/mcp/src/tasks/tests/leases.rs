//! Leases of tasks: which run writes, and who takes a run over.

use std::collections::HashSet;

use helve_client::{HandleOptions, HandleStore as _, Raw, Ttl};
use rmcp::{
    model::{JsonObject, TaskStatus},
    task_manager::TaskOptions,
};
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;

use super::{LEASE, OWNER, client, create, kill, replica, until};
use crate::tasks::{
    record::{Ended, TaskRecord},
    store::{TaskStore, Written},
};

#[tokio::test]
async fn lease_that_no_version_wrote_keeps_no_other_from_take_over() {
    let (client, shutdown) = (client(), CancellationToken::new());
    let one = replica(&client).start(CancellationToken::new());
    let lost = create(&one, "wait").await;
    let leases = client.handles_with::<Vec<u8>, _>(HandleOptions::shared("jobs-open"), Raw);
    let foreign = b"x".to_vec();
    leases.put("foreign", &foreign, Ttl::Never).await.unwrap();
    kill(one).await;
    let other = replica(&client).start(shutdown);
    let taken_over = async {
        while other.runs.running_count() == 0 {
            yield_now().await;
        }
    };
    let taken_over = tokio::time::timeout(LEASE * 50, taken_over).await;
    taken_over.expect("the lost task is taken over");
    other.cancel(&lost, OWNER).await.unwrap();
    until(&other, &lost, TaskStatus::Cancelled).await;
    assert!(leases.get("foreign").await.unwrap().is_some());
}

#[tokio::test]
async fn run_that_lost_its_lease_writes_nothing() {
    let store = TaskStore::new(&client(), "jobs");
    let record = TaskRecord::new("ask", JsonObject::new(), TaskOptions::default());
    let mut old = store.create(OWNER, record).await.unwrap();
    let seen = store.leases(&mut HashSet::new()).await.unwrap();
    let mut new = store.claim(&seen[0], |_| true).await.unwrap().unwrap();
    assert_eq!(
        store
            .claim(&seen[0], |_| true)
            .await
            .unwrap()
            .map(|held| held.lease.run),
        None
    );
    let late = store.write(&mut old, |record| record.set_status_message("late"));
    assert_eq!(late.await, Written::Lost);
    assert!(!store.beat(&mut old).await.unwrap());
    let ended = Ended::Cancelled;
    let late = store
        .end(&mut old, |record| record.end(ended.clone()))
        .await;
    assert_eq!(late, Written::Lost);
    let now = store.write(&mut new, |record| record.set_status_message("now"));
    assert_eq!(now.await, Written::Done);
    let task = store.get(OWNER, new.id()).await.unwrap().unwrap().value;
    assert!(task.is_open());
    assert_eq!(task.task("t").status_message.as_deref(), Some("now"));
}

#[tokio::test]
async fn replica_that_lacks_the_operation_leaves_the_lease() {
    let store = TaskStore::new(&client(), "jobs");
    let record = TaskRecord::new("new", JsonObject::new(), TaskOptions::default());
    store.create(OWNER, record).await.unwrap();
    let seen = store.leases(&mut HashSet::new()).await.unwrap();
    let claimed = store.claim(&seen[0], |operation| operation == "old").await;
    assert!(claimed.unwrap().is_none());
    assert_eq!(store.leases(&mut HashSet::new()).await.unwrap(), seen);
}
