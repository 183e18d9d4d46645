//! What a client hears when nodes go and come back, and what becomes of the writes that it queues meanwhile.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::{Context as _, Result};
use helve_client::{
    ClusterBuilder, KeyOptions, PartitionOptions, PartitionState, StateTool as _, Ttl,
};
use helve_state::{Condition, QueueOptions, Queued, Verdict, WriteQueue};
use helve_tests::promise;
use serde_json::json;
use tokio::{sync::watch, time::timeout};

use super::nodes;

/// Ample, for slow machines.
const PATIENCE: Duration = Duration::from_secs(60);

async fn wait_for(
    watch: &mut watch::Receiver<PartitionState>,
    state: PartitionState,
) -> Result<()> {
    let waited = timeout(PATIENCE, watch.wait_for(|current| *current == state));
    let reached = waited.await.map(|seen| seen.map(drop));
    let last = *watch.borrow();
    reached
        .with_context(|| format!("waited for {state:?} in vain; it is {last:?}"))?
        .context("the watch ended")
}

#[tokio::test]
async fn a_client_hears_how_much_of_its_cluster_it_can_reach() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let client = ClusterBuilder::new(cluster.endpoints()).build()?;
    let options = PartitionOptions::new().interval(Duration::from_millis(100));
    let mut watch = client.watch_partition(options).await?;
    wait_for(&mut watch, PartitionState::Healthy).await?;

    let told = Arc::new(Mutex::new(Vec::new()));
    let directory = tempfile::tempdir()?;
    let report = {
        let told = Arc::clone(&told);
        move |report: &helve_state::Report| {
            let mut told = told.lock().expect("no holder panics");
            told.push((report.key.clone(), report.verdict.clone()));
        }
    };
    let keys = client.keys(KeyOptions::shared());
    let path = directory.path().join("writes");
    let queue = WriteQueue::open(path, keys.clone(), QueueOptions::new(), report).await?;
    let seen = keys
        .store_record("seen", &json!("base"), Ttl::Default)
        .await?;

    let leader = cluster.leader().await?.seat;
    let others = cluster.others(leader);
    cluster.kill(others[0])?;
    wait_for(&mut watch, PartitionState::Majority).await?;
    keys.store("seen", &json!("theirs")).await?;
    cluster.kill(others[1])?;
    wait_for(&mut watch, PartitionState::Minority).await?;
    let state = *watch.borrow();
    for (key, condition) in [
        ("fresh", Condition::Revision(0)),
        ("seen", Condition::Revision(seen.revision)),
    ] {
        let queued = queue
            .store_or_queue(state, key, &json!("mine"), Ttl::Default, condition)
            .await?;
        promise!(matches!(queued, Queued::Waiting(_)), "{key} was not queued");
    }
    cluster.kill(leader)?;
    wait_for(&mut watch, PartitionState::Isolated).await?;
    for seat in cluster.seats() {
        cluster.start(seat)?;
    }
    cluster.all_ready().await?;
    wait_for(&mut watch, PartitionState::Healthy).await?;
    let drained = queue.drain().await?;
    promise!((drained.settled, drained.waiting) == (2, 0), "{drained:?}");
    let told = told.lock().expect("no holder panics").clone();
    promise!(matches!(told[0].1, Verdict::Applied { .. }), "{told:?}");
    promise!(matches!(told[1].1, Verdict::Conflict { .. }), "{told:?}");
    promise!(
        keys.retrieve("fresh").await? == Some(json!("mine")),
        "the queued write is lost"
    );
    promise!(
        keys.retrieve("seen").await? == Some(json!("theirs")),
        "a queued write undid another's"
    );
    Ok(())
}
