//! Who calls: bearer tokens in front of the server, and keys that belong to who they speak for.

use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::BASE64URL_NOPAD;
use helve_client::{KeyOptions, Owner, StateTool};
use helve_mcp::{
    bearer::{Guard, Verifier},
    serve::{Access, router},
    state::{Callers, Listed, Retrieved, Stored, server},
};
use reqwest::StatusCode;
use ring::hmac;
use serde_json::{Value, json};

use crate::{
    house::{ASKS, Caller, House, User, memory, settings},
    wire::Post,
};

pub(crate) const AUDIENCE: &str = "https://state.example/mcp";
const SECRET: &[u8] = b"gIGCg4SFhoeIiYqLjI2Oj5CRkpOUlZaXmJmam5ydnp8=";

/// What checks the tokens of these tests.
pub(crate) fn verifier() -> Verifier {
    // Its file is for its owner alone.
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), SECRET).unwrap();
    Verifier::of_secret(file.path(), AUDIENCE, None).unwrap()
}

/// A token of this subject, for an hour.
pub(crate) fn token(subject: &str) -> String {
    token_with(subject, "scope", &Value::Null)
}

/// The same with one more claim, unless that is null.
pub(crate) fn token_with(subject: &str, name: &str, claim: &Value) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let mut claims = json!({"sub": subject, "aud": AUDIENCE, "exp": now.as_secs() + 3600});
    if !claim.is_null() {
        claims[name] = claim.clone();
    }
    let part = |json: &Value| BASE64URL_NOPAD.encode(json.to_string().as_bytes());
    let signed = format!("{}.{}", part(&json!({"alg": "HS256"})), part(&claims));
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET);
    let tag = hmac::sign(&key, signed.as_bytes());
    format!("{signed}.{}", BASE64URL_NOPAD.encode(tag.as_ref()))
}

async fn guarded() -> House {
    let client = memory();
    let replica = |shutdown: &_| {
        let mut settings = settings(ASKS, &[7; 32]);
        settings.callers = Callers::Authenticated;
        let server = server(&client, settings);
        let router = router(server, &Access::default(), shutdown);
        Guard::new(verifier(), Vec::new()).protect(router)
    };
    House::of(&client, replica).await
}

#[tokio::test]
async fn a_request_without_a_good_token_is_refused_and_stores_nothing() {
    let house = guarded().await;
    let store = Post::call("store", &json!({"key": "k", "value": 1}));
    for post in [
        store.clone(),
        store.clone().with("authorization", "Bearer x"),
        store
            .clone()
            .with("authorization", &format!("Basic {}", token("alice"))),
        store.with("authorization", &format!("Bearer {}x", token("alice"))),
    ] {
        let answer = post.send(house.replicas[0]).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{answer:?}");
    }
    for owner in [Owner::shared(), Owner::named("alice")] {
        let keys = house.client.keys(KeyOptions::new(owner));
        assert_eq!(keys.list("").await.unwrap(), [""; 0]);
    }
}

#[tokio::test]
async fn callers_have_keys_and_confirmations_of_their_own() {
    let house = guarded().await;
    let address = house.balancer;
    let alice = Caller::connect_as(address, User::Confirms, Some(&token("alice"))).await;
    let bob = Caller::connect_as(address, User::Confirms, Some(&token("bob"))).await;
    for (caller, value) in [(&alice, "a"), (&bob, "b")] {
        let _: Stored = caller
            .done("store", json!({"key": "k", "value": value}))
            .await;
        assert_eq!(caller.questions(), [""; 0], "each key was new");
    }
    let read: Retrieved = alice.done("retrieve", json!({"key": "k"})).await;
    assert_eq!(read.value, Some(json!("a")));
    let _: Value = alice.done("delete", json!({"key": "k"})).await;
    assert_eq!(alice.questions().len(), 1);
    let listed: Listed = bob.done("list", json!({})).await;
    assert_eq!(listed.keys.len(), 1);

    let delete = |subject: &str| {
        let bearer = format!("Bearer {}", token(subject));
        Post::call("delete", &json!({"key": "k"})).with("authorization", &bearer)
    };
    let asked = delete("bob").send(house.replicas[0]).await;
    let state = asked.body["result"]["requestState"].clone();
    assert!(state.is_string(), "{asked:?}");
    let yes = json!({"confirm": {"action": "accept", "content": {"confirm": true}}});
    let confirmed = |post: Post| {
        post.param("requestState", state.clone())
            .param("inputResponses", yes.clone())
    };
    let stolen = confirmed(delete("alice")).send(house.replicas[1]).await;
    assert_eq!(stolen.code(), -32602, "{stolen:?}");
    let own = confirmed(delete("bob")).send(house.replicas[1]).await;
    assert_eq!(
        own.body["result"]["structuredContent"]["existed"],
        json!(true)
    );
}

#[tokio::test]
async fn a_server_for_authenticated_callers_refuses_everybody_without_its_guard() {
    let client = memory();
    let replica = |shutdown: &_| {
        let mut settings = settings(ASKS, &[7; 32]);
        settings.callers = Callers::Authenticated;
        let server = server(&client, settings);
        router(server, &Access::default(), shutdown)
    };
    let house = House::of(&client, replica).await;
    let caller = house.caller(User::Confirms).await;
    for (tool, arguments) in [
        ("retrieve", json!({"key": "k"})),
        ("store", json!({"key": "k", "value": 1})),
    ] {
        assert_eq!(caller.refused(tool, arguments).await.reason, "DENIED");
    }
    assert_eq!(house.keys().list("").await.unwrap(), [""; 0]);
}
