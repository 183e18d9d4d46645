//! Caxton's state tool.

use std::sync::Arc;

use helve_client::{Error, ErrorKind, Record, StateTool, StoreOutcome, Ttl};
use helve_proto::Reason;
use serde_json::{Value, json};

use crate::{
    setup::{HOUR, SHORT, together, wait_until},
    tool::ToolSetup,
};

const HOUR_MS: u64 = 3_600_000;

pub(super) async fn store_retrieve_delete_exists(setup: ToolSetup) -> Result<(), Error> {
    let tool: Arc<dyn StateTool> = setup.tool(0);
    assert_eq!(tool.retrieve("k").await?, None);
    assert!(!tool.exists("k").await?);
    let value = json!({"nested": [1, null, "text"], "n": 1.5});
    tool.store("k", &value).await?;
    assert_eq!(tool.retrieve("k").await?, Some(value));
    tool.store("k", &Value::Null).await?;
    assert_eq!(tool.retrieve("k").await?, Some(Value::Null));
    assert!(tool.exists("k").await?);
    tool.delete("k").await?;
    tool.delete("k").await?;
    assert!(!tool.exists("k").await?);
    tool.close();
    let closed = tool.exists("k").await.err().map(|error| error.kind());
    assert_eq!(closed, Some(ErrorKind::Closed));
    Ok(())
}

pub(super) async fn list_has_full_keys_in_order(setup: ToolSetup) -> Result<(), Error> {
    let tool = setup.tool(0);
    let keys = [
        "logs/2",
        "logs/10",
        "logs",
        "log",
        "checkpoints/a/latest",
        "logs/1/x",
        "z",
    ];
    for key in keys {
        tool.store(key, &json!(key)).await?;
    }
    assert_eq!(tool.list("logs/").await?, ["logs/1/x", "logs/10", "logs/2"]);
    let all = [
        "checkpoints/a/latest",
        "log",
        "logs",
        "logs/1/x",
        "logs/10",
        "logs/2",
        "z",
    ];
    assert_eq!(tool.list("").await?, all);
    assert!(tool.list("logs/3").await?.is_empty());
    let values = tool.list_values("log").await?;
    let values: Vec<_> = values
        .items
        .into_iter()
        .map(|record| record.value)
        .collect();
    assert_eq!(
        values,
        ["log", "logs", "logs/1/x", "logs/10", "logs/2"].map(Value::from)
    );
    Ok(())
}

pub(super) async fn a_key_may_hold_any_text_but_nul(setup: ToolSetup) -> Result<(), Error> {
    let tool = setup.tool(0);
    let mut keys = [
        "../../etc",
        "//",
        "/",
        " ",
        "\u{1}",
        "\u{ff}",
        "\u{10ffff}",
        "a\nb",
        "%00",
    ];
    for key in keys {
        tool.store(key, &json!(key)).await?;
    }
    for key in keys {
        assert_eq!(tool.retrieve(key).await?, Some(json!(key)));
    }
    keys.sort_unstable();
    assert_eq!(tool.list("").await?, keys);
    assert_eq!(tool.list("/").await?, ["/", "//"]);
    assert_eq!(tool.list("\u{10ffff}").await?, ["\u{10ffff}"]);
    Ok(())
}

pub(super) async fn batch_store_is_all_or_nothing(setup: ToolSetup) -> Result<(), Error> {
    let tool = setup.tool(0);
    let items = ["a", "b", "c"].map(|key| (key.to_owned(), json!(key)));
    tool.batch_store(&items).await?;
    let listing = tool.list_infos("").await?;
    let revisions: Vec<_> = listing.items.iter().map(|info| info.revision).collect();
    assert_eq!(revisions.len(), 3);
    if tool.promises().atomic_batch {
        assert!(revisions.iter().all(|revision| *revision == revisions[0]));
    }
    let again = ["c", "d"].map(|key| (key.to_owned(), json!([key])));
    tool.batch_store(&again).await?;
    let values = tool.list_values("").await?.items.into_iter();
    let values: Vec<_> = values.map(|record| record.value).collect();
    assert_eq!(values, [json!("a"), json!("b"), json!(["c"]), json!(["d"])]);
    tool.delete("d").await?;

    let flawed = [("d".to_owned(), json!(1)), (String::new(), json!(2))];
    assert_eq!(
        kind(tool.batch_store(&flawed).await),
        Some(ErrorKind::Invalid)
    );
    assert_eq!(tool.list("").await?, ["a", "b", "c"]);
    Ok(())
}

pub(super) async fn batch_retrieve_keeps_the_order(setup: ToolSetup) -> Result<(), Error> {
    let tool = setup.tool(0);
    tool.store("a", &json!(1)).await?;
    tool.store("b", &json!(2)).await?;
    let keys = ["b", "missing", "a", "b"].map(str::to_owned);
    let values = tool.batch_retrieve(&keys).await?;
    assert_eq!(
        values,
        [Some(json!(2)), None, Some(json!(1)), Some(json!(2))]
    );
    Ok(())
}

pub(super) async fn store_if_writes_only_on_the_revision(setup: ToolSetup) -> Result<(), Error> {
    let tool = setup.tool(0);
    let StoreOutcome::Created(info) = tool.store_if("k", &json!(1), Ttl::Default, 0).await? else {
        panic!("there was no such key");
    };
    let revision = info.revision;
    let conflict = tool.store_if("k", &json!(2), Ttl::Default, 0).await?;
    assert_eq!(conflict, StoreOutcome::Conflict { revision });
    let replaced = tool
        .store_if("k", &json!(3), Ttl::Default, revision)
        .await?;
    assert!(matches!(replaced, StoreOutcome::Replaced(_)));
    let record = tool.retrieve_record("k").await?.expect("it never expires");
    assert!(record.revision() > revision);
    assert_eq!(record.value, json!(3));
    let conflict = tool
        .store_if("gone", &json!(1), Ttl::Default, revision)
        .await?;
    assert_eq!(conflict, StoreOutcome::Conflict { revision: 0 });
    // What is deleted and stored again is another one.
    tool.delete("k").await?;
    tool.store("k", &json!(4)).await?;
    let stale = tool
        .store_if("k", &json!(5), Ttl::Default, record.revision())
        .await?;
    assert!(matches!(stale, StoreOutcome::Conflict { .. }), "{stale:?}");
    assert_eq!(tool.retrieve("k").await?, Some(json!(4)));
    Ok(())
}

pub(super) async fn a_store_answers_its_revision(setup: ToolSetup) -> Result<(), Error> {
    let tool = setup.tool(0);
    let first = tool.store_record("k", &json!("one"), Ttl::Never).await?;
    assert_eq!((first.name.as_str(), first.value_bytes), ("k", 5));
    assert_eq!(first.expires_at_ms, None);
    let second = tool.store_record("k", &json!("two"), Ttl::Never).await?;
    assert_ne!(second.revision, first.revision);
    assert_eq!(second.created_at_ms, first.created_at_ms);
    assert!(second.updated_at_ms >= first.updated_at_ms);
    let record = tool.retrieve_record("k").await?.expect("it never expires");
    assert_eq!((record.info.clone(), record.value), (second, json!("two")));
    assert_eq!(
        tool.list_infos("").await?.items,
        std::slice::from_ref(&record.info)
    );
    assert_eq!(tool.list_values("").await?.items[0].info, record.info);
    if tool.promises().ordered_revisions {
        assert!(tool.list_infos("").await?.revision >= record.info.revision);
        let other = tool.store_record("a", &json!(1), Ttl::Never).await?;
        assert!(other.revision > record.info.revision);
    }
    Ok(())
}

pub(super) async fn one_of_sixteen_stores_at_one_revision_wins(
    setup: ToolSetup,
) -> Result<(), Error> {
    let mut revision = 0;
    for round in 0..3 {
        let stores = (0..16).map(|caller| {
            let (tool, value) = (setup.tool(caller), json!([round, caller]));
            async move { tool.store_if("k", &value, Ttl::Keep, revision).await }
        });
        let outcomes = together(stores).await?;
        let won = outcomes
            .iter()
            .enumerate()
            .filter_map(|(caller, outcome)| match outcome {
                StoreOutcome::Created(info) | StoreOutcome::Replaced(info) => Some((caller, info)),
                StoreOutcome::Conflict { .. } => None,
            });
        let won: Vec<_> = won.collect();
        let [(caller, info)] = won[..] else {
            panic!("{} of sixteen won", won.len());
        };
        let record = setup.tool(1).retrieve_record("k").await?;
        let record = record.expect("it never expires");
        assert_eq!(record.value, json!([round, caller]));
        assert_eq!(record.info, *info);
        revision = info.revision;
    }
    Ok(())
}

pub(super) async fn keys_expire_and_are_then_absent(setup: ToolSetup) -> Result<(), Error> {
    let tool = setup.tool(0);
    if !tool.promises().ttl {
        return Ok(());
    }
    tool.store_record("k", &json!(1), Ttl::After(SHORT)).await?;
    wait_until("the key expires", async || Ok(!tool.exists("k").await?)).await?;
    assert_eq!(tool.retrieve("k").await?, None);
    assert!(tool.list("").await?.is_empty());
    assert!(tool.list_values("").await?.items.is_empty());
    assert_eq!(tool.batch_retrieve(&["k".to_owned()]).await?, [None]);
    let created = tool.store_if("k", &json!(2), Ttl::After(HOUR), 0).await?;
    assert!(matches!(created, StoreOutcome::Created(_)), "{created:?}");
    let Some(Record { info, value }) = tool.retrieve_record("k").await? else {
        panic!("an hour is long");
    };
    assert_eq!(value, json!(2));
    assert_eq!(info.created_at_ms, info.updated_at_ms);
    assert_eq!(info.expires_at_ms, Some(info.updated_at_ms + HOUR_MS));
    Ok(())
}

pub(super) async fn a_lifetime_is_kept_or_refused(setup: ToolSetup) -> Result<(), Error> {
    let tool = setup.tool(0);
    let limited = tool.store_record("k", &json!(1), Ttl::After(HOUR)).await;
    if !tool.promises().ttl {
        assert_eq!(kind(limited), Some(ErrorKind::Unsupported));
        assert!(!tool.exists("k").await?);
        return Ok(());
    }
    let deadline = limited?.expires_at_ms;
    assert!(deadline.is_some());
    let kept = tool.store_record("k", &json!(2), Ttl::Keep).await?;
    assert_eq!(kept.expires_at_ms, deadline);
    let never = tool.store_record("k", &json!(3), Ttl::Never).await?;
    assert_eq!(never.expires_at_ms, None);
    let refused = tool
        .store_record("k", &json!(4), Ttl::After(std::time::Duration::ZERO))
        .await;
    let reason = refused.err().and_then(|error| error.reason());
    assert_eq!(reason, Some(Reason::BadLifetime));

    let limited = setup.tool_with_ttl(0, HOUR)?;
    limited.store("by default", &json!(1)).await?;
    let record = limited
        .retrieve_record("by default")
        .await?
        .expect("an hour is long");
    assert_eq!(
        record.info.expires_at_ms,
        Some(record.info.updated_at_ms + HOUR_MS)
    );
    let items = ["a", "b"].map(|key| (key.to_owned(), json!(1)));
    limited.batch_store(&items).await?;
    for info in limited.list_infos("").await?.items {
        assert_eq!(
            info.expires_at_ms.is_some(),
            info.name != "k",
            "{}",
            info.name
        );
    }
    Ok(())
}

pub(super) async fn bad_keys_and_batches_are_refused(setup: ToolSetup) -> Result<(), Error> {
    let tool = setup.tool(0);
    let long = "k".repeat(setup.key_bytes_max() + 1);
    for key in ["", "a\0b", &long] {
        let said = [
            kind(tool.store(key, &json!(1)).await),
            kind(tool.store_if(key, &json!(1), Ttl::Never, 0).await),
            kind(tool.retrieve(key).await),
            kind(tool.exists(key).await),
            kind(tool.delete(key).await),
            kind(tool.batch_store(&[(key.to_owned(), json!(1))]).await),
            kind(tool.batch_retrieve(&[key.to_owned()]).await),
        ];
        assert_eq!(said, [Some(ErrorKind::Invalid); 7], "{key:?}");
    }
    let large = Value::String("v".repeat(1 << 20));
    assert_eq!(
        kind(tool.store("k", &large).await),
        Some(ErrorKind::Invalid)
    );
    let item = |number: usize| (format!("k{number}"), json!(1));
    let twice = [item(1), item(2), item(1)];
    assert_eq!(
        kind(tool.batch_store(&twice).await),
        Some(ErrorKind::Invalid)
    );
    let many: Vec<_> = (0..129).map(item).collect();
    assert_eq!(
        kind(tool.batch_store(&many).await),
        Some(ErrorKind::Invalid)
    );
    let keys: Vec<_> = many.into_iter().map(|(key, _)| key).collect();
    assert_eq!(
        kind(tool.batch_retrieve(&keys).await),
        Some(ErrorKind::Invalid)
    );
    assert!(tool.list("").await?.is_empty());
    Ok(())
}

pub(super) async fn the_largest_key_and_value_are_kept(setup: ToolSetup) -> Result<(), Error> {
    let tool = setup.tool(0);
    let bytes = setup.key_bytes_max();
    // The quotes count.
    let large = Value::String("v".repeat((1 << 20) - 2));
    let mut keys = [
        "k".repeat(bytes),
        "/".repeat(bytes / 2),
        "\u{1f511}".repeat(bytes / 12),
    ];
    for key in &keys {
        tool.store(key, &json!(key.len())).await?;
    }
    tool.store(&keys[0], &large).await?;
    assert_eq!(tool.retrieve(&keys[0]).await?, Some(large));
    keys.sort_unstable();
    assert_eq!(tool.list("").await?, keys);
    let many: Vec<_> = (0..128)
        .map(|number| (format!("{number:03}"), json!(number)))
        .collect();
    tool.batch_store(&many).await?;
    let keys: Vec<_> = many.iter().map(|(key, _)| key.clone()).collect();
    let values = tool.batch_retrieve(&keys).await?;
    assert_eq!(
        values,
        (0..128)
            .map(|number| Some(json!(number)))
            .collect::<Vec<_>>()
    );
    Ok(())
}

fn kind<O>(outcome: Result<O, Error>) -> Option<ErrorKind> {
    outcome.err().map(|error| error.kind())
}

pub(super) async fn closed_keys_say_so(setup: ToolSetup) -> Result<(), Error> {
    let (closed, open) = (setup.tool(0), setup.tool(0));
    closed.store("k", &json!(1)).await?;
    closed.close();
    closed.close();
    let said = [
        closed.store("k", &json!(2)).await,
        closed
            .store_if("k", &json!(2), Ttl::Never, 0)
            .await
            .map(drop),
        closed.retrieve("k").await.map(drop),
        closed.delete("k").await,
        closed.exists("k").await.map(drop),
        closed.list("").await.map(drop),
        closed.list_values("").await.map(drop),
        closed.batch_store(&[("k".to_owned(), json!(2))]).await,
        closed.batch_retrieve(&["k".to_owned()]).await.map(drop),
    ];
    for said in said {
        let kind = said.err().map(|error| error.kind());
        assert_eq!(kind, Some(ErrorKind::Closed));
    }
    assert_eq!(open.retrieve("k").await?, Some(json!(1)));
    Ok(())
}
