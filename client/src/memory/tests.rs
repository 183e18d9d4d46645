//! Tests of the host in this process.

use std::{
    sync::{Barrier, atomic::AtomicU32},
    time::Duration,
};

use futures::StreamExt as _;
use helve_machine::query::tenant_usage;
use helve_proto::v1::{ChangeKind, GetRequest};

use super::*;
use crate::{
    error::ErrorKind,
    handle_store::{HandleStore, HandleStoreExt},
    handles::HandleOptions,
    keys::KeyOptions,
    owner::Owner,
    record::Resolved,
    state_tool::StateTool,
    ttl::Ttl,
    watch::Watch,
};

#[tokio::test]
async fn minting_fails_when_entropy_fails_and_other_writes_go_on() {
    let host = MemoryBuilder {
        entropy: |_| Err(getrandom::Error::UNSUPPORTED),
        ..MemoryBuilder::new()
    };
    let store = host
        .build()
        .unwrap()
        .handles::<u32>(HandleOptions::shared("s"));
    let refused = store.mint(&1, Ttl::Default).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Entropy);
    assert!(!store.put("a", &1, Ttl::Default).await.unwrap());
    assert_eq!(store.len().await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_gc_interval_removes_the_rows_of_what_has_expired() {
    let memory = MemoryBuilder::new()
        .gc_interval(Duration::from_millis(10))
        .host()
        .unwrap();
    let client = Client::new(Arc::clone(&memory) as Arc<dyn Backend>);
    let store = client.handles::<String>(HandleOptions::shared("s"));
    let hour = Ttl::After(Duration::from_secs(3600));
    for id in 0..50 {
        store
            .put(&id.to_string(), &"value".repeat(100), hour)
            .await
            .unwrap();
    }
    let records = || {
        let host = memory.host().unwrap();
        tenant_usage(host.rows(), 1, "default").unwrap().rows
    };
    assert_eq!(records(), 50);
    tokio::time::advance(Duration::from_secs(3700)).await;
    // Counts rows, not live handles: nothing but the collector removes them here.
    while records() > 0 {
        tokio::time::advance(Duration::from_millis(10)).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(store.resolve("7").await.unwrap(), Resolved::Expired);
}

#[tokio::test(start_paused = true)]
async fn hosts_own_session_is_opened_again_after_it_expired() {
    let client = MemoryBuilder::new().build().unwrap();
    let store = client.handles::<u32>(HandleOptions::shared("s"));
    store.put("a", &1, Ttl::Default).await.unwrap();
    tokio::time::advance(Duration::from_secs(48 * 3600)).await;
    assert!(store.put("a", &2, Ttl::Default).await.unwrap());
    let read = store.get("a").await.unwrap();
    assert_eq!(read, Some(2));
}

/// All read the same revision before any of them writes: fifteen must try again.
#[tokio::test(flavor = "multi_thread", worker_threads = 16)]
async fn sixteen_updaters_that_collide_lose_nothing() {
    let client = MemoryBuilder::new().build().unwrap();
    let store = client.handles::<u64>(HandleOptions::shared("s"));
    let id = store.mint(&0, Ttl::Default).await.unwrap();
    let all_have_read = Arc::new(Barrier::new(16));
    let rounds = Arc::new(AtomicU32::new(0));
    let updates = (0..16).map(|_| {
        let (store, id) = (store.clone(), id.clone());
        let (all_have_read, rounds) = (Arc::clone(&all_have_read), Arc::clone(&rounds));
        tokio::spawn(async move {
            let mut is_first = true;
            let change = |n| {
                rounds.fetch_add(1, Ordering::Relaxed);
                if std::mem::take(&mut is_first) {
                    all_have_read.wait();
                }
                n + 1
            };
            store.update(&id, change).await.unwrap().live().unwrap();
        })
    });
    for update in updates.collect::<Vec<_>>() {
        update.await.unwrap();
    }
    assert_eq!(store.get(&id).await.unwrap(), Some(16));
    assert!(
        rounds.load(Ordering::Relaxed) >= 31,
        "fifteen of the first sixteen collided"
    );
}

#[tokio::test]
async fn a_value_of_another_type_is_a_codec_error_and_stays() {
    let client = MemoryBuilder::new().build().unwrap();
    let texts = client.handles::<String>(HandleOptions::shared("s"));
    let numbers = client.handles::<u32>(HandleOptions::shared("s"));
    texts
        .put("a", &"text".to_owned(), Ttl::Default)
        .await
        .unwrap();
    let failed = numbers.get("a").await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Codec);
    assert_eq!(texts.get("a").await.unwrap().as_deref(), Some("text"));
}

#[tokio::test]
async fn reply_says_the_index_of_its_view() {
    let client = MemoryBuilder::new().build().unwrap();
    let store = client.handles::<u32>(HandleOptions::shared("s"));
    store.put("a", &1, Ttl::Default).await.unwrap();
    let request = GetRequest {
        store: "s".to_owned(),
        id: "a".to_owned(),
        ..GetRequest::default()
    };
    let reply = client.call(request).await.unwrap();
    let (header, info) = (reply.header.unwrap(), reply.info.unwrap());
    assert!(header.index >= info.revision && info.revision > 0);
    assert!(header.clock_ms >= info.created_at_ms);
}

/// Not by time, which a fast machine hides: a page of a few among many reads a few rows, wherever it begins.
#[tokio::test]
async fn a_page_of_a_list_reads_about_as_many_rows_as_it_lists() {
    const MANY: usize = 3_000;
    const LISTED: usize = 10;
    let memory = MemoryBuilder::new().host().unwrap();
    let client = Client::new(Arc::clone(&memory) as Arc<dyn Backend>);
    let keys = client.keys(KeyOptions::shared());
    let handles = client.handles::<usize>(HandleOptions::shared("s"));
    let name = |number: usize| format!("name-{number:05}");
    for number in 0..MANY {
        keys.store(&name(number), &number.into()).await.unwrap();
        handles
            .put(&name(number), &number, Ttl::Default)
            .await
            .unwrap();
    }
    let read = || memory.host().unwrap().rows().take_read();
    read();
    for after in [None, Some(name(MANY / 2))] {
        let first = after.as_ref().map_or(0, |_| MANY / 2 + 1);
        let expected: Vec<_> = (first..first + LISTED).map(name).collect();
        let page = keys.list_page("name-", after.as_deref(), LISTED).await;
        let listed: Vec<_> = page
            .unwrap()
            .items
            .into_iter()
            .map(|key| key.name)
            .collect();
        assert_eq!(listed, expected);
        let rows = read();
        assert!(rows <= 2 * LISTED, "{rows} rows for {LISTED} keys");
        let page = handles.list_page(after.as_deref(), LISTED).await;
        let listed: Vec<_> = page
            .unwrap()
            .items
            .into_iter()
            .map(|item| item.name)
            .collect();
        assert_eq!(listed, expected);
        let rows = read();
        assert!(rows <= 2 * LISTED, "{rows} rows for {LISTED} handles");
    }
}

#[tokio::test(start_paused = true)]
async fn watch_tells_changes_until_the_host_is_closed() {
    let client = MemoryBuilder::new()
        .gc_interval(Duration::from_secs(1))
        .build()
        .unwrap();
    let keys = client.keys(KeyOptions::shared());
    let first = keys.store_record("a", &1.into(), Ttl::Never).await.unwrap();
    let mut changes = client
        .watch(Watch::keys(Owner::shared(), ""))
        .await
        .unwrap();
    assert_eq!(changes.revision(), first.revision);
    let short = Ttl::After(Duration::from_millis(500));
    keys.store_record("b", &1.into(), short).await.unwrap();
    keys.delete("a").await.unwrap();
    let mut told = Vec::new();
    while told.len() < 3 {
        told.extend(changes.next().await.unwrap().unwrap().changes);
    }
    let kinds = told.iter().map(|change| (change.kind, &*change.info.name));
    let expected = [
        (ChangeKind::Put, "b"),
        (ChangeKind::Deleted, "a"),
        (ChangeKind::Expired, "b"),
    ];
    assert!(kinds.eq(expected), "{told:?}");
    let replay = Watch::keys(Owner::shared(), "").after(first.revision);
    let mut again = client.watch(replay).await.unwrap();
    let replayed = again.next().await.unwrap().unwrap();
    assert_eq!(replayed.changes, told);
    client.close();
    let closed = changes.next().await.unwrap().unwrap_err();
    assert_eq!(closed.kind(), ErrorKind::Closed);
    assert!(changes.next().await.is_none());
}
