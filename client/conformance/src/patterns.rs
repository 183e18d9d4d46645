//! Caxton's patterns: versions, logs, conflict resolution, isolation.

use std::sync::Arc;

use helve_client::{Error, ErrorKind, StateTool, StoreOutcome, Ttl};
use helve_state::{EventLog, Prefixed, Resolution, Settled, StateToolExt, Versions};
use serde_json::{Value, json};

use crate::{setup::together, tool::ToolSetup};

pub(super) async fn sixteen_saves_get_sixteen_versions(setup: ToolSetup) -> Result<(), Error> {
    let saves = (0..16).map(|caller| {
        let versions = Versions::new(setup.tool(caller), "agent");
        async move { Ok((versions?.save(&json!(caller)).await?, caller)) }
    });
    let mut saved = together(saves).await?;
    saved.sort_unstable();
    let numbers: Vec<_> = saved.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (1..=16).collect::<Vec<_>>());
    let versions = Versions::new(setup.tool(0), "agent")?;
    assert_eq!(versions.list().await?, numbers);
    for (number, caller) in saved {
        let version = versions.at(number).await?.expect("it was saved");
        assert_eq!(version.record.value, json!(caller));
    }
    Ok(())
}

pub(super) async fn versions_are_loaded_listed_and_pruned(setup: ToolSetup) -> Result<(), Error> {
    let tool = setup.tool(0);
    let versions = Versions::new(Arc::clone(&tool), "a")?;
    assert_eq!(versions.latest().await?, None);
    // A neighbour whose name begins alike.
    Versions::new(Arc::clone(&tool), "a2")?
        .save(&json!("other"))
        .await?;
    for number in 1..=11 {
        assert_eq!(versions.save(&json!({ "n": number })).await?, number);
    }
    assert_eq!(
        tool.retrieve("checkpoints/a/v11").await?,
        Some(json!({ "n": 11 }))
    );
    tool.store("checkpoints/a/v0x", &json!("no version"))
        .await?;
    assert_eq!(versions.list().await?, (1..=11).collect::<Vec<_>>());
    let latest = versions.latest().await?.expect("eleven were saved");
    assert_eq!(
        (latest.number, latest.record.value),
        (11, json!({ "n": 11 }))
    );
    assert_eq!(versions.at(12).await?, None);
    assert_eq!(versions.prune(2).await?, (1..=9).collect::<Vec<_>>());
    assert_eq!(versions.list().await?, [10, 11]);
    assert_eq!(versions.prune(0).await?, [10]);
    assert_eq!(versions.list().await?, [11]);
    Ok(())
}

pub(super) async fn a_pruned_number_is_not_given_again(setup: ToolSetup) -> Result<(), Error> {
    let tool = setup.tool(0);
    let versions = Versions::of_family(Arc::clone(&tool), "states", "a")?;
    // Saved by somebody who knows the layout alone.
    tool.store("states/a/v3", &json!("foreign")).await?;
    assert_eq!(versions.save(&json!(4)).await?, 4);
    tool.delete("states/a/v4").await?;
    assert_eq!(versions.save(&json!(5)).await?, 5);
    let exists = versions.save_at(5, &json!("again")).await?;
    assert!(
        matches!(exists, StoreOutcome::Conflict { .. }),
        "{exists:?}"
    );
    let created = versions.save_at(9, &json!(9)).await?;
    assert!(matches!(created, StoreOutcome::Created(_)), "{created:?}");
    assert_eq!(versions.save(&json!(10)).await?, 10);
    assert_eq!(versions.list().await?, [3, 5, 9, 10]);
    let zero = versions.save_at(0, &json!(0)).await.err();
    assert_eq!(zero.map(|error| error.kind()), Some(ErrorKind::Invalid));
    for id in ["", "a/b", "a\0b"] {
        let refused = Versions::new(Arc::clone(&tool), id).err();
        assert_eq!(refused.map(|error| error.kind()), Some(ErrorKind::Invalid));
    }
    Ok(())
}

pub(super) async fn events_of_sixteen_appends_are_in_order_and_none_is_lost(
    setup: ToolSetup,
) -> Result<(), Error> {
    let appends = (0..16).map(|caller| {
        let log = EventLog::new(setup.tool(caller), "agent");
        async move {
            let log = log?;
            let mut keys = Vec::new();
            for number in 0..4 {
                keys.push(log.append(&json!([caller, number])).await?);
            }
            Ok(keys)
        }
    });
    let appended = together(appends).await?;
    let replay = EventLog::new(setup.tool(0), "agent")?
        .replay_since(0)
        .await?;
    let keys: Vec<_> = replay
        .events
        .iter()
        .map(|event| event.record.name())
        .collect();
    assert!(keys.is_sorted() && keys.len() == 64, "{keys:?}");
    for (caller, mine) in appended.iter().enumerate() {
        let of_caller = |value: &Value| value[0] == json!(caller);
        let events = replay
            .events
            .iter()
            .filter(|event| of_caller(&event.record.value));
        let events: Vec<_> = events.map(|event| event.record.name()).collect();
        // One writer's events are in the order in which it wrote them, wherever revisions or time tell.
        assert_eq!(events, *mine, "of {caller}");
    }
    let mut revisions: Vec<_> = replay.events.iter().map(|event| event.revision).collect();
    revisions.sort_unstable();
    revisions.dedup();
    assert_eq!(revisions.len(), 64);
    Ok(())
}

pub(super) async fn a_replay_begins_at_its_time(setup: ToolSetup) -> Result<(), Error> {
    let tool = setup.tool(0);
    let log = EventLog::new(Arc::clone(&tool), "a")?;
    assert!(log.replay_since(0).await?.events.is_empty());
    for number in 0..3 {
        log.append(&json!(number)).await?;
    }
    EventLog::new(Arc::clone(&tool), "a2")?
        .append(&json!("other"))
        .await?;
    tool.store("logs/a/latest", &json!("no event")).await?;
    let all = log.replay_since(0).await?.events;
    let values: Vec<_> = all.iter().map(|event| event.record.value.clone()).collect();
    assert_eq!(values, [json!(0), json!(1), json!(2)]);
    for since in &all {
        let replay = log.replay_since(since.at_ms).await?.events;
        let expected = all.iter().filter(|event| event.at_ms >= since.at_ms);
        assert!(replay.iter().eq(expected));
    }
    let end_ms = all[2].at_ms + 1;
    assert!(log.replay_since(end_ms).await?.events.is_empty());
    assert_eq!(log.prune_before(all[0].at_ms).await?, 0);
    assert_eq!(log.prune_before(end_ms).await?, 3);
    assert!(log.replay_since(0).await?.events.is_empty());
    assert!(tool.exists("logs/a/latest").await?);
    Ok(())
}

pub(super) async fn a_series_of_replays_has_each_event_once(setup: ToolSetup) -> Result<(), Error> {
    let log = EventLog::new(setup.tool(0), "a")?;
    if !setup.tool(0).promises().ordered_revisions {
        let refused = log.replay_after(0).await.err();
        assert_eq!(
            refused.map(|error| error.kind()),
            Some(ErrorKind::Unsupported)
        );
        return Ok(());
    }
    let writers = (0..4).map(|caller| {
        let log = EventLog::new(setup.tool(caller), "a");
        async move {
            let log = log?;
            for number in 0..8 {
                log.append(&json!([caller, number])).await?;
            }
            Ok(())
        }
    });
    let mut writing = tokio::spawn(together(writers.collect::<Vec<_>>().into_iter()));
    let (mut seen, mut cursor, mut is_over) = (Vec::new(), 0, false);
    while !is_over {
        is_over = tokio::select! {
            biased;
            written = &mut writing => written.expect("no writer panics").map(|_| true)?,
            () = tokio::task::yield_now() => false,
        };
        let replay = log.replay_after(cursor).await?;
        let values = replay
            .events
            .into_iter()
            .map(|event| event.record.value.to_string());
        seen.extend(values);
        cursor = replay.cursor;
    }
    seen.sort_unstable();
    let expected =
        (0..4).flat_map(|caller| (0..8).map(move |number| format!("[{caller},{number}]")));
    assert_eq!(seen, expected.collect::<Vec<_>>());
    Ok(())
}

pub(super) async fn updates_of_sixteen_callers_lose_nothing(setup: ToolSetup) -> Result<(), Error> {
    let updates = (0..16).map(|caller| {
        let tool = setup.tool(caller);
        async move {
            let add = |found: Option<Value>| {
                let mut seen = found.unwrap_or_else(|| json!([]));
                seen.as_array_mut()
                    .expect("it is a list")
                    .push(json!(caller));
                seen
            };
            tool.update("k", add).await
        }
    });
    together(updates).await?;
    let found = setup
        .tool(0)
        .retrieve("k")
        .await?
        .expect("it never expires");
    let mut seen: Vec<_> = found
        .as_array()
        .expect("it is a list")
        .iter()
        .map(Value::as_u64)
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..16).map(Some).collect::<Vec<_>>());
    Ok(())
}

pub(super) async fn a_contested_store_is_resolved(setup: ToolSetup) -> Result<(), Error> {
    let tool = setup.tool(0);
    let base = tool.store_record("k", &json!(["base"]), Ttl::Never).await?;
    let never = |_: helve_state::Contested<'_>| -> Resolution { panic!("no other writer wrote") };
    let settled = tool
        .store_resolving("k", &json!(["mine"]), base.revision, never)
        .await?;
    assert!(matches!(settled, Settled::Stored(_)), "{settled:?}");

    // The base is outdated now; another write comes between the first resolution and its store.
    let mut met = Vec::new();
    let other = setup.tool(1);
    let settled = tool
        .store_resolving("k", &json!(["late"]), base.revision, |contested| {
            let theirs = contested
                .theirs
                .expect("no writer deletes it")
                .value
                .clone();
            assert_eq!(*contested.mine, json!(["late"]));
            met.push(theirs.clone());
            if met.len() == 1 {
                let other = Arc::clone(&other);
                let store = async move { other.store("k", &json!(["between"])).await };
                let stored = std::thread::scope(|scope| {
                    let runtime = tokio::runtime::Handle::current();
                    scope.spawn(move || runtime.block_on(store)).join()
                });
                stored.expect("it does not panic").expect("it is stored");
            }
            Resolution::Store(json!([theirs, contested.mine]))
        })
        .await?;
    assert_eq!(met, [json!(["mine"]), json!(["between"])]);
    let Settled::Stored(record) = settled else {
        panic!("{settled:?}");
    };
    assert_eq!(record.value, json!([["between"], ["late"]]));
    assert_eq!(tool.retrieve_record("k").await?, Some(record));

    let keep = |_: helve_state::Contested<'_>| Resolution::KeepTheirs;
    let kept = tool
        .store_resolving("k", &json!(1), base.revision, keep)
        .await?;
    assert_eq!(kept, Settled::Kept(tool.retrieve_record("k").await?));
    tool.delete("k").await?;
    let kept = tool
        .store_resolving("k", &json!(1), base.revision, keep)
        .await?;
    assert_eq!(kept, Settled::Kept(None));
    Ok(())
}

pub(super) async fn agents_cannot_leave_their_prefix(setup: ToolSetup) -> Result<(), Error> {
    let all = setup.tool(0);
    let agent = |id: &str| Prefixed::for_agent(Arc::clone(&all), id);
    let (mine, theirs) = (agent("a")?, agent("a..")?);
    theirs.store("k", &json!("theirs")).await?;
    all.store("k", &json!("outside")).await?;
    all.store("agents/a", &json!("outside")).await?;
    all.store("agents/a/", &json!("outside")).await?;
    for key in ["k", "../a../k", "/k", "../../k", "."] {
        assert_eq!(mine.retrieve(key).await?, None, "{key}");
        assert!(!mine.exists(key).await?, "{key}");
        mine.delete(key).await?;
        mine.store(key, &json!(key)).await?;
        assert_eq!(mine.retrieve(key).await?, Some(json!(key)));
        assert_eq!(
            all.retrieve(&format!("agents/a/{key}")).await?,
            Some(json!(key))
        );
    }
    let mut keys = ["k", "../a../k", "/k", "../../k", "."];
    keys.sort_unstable();
    assert_eq!(mine.list("").await?, keys);
    assert_eq!(mine.list("../").await?, ["../../k", "../a../k"]);
    let infos = mine.list_infos("").await?.items;
    assert!(infos.iter().map(|info| info.name.as_str()).eq(keys));
    let values = mine.list_values("").await?.items;
    assert!(
        values
            .iter()
            .map(|record| record.value.clone())
            .eq(keys.map(Value::from))
    );
    assert_eq!(theirs.list("").await?, ["k"]);
    assert_eq!(theirs.retrieve("k").await?, Some(json!("theirs")));
    for id in ["", "a/b", "a\0"] {
        assert_eq!(
            agent(id).err().map(|error| error.kind()),
            Some(ErrorKind::Invalid)
        );
    }
    let empty = mine
        .store("", &json!(1))
        .await
        .err()
        .map(|error| error.kind());
    assert_eq!(empty, Some(ErrorKind::Invalid));
    let record = mine.store_record("k", &json!(2), Ttl::Never).await?;
    assert_eq!(record.name, "k");
    mine.batch_store(&[("b".to_owned(), json!(1))]).await?;
    let both = mine
        .batch_retrieve(&["b".to_owned(), "k".to_owned()])
        .await?;
    assert_eq!(both, [Some(json!(1)), Some(json!(2))]);
    mine.close();
    let closed = mine.list("").await.err().map(|error| error.kind());
    assert_eq!(closed, Some(ErrorKind::Closed));
    assert_eq!(theirs.retrieve("k").await?, Some(json!("theirs")));
    Ok(())
}
