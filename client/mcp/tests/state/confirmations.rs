//! What replaces or deletes asks the user first, and does exactly what the user was asked about, once.

use std::net::SocketAddr;

use futures::future::join_all;
use helve_client::{KeyOptions, Owner, StateTool};
use helve_mcp::{
    serve::{Access, router},
    state::{Callers, Deleted, Retrieved, Status, Stored, StoredBatch, server},
};
use serde_json::{Value, json};

use crate::{
    house::{ASKS, ASSUMES, House, READS, User, memory, settings},
    wire::{Answer, Post},
};

#[tokio::test]
async fn creating_asks_no_user_and_replacing_and_deleting_ask() {
    let house = House::open(ASKS).await;
    let caller = house.caller(User::Confirms).await;
    let created: Stored = caller.done("store", json!({"key": "k", "value": 1})).await;
    assert_eq!(caller.questions(), [""; 0]);
    let replaced: Stored = caller.done("store", json!({"key": "k", "value": 2})).await;
    assert_eq!(replaced.status, Status::Replaced);
    let question = format!(
        "Replace 1 stored value for good?\n\"k\" (revision {}, 1 bytes)",
        created.info.revision
    );
    assert_eq!(caller.questions(), [question]);
    let items = json!([{"key": "k", "value": 3}, {"key": "l", "value": 3}]);
    let stored: StoredBatch = caller.done("batch_store", json!({"items": items})).await;
    assert_eq!(stored.stored[1].status, Status::Created);
    let questions = caller.questions();
    assert!(questions[0].contains("\"k\"") && !questions[0].contains("\"l\""));
    let gone: Deleted = caller.done("delete", json!({"key": "k"})).await;
    assert!(gone.existed);
    assert!(caller.questions()[0].starts_with("Delete 1 stored value for good?"));
    let gone: Deleted = caller.done("delete", json!({"key": "k"})).await;
    assert!(!gone.existed);
    assert_eq!(caller.questions(), [""; 0], "there was nothing to lose");
}

#[tokio::test]
async fn without_a_yes_nothing_changes() {
    let house = House::open(ASKS).await;
    let keys = house.keys();
    keys.store("k", &json!("old")).await.unwrap();
    let calls = [
        ("store", json!({"key": "k", "value": 1})),
        ("delete", json!({"key": "k"})),
        (
            "batch_store",
            json!({"items": [{"key": "k", "value": 1}, {"key": "new", "value": 1}]}),
        ),
    ];
    for (tool, arguments) in calls {
        for user in [User::Declines, User::Hesitates] {
            let caller = house.caller(user).await;
            let refused = caller.refused(tool, arguments.clone()).await;
            assert_eq!(refused.reason, "DECLINED", "{tool}");
        }
        // A model reads tool errors, and no protocol errors.
        let caller = house.caller(User::Absent).await;
        let refused = caller.refused(tool, arguments).await;
        assert_eq!(refused.reason, "CANNOT_CONFIRM", "{tool}");
        for remedy in ["if_revision", "does not exist yet", "elicitation"] {
            assert!(refused.text.contains(remedy), "{}", refused.text);
        }
    }
    assert_eq!(keys.list("").await.unwrap(), ["k"]);
    assert_eq!(keys.retrieve("k").await.unwrap(), Some(json!("old")));
}

#[tokio::test]
async fn a_client_that_cannot_ask_is_told_what_it_lacks_and_may_still_create() {
    let house = House::open(ASKS).await;
    house.keys().store("k", &json!("old")).await.unwrap();
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    for declared in [json!({}), json!({"elicitation": {"url": {}}})] {
        let post = delete("k").meta(capabilities, declared.clone());
        let answer = post.send(house.replicas[0]).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (200, 0));
        let reason = &answer.body["result"]["_meta"]["helve.v1/reason"];
        assert_eq!(*reason, json!("CANNOT_CONFIRM"));
        let post = Post::call(
            "store",
            &json!({"key": "new", "value": 1, "ttl_ms": 60_000}),
        );
        let answer = post
            .meta(capabilities, declared)
            .send(house.replicas[0])
            .await;
        assert_eq!(answer.body["result"]["isError"], json!(false));
        house.keys().delete("new").await.unwrap();
    }
    // A client that names no mode means forms.
    let post = delete("k").meta(capabilities, json!({"elicitation": {}}));
    let answer = post.send(house.replicas[0]).await;
    assert_eq!(answer.body["result"]["resultType"], json!("input_required"));
}

#[tokio::test]
async fn replacement_of_the_revision_that_was_read_asks_no_user() {
    let house = House::open(ASKS).await;
    let keys = house.keys();
    keys.store("k", &json!("old")).await.unwrap();
    let caller = house.caller(User::Absent).await;
    let read: Retrieved = caller.done("retrieve", json!({"key": "k"})).await;
    let revision = read.info.unwrap().revision;
    let item = json!({"key": "k", "value": "new", "if_revision": revision});
    let other = json!({"key": "l", "value": 1});
    let batch = json!({"items": [item, other]});
    let stored: StoredBatch = caller.done("batch_store", batch).await;
    let revision = stored.stored[0].info.revision;
    let arguments = json!({"key": "k", "value": "newer", "if_revision": revision});
    let stored: Stored = caller.done("store", arguments).await;
    assert_eq!(keys.retrieve("k").await.unwrap(), Some(json!("newer")));
    // A value that was not read is lost only if the user says so, and so is what is deleted for
    // good.
    let unread = json!({"items": [
        {"key": "k", "value": 2, "if_revision": stored.info.revision}, {"key": "l", "value": 2},
    ]});
    let deleted = json!({"key": "k", "if_revision": stored.info.revision});
    for (tool, arguments) in [("batch_store", unread), ("delete", deleted)] {
        let refused = caller.refused(tool, arguments).await;
        assert_eq!(refused.reason, "CANNOT_CONFIRM", "{tool}");
    }
    assert_eq!(keys.retrieve("l").await.unwrap(), Some(json!(1)));
}

fn delete(key: &str) -> Post {
    Post::call("delete", &json!({"key": key}))
}

/// The first round of a call; what it was asked, and the sealed state.
async fn ask(address: SocketAddr, post: &Post) -> String {
    let answer = post.send(address).await;
    assert_eq!(
        answer.body["result"]["resultType"],
        json!("input_required"),
        "{answer:?}"
    );
    let question = &answer.body["result"]["inputRequests"]["confirm"];
    assert_eq!(question["method"], json!("elicitation/create"));
    let form = &question["params"]["requestedSchema"];
    assert_eq!(form["required"], json!(["confirm"]));
    answer.body["result"]["requestState"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn yes() -> Value {
    json!({"confirm": {"action": "accept", "content": {"confirm": true}}})
}

fn confirmed(post: &Post, state: &str) -> Post {
    let post = post.clone().param("inputResponses", yes());
    let mut post = post.param("requestState", json!(state));
    post.body["id"] = json!(2);
    post
}

/// The frozen refusal of a state.
fn is_refused(answer: &Answer) -> bool {
    let error = json!({
        "code": -32602,
        "message": "Invalid or expired requestState",
        "data": {"reason": "invalid_request_state"},
    });
    answer.body["error"] == error
}

#[tokio::test]
async fn a_confirmation_asked_for_by_one_replica_is_redeemed_by_another_once() {
    let house = House::open(ASKS).await;
    let keys = house.keys();
    keys.store("k", &json!("old")).await.unwrap();
    let state = ask(house.replicas[0], &delete("k")).await;
    let post = confirmed(&delete("k"), &state);
    let answer = post.send(house.replicas[1]).await;
    assert_eq!(
        answer.body["result"]["structuredContent"]["existed"],
        json!(true)
    );
    keys.store("k", &json!("new")).await.unwrap();
    for replica in &house.replicas {
        let answer = post.send(*replica).await;
        assert!(is_refused(&answer), "{answer:?}");
    }
    assert_eq!(keys.retrieve("k").await.unwrap(), Some(json!("new")));
}

#[tokio::test]
async fn of_eight_redemptions_at_once_one_takes_effect() {
    let house = House::open(ASKS).await;
    house.keys().store("k", &json!("old")).await.unwrap();
    let state = ask(house.replicas[0], &delete("k")).await;
    let post = confirmed(&delete("k"), &state);
    let posts = (0..8).map(|at| post.send(house.replicas[at % 2]));
    let answers = join_all(posts).await;
    assert_eq!(
        answers.iter().filter(|answer| is_refused(answer)).count(),
        7
    );
    let done = answers.iter().find(|answer| !is_refused(answer)).unwrap();
    assert_eq!(
        done.body["result"]["structuredContent"]["existed"],
        json!(true)
    );
}

#[tokio::test]
async fn a_state_holds_for_its_tool_arguments_and_text_alone_and_all_refusals_are_alike() {
    let house = House::open(ASKS).await;
    let keys = house.keys();
    for key in ["k", "l"] {
        keys.store(key, &json!("old")).await.unwrap();
    }
    let state = ask(house.replicas[0], &delete("k")).await;
    let mut tampered = state.clone().into_bytes();
    let middle = tampered.len() / 2;
    tampered[middle] = if tampered[middle] == b'A' { b'B' } else { b'A' };
    let tampered = String::from_utf8(tampered).unwrap();
    let store = Post::call("store", &json!({"key": "k", "value": 1}));
    let read = Post::call("retrieve", &json!({"key": "k"}));
    let condition = Post::call("delete", &json!({"key": "k", "if_revision": 1}));
    let foreign = {
        let other = settings(ASKS, &[8; 32]);
        let server = server(&house.client, other);
        let replica = |shutdown: &_| router(server.clone(), &Access::default(), shutdown);
        let house = House::of(&house.client, replica).await;
        ask(house.replicas[0], &delete("k")).await
    };
    let table = [
        confirmed(&delete("l"), &state),
        confirmed(&store, &state),
        confirmed(&read, &state),
        confirmed(&condition, &state),
        confirmed(&delete("k"), &tampered),
        confirmed(&delete("k"), &state[..state.len() - 1]),
        confirmed(&delete("k"), &format!("{state}-TAMPERED")),
        confirmed(&delete("k"), &format!("{state}=")),
        confirmed(&delete("k"), &state.replacen("h1.", "v1e.", 1)),
        confirmed(&delete("k"), &"h1.".repeat(40_000)),
        confirmed(&delete("k"), ""),
        confirmed(&delete("k"), "[1]"),
        confirmed(&delete("k"), &foreign),
    ];
    for (at, post) in table.into_iter().enumerate() {
        let answer = post.send(house.replicas[1]).await;
        assert!(is_refused(&answer), "{at}: {answer:?}");
        assert_eq!(answer.body["id"], json!(2));
    }
    assert_eq!(keys.list("").await.unwrap(), ["k", "l"]);
    // None of that used it up.
    let answer = confirmed(&delete("k"), &state)
        .send(house.replicas[1])
        .await;
    assert_eq!(
        answer.body["result"]["structuredContent"]["existed"],
        json!(true)
    );
}

#[tokio::test]
async fn a_state_of_another_caller_is_refused() {
    let client = memory();
    let house = |owner: &'static str| {
        let client = client.clone();
        async move {
            let replica = |shutdown: &_| {
                let mut settings = settings(ASKS, &[7; 32]);
                settings.callers = Callers::One(Owner::named(owner));
                let server = server(&client, settings);
                router(server, &Access::default(), shutdown)
            };
            let keys = client.keys(KeyOptions::new(owner));
            keys.store("k", &json!("old")).await.unwrap();
            (House::of(&client, replica).await, keys)
        }
    };
    let ((alice, _keys), (mallory, kept)) = (house("alice").await, house("mallory").await);
    let state = ask(alice.replicas[0], &delete("k")).await;
    let answer = confirmed(&delete("k"), &state)
        .send(mallory.replicas[0])
        .await;
    assert!(is_refused(&answer), "{answer:?}");
    assert!(kept.exists("k").await.unwrap());
}

#[tokio::test]
async fn what_changed_since_the_user_was_asked_is_asked_again() {
    let house = House::open(ASKS).await;
    let keys = house.keys();
    keys.store("k", &json!("old")).await.unwrap();
    let first = ask(house.replicas[0], &delete("k")).await;
    keys.store("k", &json!("newer")).await.unwrap();
    let post = confirmed(&delete("k"), &first);
    let second = ask(house.replicas[1], &post).await;
    assert_eq!(keys.retrieve("k").await.unwrap(), Some(json!("newer")));
    let answer = confirmed(&delete("k"), &second)
        .send(house.replicas[0])
        .await;
    assert_eq!(
        answer.body["result"]["structuredContent"]["existed"],
        json!(true)
    );
}

#[tokio::test]
async fn retry_without_an_answer_or_without_a_state_is_asked_again() {
    let house = House::open(ASKS).await;
    house.keys().store("k", &json!("old")).await.unwrap();
    let state = ask(house.replicas[0], &delete("k")).await;
    let silent = delete("k").param("requestState", json!(state));
    let again = ask(house.replicas[0], &silent).await;
    let unasked = delete("k").param("inputResponses", yes());
    ask(house.replicas[0], &unasked).await;
    // Other answers beside it are ignored.
    let mut post = confirmed(&delete("k"), &again);
    post.body["params"]["inputResponses"]["other"] = json!({"action": "decline"});
    let answer = post.send(house.replicas[0]).await;
    assert_eq!(
        answer.body["result"]["structuredContent"]["existed"],
        json!(true)
    );
}

#[tokio::test]
async fn a_server_that_never_asks_takes_no_state() {
    for gate in [ASSUMES, READS] {
        let client = memory();
        let replica = |shutdown: &_| {
            let mut settings = settings(gate, &[7; 32]);
            settings.codec = None;
            let server = server(&client, settings);
            router(server, &Access::default(), shutdown)
        };
        let house = House::of(&client, replica).await;
        let tools: &[&str] = if gate == READS {
            &["retrieve"]
        } else {
            &["retrieve", "delete"]
        };
        for tool in tools {
            let post = Post::call(tool, &json!({"key": "k"}));
            let answer = post
                .param("requestState", json!("h1.x"))
                .send(house.replicas[0])
                .await;
            assert!(is_refused(&answer), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn a_server_that_cannot_seal_replaces_nothing() {
    let client = memory();
    let replica = |shutdown: &_| {
        let mut settings = settings(ASKS, &[7; 32]);
        settings.codec = None;
        let server = server(&client, settings);
        router(server, &Access::default(), shutdown)
    };
    let house = House::of(&client, replica).await;
    house.keys().store("k", &json!("old")).await.unwrap();
    let caller = house.caller(User::Confirms).await;
    for tool in ["store", "delete"] {
        let arguments = if tool == "store" {
            json!({"key": "k", "value": 1})
        } else {
            json!({"key": "k"})
        };
        assert_eq!(
            caller.refused(tool, arguments).await.reason,
            "CANNOT_CONFIRM"
        );
    }
    assert_eq!(
        house.keys().retrieve("k").await.unwrap(),
        Some(json!("old"))
    );
}
