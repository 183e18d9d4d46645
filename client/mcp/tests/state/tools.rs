//! What the tools do.

use std::{collections::BTreeSet, time::Duration};

use helve_client::{KeyOptions, StateTool, v1::StoreRequest};
use helve_mcp::{
    serve::{Access, router},
    state::{
        Deleted, Existence, Listed, Retrieved, RetrievedBatch, Settings, Status, Stored,
        StoredBatch,
        gate::{Gate, Visible},
        server,
    },
};
use serde_json::{Value, json};

use crate::house::{ASKS, ASSUMES, Caller, House, READS, User, memory, settings};

#[tokio::test]
async fn what_is_stored_through_one_replica_is_retrieved_through_the_other() {
    let house = House::open(ASSUMES).await;
    let caller = house.caller(User::Absent).await;
    for (at, value) in [json!({"a": [1, null]}), json!(null), json!(""), json!(1.5)]
        .into_iter()
        .enumerate()
    {
        let stored: Stored = caller
            .done("store", json!({"key": "k", "value": value}))
            .await;
        let expected = if at == 0 {
            Status::Created
        } else {
            Status::Replaced
        };
        assert_eq!(stored.status, expected);
        let read: Retrieved = caller.done("retrieve", json!({"key": "k"})).await;
        assert_eq!((read.found, read.value), (true, Some(value)));
        assert_eq!(read.info.unwrap(), stored.info);
    }
    let there: Existence = caller.done("exists", json!({"key": "k"})).await;
    assert!(there.exists);
    let gone: Deleted = caller.done("delete", json!({"key": "k"})).await;
    assert!(gone.existed);
    let gone: Deleted = caller.done("delete", json!({"key": "k"})).await;
    assert!(!gone.existed);
    let read: Retrieved = caller.done("retrieve", json!({"key": "k"})).await;
    assert_eq!((read.found, read.value, read.info), (false, None, None));
    let there: Existence = caller.done("exists", json!({"key": "k"})).await;
    assert!(!there.exists);
}

#[tokio::test]
async fn a_store_on_a_revision_that_is_not_there_writes_nothing_and_says_the_one_that_is() {
    for gate in [ASSUMES, ASKS] {
        let house = House::open(gate).await;
        let caller = house.caller(User::Confirms).await;
        let first: Stored = caller
            .done("store", json!({"key": "k", "value": 1, "if_revision": 0}))
            .await;
        let revision = first.info.revision;
        for asked in [0, revision + 1] {
            let arguments = json!({"key": "k", "value": 2, "if_revision": asked});
            let refused = caller.refused("store", arguments).await;
            assert_eq!(refused.reason, "CONFLICT");
            assert_eq!(refused.revision, Some(revision));
        }
        let arguments = json!({"key": "k", "if_revision": revision + 1});
        assert_eq!(caller.refused("delete", arguments).await.reason, "CONFLICT");
        assert_eq!(caller.questions(), [""; 0], "no user was asked in vain");
        assert_eq!(house.keys().retrieve("k").await.unwrap(), Some(json!(1)));
        let arguments = json!({"key": "k", "value": 2, "if_revision": revision});
        let second: Stored = caller.done("store", arguments).await;
        assert!(second.info.revision > revision);
        let arguments = json!({"key": "k", "if_revision": second.info.revision});
        let gone: Deleted = caller.done("delete", arguments).await;
        assert!(gone.existed);
    }
}

#[tokio::test]
async fn a_batch_is_stored_whole_or_not_at_all_and_retrieved_in_the_order_asked_for() {
    let house = House::open(ASSUMES).await;
    let caller = house.caller(User::Absent).await;
    let _: Stored = caller.done("store", json!({"key": "b", "value": 0})).await;
    let items = json!([{"key": "a", "value": 1}, {"key": "b", "value": 2, "if_revision": 0}]);
    let refused = caller.refused("batch_store", json!({"items": items})).await;
    assert_eq!(refused.reason, "CONFLICT");
    assert!(refused.text.contains("\"b\""), "{}", refused.text);
    assert!(!house.keys().exists("a").await.unwrap());

    let items = json!([{"key": "a", "value": 1}, {"key": "b", "value": 2}]);
    let stored: StoredBatch = caller.done("batch_store", json!({"items": items})).await;
    let statuses: Vec<_> = stored.stored.iter().map(|one| one.status).collect();
    assert_eq!(statuses, [Status::Created, Status::Replaced]);
    let revisions: BTreeSet<_> = stored.stored.iter().map(|one| one.info.revision).collect();
    assert_eq!(revisions.len(), 1);

    let keys = json!({"keys": ["b", "none", "a", "b"]});
    let read: RetrievedBatch = caller.done("batch_retrieve", keys).await;
    let values: Vec<_> = read.keys.into_iter().map(|one| one.value).collect();
    let expected = [Some(json!(2)), None, Some(json!(1)), Some(json!(2))];
    assert_eq!(values, expected);
}

#[tokio::test]
async fn a_list_goes_on_where_it_ended() {
    let house = House::open(READS).await;
    let keys = house.keys();
    for key in ["a/1", "a/2", "a/3", "b"] {
        keys.store(key, &json!(key)).await.unwrap();
    }
    let caller = house.caller(User::Absent).await;
    let names = |listed: &Listed| -> Vec<String> {
        listed.keys.iter().map(|info| info.key.clone()).collect()
    };
    let all: Listed = caller.done("list", json!({})).await;
    assert_eq!(names(&all), ["a/1", "a/2", "a/3", "b"]);
    assert_eq!(all.next, None);
    let first: Listed = caller
        .done("list", json!({"prefix": "a/", "limit": 2}))
        .await;
    assert_eq!(names(&first), ["a/1", "a/2"]);
    let arguments = json!({"prefix": "a/", "limit": 2, "after": first.next.unwrap()});
    let rest: Listed = caller.done("list", arguments).await;
    assert_eq!(names(&rest), ["a/3"]);
    assert_eq!(rest.next, None);
    let exact: Listed = caller
        .done("list", json!({"prefix": "a/", "limit": 3}))
        .await;
    assert_eq!(exact.next, None, "there is nothing behind the last one");
}

/// Two replicas that give keys these lifetimes.
async fn mortal(change: impl Fn(&mut Settings)) -> House {
    let client = memory();
    let replica = |shutdown: &_| {
        let mut settings = settings(ASSUMES, &[7; 32]);
        change(&mut settings);
        let server = server(&client, settings);
        router(server, &Access::default(), shutdown)
    };
    House::of(&client, replica).await
}

/// How long a key lives from its last change on, in milliseconds; none: for ever.
async fn life(caller: &Caller, arguments: Value) -> Option<u64> {
    let stored: Stored = caller.done("store", arguments).await;
    let info = stored.info;
    Some(info.expires_at_ms? - info.updated_at_ms)
}

#[tokio::test]
async fn a_key_lives_as_long_as_the_call_or_else_the_operator_says() {
    let house = mortal(|settings| settings.default_ttl = Some(Duration::from_secs(60))).await;
    let caller = house.caller(User::Absent).await;
    let table = [
        (json!({"key": "a", "value": 1}), Some(60_000)),
        (
            json!({"key": "b", "value": 1, "lifetime": "default"}),
            Some(60_000),
        ),
        (
            json!({"key": "c", "value": 1, "ttl_ms": 90_000}),
            Some(90_000),
        ),
        (json!({"key": "d", "value": 1, "lifetime": "never"}), None),
    ];
    for (arguments, expected) in table {
        assert_eq!(life(&caller, arguments).await, expected);
    }
    let before: Retrieved = caller.done("retrieve", json!({"key": "c"})).await;
    let keep = json!({"key": "c", "value": 2, "lifetime": "keep"});
    let kept: Stored = caller.done("store", keep).await;
    assert_eq!(kept.info.expires_at_ms, before.info.unwrap().expires_at_ms);

    let house = House::open(ASSUMES).await;
    let caller = house.caller(User::Absent).await;
    let forever = life(&caller, json!({"key": "a", "value": 1})).await;
    assert_eq!(forever, None, "the operator says nothing");
}

#[tokio::test]
async fn idle_time_ends_what_is_not_touched_whatever_else_was_said() {
    let house = mortal(|settings| settings.idle_ttl = Some(Duration::from_secs(60))).await;
    let caller = house.caller(User::Absent).await;
    let never = json!({"key": "k", "value": 1, "lifetime": "never"});
    let idle = life(&caller, never).await.unwrap();
    assert!((60_000..=66_000).contains(&idle), "{idle}");
    let short = json!({"key": "k", "value": 1, "ttl_ms": 5_000});
    assert_eq!(life(&caller, short).await, Some(5_000));
}

/// Calls whose arguments are wrong, and what their errors name.
fn bad_calls() -> Vec<(&'static str, Value, &'static str)> {
    let long = "k".repeat(1025);
    let items = |count: usize| {
        let item = |at| json!({"key": format!("{at}"), "value": 1});
        Value::Array((0..count).map(item).collect())
    };
    vec![
        ("store", json!({"key": "k"}), "value"),
        ("store", json!({"value": 1}), "key"),
        ("store", json!({"key": 1, "value": 1}), "string"),
        ("store", json!({"key": "k", "value": 1, "more": 1}), "more"),
        ("store", json!({"key": "", "value": 1}), "key"),
        ("store", json!({"key": long, "value": 1}), "1024"),
        ("store", json!({"key": "a\u{0}b", "value": 1}), "key"),
        (
            "store",
            json!({"key": "k", "value": "x".repeat(1 << 20)}),
            "1048576",
        ),
        (
            "store",
            json!({"key": "k", "value": 1, "ttl_ms": 0}),
            "ttl_ms",
        ),
        ("store", json!({"key": "k", "value": 1, "ttl_ms": -1}), "-1"),
        (
            "store",
            json!({"key": "k", "value": 1, "ttl_ms": 1, "lifetime": "keep"}),
            "ttl_ms",
        ),
        (
            "store",
            json!({"key": "k", "value": 1, "lifetime": "long"}),
            "long",
        ),
        (
            "store",
            json!({"key": "k", "value": 1, "if_revision": -1}),
            "-1",
        ),
        ("batch_store", json!({"items": []}), "1 to 100"),
        ("batch_store", json!({"items": items(101)}), "101"),
        (
            "batch_store",
            json!({"items": [{"key": "k", "value": 1}, {"key": "k", "value": 2}]}),
            "two",
        ),
        (
            "batch_store",
            json!({"items": [{"key": "k", "value": 1}, {"key": "", "value": 2}]}),
            "key",
        ),
        ("batch_retrieve", json!({"keys": []}), "1 to 100"),
        ("batch_retrieve", json!({"keys": vec!["k"; 101]}), "101"),
        ("retrieve", json!({}), "key"),
        ("retrieve", json!({"key": ""}), "key"),
        ("exists", json!({"key": long}), "1024"),
        ("delete", json!({"key": ""}), "key"),
        ("list", json!({"limit": 0}), "limit"),
        ("list", json!({"limit": 1001}), "limit"),
    ]
}

#[tokio::test]
async fn bad_arguments_say_what_is_wrong_and_store_nothing() {
    let house = House::open(ASSUMES).await;
    let caller = house.caller(User::Absent).await;
    for (tool, arguments, word) in bad_calls() {
        let shown: String = arguments.to_string().chars().take(80).collect();
        let refused = caller.refused(tool, arguments).await;
        assert_eq!(
            refused.reason, "BAD_ARGUMENT",
            "{tool} {shown}: {refused:?}"
        );
        let text = refused.text.replace(['_', ','], "").to_lowercase();
        let word = word.replace(['_', ','], "").to_lowercase();
        assert!(text.contains(&word), "{tool} {shown}: {}", refused.text);
    }
    assert_eq!(house.keys().list("").await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn an_answer_over_its_bound_is_refused_and_names_it() {
    let house = House::open(READS).await;
    let keys = house.keys();
    for key in ["a", "b", "c"] {
        keys.store(key, &json!("x".repeat((1 << 20) - 2)))
            .await
            .unwrap();
    }
    let caller = house.caller(User::Absent).await;
    let two: RetrievedBatch = caller
        .done("batch_retrieve", json!({"keys": ["a", "b"]}))
        .await;
    assert_eq!(two.keys.len(), 2);
    let three = json!({"keys": ["a", "b", "c"]});
    let refused = caller.refused("batch_retrieve", three).await;
    assert_eq!(refused.reason, "TOO_LARGE");
    assert!(refused.text.contains("2097152"), "{}", refused.text);
}

#[tokio::test]
async fn a_value_that_is_no_json_is_called_that() {
    let house = House::open(ASSUMES).await;
    let request = StoreRequest {
        key: "k".to_owned(),
        value: vec![0xff, 0x00].into(),
        ..StoreRequest::default()
    };
    house.client.call(request).await.unwrap();
    let caller = house.caller(User::Absent).await;
    let one = caller.refused("retrieve", json!({"key": "k"})).await;
    let many = caller
        .refused("batch_retrieve", json!({"keys": ["k"]}))
        .await;
    assert_eq!([one.reason, many.reason], ["NOT_JSON", "NOT_JSON"]);
    let stored: Stored = caller.done("store", json!({"key": "k", "value": 1})).await;
    assert_eq!(stored.status, Status::Replaced);
}

#[tokio::test]
async fn each_gate_shows_its_tools_with_schemas_and_hints_and_hides_the_others() {
    let reads = ["batch_retrieve", "exists", "list", "retrieve"];
    let writes = ["batch_store", "store"];
    for (visible, shown) in [
        (Visible::Reads, reads.to_vec()),
        (Visible::Writes, [&reads[..], &writes].concat()),
        (
            Visible::Deletes,
            [&reads[..], &writes, &["delete"]].concat(),
        ),
    ] {
        let house = House::open(Gate {
            tools: visible,
            ..ASKS
        })
        .await;
        let caller = house.caller(User::Confirms).await;
        let tools = caller.service.list_all_tools().await.unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool.name.to_string()).collect();
        let expected: BTreeSet<_> = shown.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(names, expected.into_iter().collect::<Vec<_>>());
        for tool in &tools {
            let reads = reads.contains(&&*tool.name);
            let hints = tool.annotations.as_ref().unwrap();
            assert_eq!(hints.read_only_hint, Some(reads), "{}", tool.name);
            assert_eq!(hints.destructive_hint, Some(!reads), "{}", tool.name);
            assert_eq!(hints.idempotent_hint, Some(true), "{}", tool.name);
            assert_eq!(hints.open_world_hint, Some(false), "{}", tool.name);
            assert!(tool.output_schema.is_some() && tool.title.is_some());
            assert_eq!(tool.input_schema["additionalProperties"], json!(false));
            let properties = tool.input_schema["properties"].as_object().unwrap();
            assert!(
                properties
                    .values()
                    .all(|one| one["description"].is_string()),
                "{properties:?}"
            );
        }
        // What is hidden is as unknown as what never was.
        for hidden in ["store", "batch_store", "delete", "drop"] {
            if !shown.contains(&hidden) {
                let arguments = json!({"key": "k", "value": 1});
                assert_eq!(caller.code(hidden, arguments).await, -32602, "{hidden}");
            }
        }
    }
}

#[tokio::test]
async fn owners_do_not_see_each_others_keys() {
    let house = House::open(READS).await;
    let other = house.client.keys(KeyOptions::new("somebody"));
    other.store("k", &json!(1)).await.unwrap();
    let caller = house.caller(User::Absent).await;
    let read: Retrieved = caller.done("retrieve", json!({"key": "k"})).await;
    assert!(!read.found);
    let listed: Listed = caller.done("list", json!({})).await;
    assert_eq!(listed.keys.len(), 0);
}
