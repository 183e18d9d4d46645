//! Watches tell each change once and in order, through any node, whatever dies meanwhile.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use futures::{StreamExt as _, future::try_join};
use helve_client::{
    Change, ChangeKind, Changes, ClusterBuilder, Error, HandleOptions, HandleStore as _,
    KeyOptions, Owner, StateTool as _, Ttl, Watch,
};
use helve_node::limits;
use helve_proto::{
    Reason,
    v1::{
        WatchKeys, WatchRequest, watch_request::Target as Watched,
        watch_service_client::WatchServiceClient,
    },
};
use helve_tests::{
    attack::watches::change,
    promise,
    wait::{Look, until},
};
use prost::Message as _;
use serde_json::json;
use tokio::time::timeout;

use super::nodes;

/// Far beyond what a change takes; a watch that misses one would wait for ever.
const PATIENCE: Duration = Duration::from_secs(60);

fn client(endpoints: Vec<String>) -> Result<helve_client::Client, Error> {
    ClusterBuilder::new(endpoints)
        .deadline(Duration::from_secs(20))
        .build()
}

/// The next changes, at least this many.
async fn next(changes: &mut Changes, at_least: usize) -> Result<Vec<Change>> {
    let mut found = Vec::new();
    while found.len() < at_least {
        let next = timeout(PATIENCE, changes.next()).await;
        let next = next.with_context(|| format!("{} of {at_least} changes came", found.len()))?;
        found.extend(next.context("the watch ended")??.changes);
    }
    Ok(found)
}

fn kinds(changes: &[Change]) -> Vec<(ChangeKind, &str)> {
    let kinds = changes.iter();
    kinds
        .map(|change| (change.kind, change.info.name.as_str()))
        .collect()
}

#[tokio::test]
async fn watch_on_each_node_tells_what_another_wrote() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    cluster.all_ready().await?;
    let endpoints = cluster.endpoints();
    let writer = client(endpoints.clone())?;
    let keys = writer.keys(KeyOptions::shared());
    let mut watches = Vec::new();
    for endpoint in &endpoints {
        let reader = client(vec![endpoint.clone()])?;
        watches.push(reader.watch(Watch::keys(Owner::shared(), "app/")).await?);
    }
    keys.store_record("app/1", &json!(1), Ttl::Never).await?;
    keys.store_record("other", &json!(1), Ttl::Never).await?;
    keys.store_record("app/1", &json!(2), Ttl::Never).await?;
    keys.delete("app/1").await?;
    let short = Ttl::After(Duration::from_millis(300));
    keys.store_record("app/2", &json!(1), short).await?;
    let mut told = Vec::new();
    for watch in &mut watches {
        told.push(next(watch, 5).await?);
    }
    let expected = [
        (ChangeKind::Put, "app/1"),
        (ChangeKind::Put, "app/1"),
        (ChangeKind::Deleted, "app/1"),
        (ChangeKind::Put, "app/2"),
        (ChangeKind::Expired, "app/2"),
    ];
    for changes in &told {
        promise!(kinds(changes) == expected, "a watch told {changes:?}");
        promise!(
            changes == &told[0],
            "nodes told {changes:?} and {:?}",
            told[0]
        );
    }
    cluster.stop().await
}

#[tokio::test]
async fn watch_goes_on_after_its_node_is_killed() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    cluster.all_ready().await?;
    let mut changes = client(cluster.endpoints())?
        .watch(Watch::store("cart"))
        .await?;
    let carts = client(cluster.endpoints())?.handles::<u64>(HandleOptions::shared("cart"));
    let done = Arc::new(AtomicBool::new(false));
    let mut minted = BTreeMap::new();
    let writing = async {
        let mut number = 0;
        while !done.load(Ordering::Relaxed) {
            let record = carts.mint_record(&number, Ttl::Default).await?;
            minted.insert(record.name.clone(), record.revision);
            number += 1;
        }
        anyhow::Ok(())
    };
    let mut seen: Vec<Change> = Vec::new();
    let killing = async {
        // Each node is killed once, so the watch's is, and the leader.
        for seat in cluster.seats() {
            let count = seen.len() + 50;
            seen.extend(next(&mut changes, count - seen.len()).await?);
            cluster.kill(seat)?;
            seen.extend(next(&mut changes, 50).await?);
            cluster.start(seat)?;
            cluster.all_ready().await?;
        }
        done.store(true, Ordering::Relaxed);
        Ok(())
    };
    try_join(writing, killing).await?;
    let last = minted.values().max().copied().unwrap_or_default();
    while seen.last().is_none_or(|change| change.info.revision < last) {
        seen.extend(next(&mut changes, 1).await?);
    }
    let places: Vec<_> = seen
        .iter()
        .map(|change| (change.info.revision, change.ordinal))
        .collect();
    promise!(
        places.is_sorted_by(|a, b| a < b),
        "changes came twice or out of order"
    );
    let told: BTreeMap<_, _> = seen
        .iter()
        .map(|change| (change.info.name.clone(), change.info.revision))
        .collect();
    for (name, revision) in &minted {
        promise!(
            told.get(name) == Some(revision),
            "the mint of {name} at {revision} was told as {:?}",
            told.get(name)
        );
    }
    cluster.stop().await
}

#[tokio::test]
async fn watch_after_a_revision_replays_what_followed_it() -> Result<()> {
    let mut cluster = nodes(1).start().await?;
    cluster.all_ready().await?;
    let client = client(cluster.endpoints())?;
    let keys = client.keys(KeyOptions::shared());
    let first = keys.store_record("k", &json!(1), Ttl::Never).await?;
    for number in 2..=5 {
        keys.store_record("k", &json!(number), Ttl::Never).await?;
    }
    let watch = Watch::keys(Owner::shared(), "").after(first.revision);
    let mut changes = client.watch(watch).await?;
    let told = next(&mut changes, 4).await?;
    promise!(told.len() == 4, "{told:?}");
    promise!(changes.revision() >= told[3].info.revision, "{changes:?}");
    let ahead = Watch::keys(Owner::shared(), "").after(first.revision + 1_000_000);
    let refused = client
        .watch(ahead)
        .await
        .err()
        .context("it is not reached")?;
    promise!(refused.reason() == Some(Reason::BadRequest), "{refused:?}");
    cluster.stop().await
}

#[tokio::test]
async fn watch_behind_the_window_is_told_to_list_again() -> Result<()> {
    let mut cluster = nodes(1).with("HELVE_WATCH_WINDOW", "4KiB").start().await?;
    cluster.all_ready().await?;
    let client = client(cluster.endpoints())?;
    let keys = client.keys(KeyOptions::shared());
    let first = keys.store_record("k", &json!(0), Ttl::Never).await?;
    for number in 0..100 {
        keys.store_record("k", &json!(number), Ttl::Never).await?;
    }
    let watch = Watch::keys(Owner::shared(), "").after(first.revision);
    let refused = client.watch(watch).await.err().context("it is gone")?;
    promise!(refused.reason() == Some(Reason::WatchTooOld), "{refused:?}");
    // What the message says to do.
    let listed = keys.list_infos("").await?;
    let mut changes = client
        .watch(Watch::keys(Owner::shared(), "").after(listed.revision))
        .await?;
    keys.delete("k").await?;
    let told = next(&mut changes, 1).await?;
    promise!(kinds(&told) == [(ChangeKind::Deleted, "k")], "{told:?}");
    cluster.stop().await
}

#[tokio::test]
async fn parts_of_changes_with_long_names_fit_their_room() -> Result<()> {
    const KEYS: usize = 128;
    let mut cluster = nodes(1).start().await?;
    cluster.all_ready().await?;
    let caller = cluster.caller(1);
    let mut client = WatchServiceClient::new(caller.line());
    let request = WatchRequest {
        target: Some(Watched::Keys(WatchKeys::default())),
        ..WatchRequest::default()
    };
    let mut parts = client.watch(request).await?.into_inner();
    for _ in 0..2 {
        change(&caller, KEYS).await?;
    }
    let mut told = Vec::new();
    while told.len() < 2 * KEYS {
        let part = timeout(PATIENCE, parts.message()).await??;
        let part = part.context("the watch ended")?;
        let bytes = part.encoded_len();
        promise!(
            bytes <= limits::WATCH_PART_BYTES_MAX,
            "a part of {bytes} bytes"
        );
        told.extend(part.changes);
    }
    let places = told.iter().map(|change| {
        (
            change.info.as_ref().map(|info| info.revision),
            change.ordinal,
        )
    });
    promise!(places.is_sorted_by(|a, b| a < b), "out of order");
    promise!(told.len() == 2 * KEYS, "{} changes", told.len());
    Ok(())
}

#[tokio::test]
async fn watch_on_a_node_that_is_cut_off_ends_there() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    cluster.all_ready().await?;
    let leader = cluster.leader().await?;
    let seat = cluster.others(leader.seat)[0];
    let alone = client(vec![cluster.listeners(seat).client.to_string()])?;
    let mut changes = alone.watch(Watch::keys(Owner::shared(), "")).await?;
    for other in cluster.others(seat) {
        cluster.kill(other)?;
    }
    // It may still tell what it had; then it says that it cannot go on.
    let error = until(
        "the watch to say that no leader answers",
        async || match timeout(PATIENCE, changes.next()).await {
            Ok(Some(Ok(_))) => Look::NotYet("a part".to_owned()),
            Ok(Some(Err(error))) => Look::Done(error),
            Ok(None) | Err(_) => Look::NotYet("nothing".to_owned()),
        },
    )
    .await?;
    if error.kind() != helve_client::ErrorKind::Unavailable {
        bail!("{error:?}");
    }
    Ok(())
}
