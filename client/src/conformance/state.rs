//! Caxton's state tool.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Setup;
use crate::{
    error::{Error, ErrorKind},
    state_tool::{StateTool, StoreOutcome},
    ttl::Ttl,
};

pub(super) async fn store_retrieve_delete_exists(setup: Setup) -> Result<(), Error> {
    let tool: Arc<dyn StateTool> = Arc::new(setup.keys(0));
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

pub(super) async fn list_has_full_keys_in_order(setup: Setup) -> Result<(), Error> {
    let tool = setup.keys(0);
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

pub(super) async fn a_key_may_hold_any_text_but_nul(setup: Setup) -> Result<(), Error> {
    let tool = setup.keys(0);
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

pub(super) async fn batch_store_is_all_or_nothing(setup: Setup) -> Result<(), Error> {
    let tool = setup.keys(0);
    let items = ["a", "b", "c"].map(|key| (key.to_owned(), json!(key)));
    tool.batch_store(&items).await?;
    let listing = tool.list_infos("").await?;
    let revisions: Vec<_> = listing.items.iter().map(|info| info.revision).collect();
    assert_eq!(revisions.len(), 3);
    assert!(revisions.iter().all(|revision| *revision == revisions[0]));

    let flawed = [("d".to_owned(), json!(1)), (String::new(), json!(2))];
    let refused = tool
        .batch_store(&flawed)
        .await
        .err()
        .map(|error| error.kind());
    assert_eq!(refused, Some(ErrorKind::Invalid));
    assert_eq!(tool.list("").await?, ["a", "b", "c"]);
    Ok(())
}

pub(super) async fn batch_retrieve_keeps_the_order(setup: Setup) -> Result<(), Error> {
    let tool = setup.keys(0);
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

pub(super) async fn store_if_writes_only_on_the_revision(setup: Setup) -> Result<(), Error> {
    let tool = setup.keys(0);
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
    Ok(())
}

pub(super) async fn closed_keys_say_so(setup: Setup) -> Result<(), Error> {
    let (closed, open) = (setup.keys(0), setup.keys(0));
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
