//! What was sealed opens where it was put, and nowhere else; what is kept is there for as long and for whom it should be.

mod properties;

use std::{fmt::Debug, time::Duration};

use helve_client::{Client, Error, ErrorKind, KeyOptions, MemoryBuilder, StateTool};
use serde_json::json;

use super::*;
use crate::state_codec::OperatorKey;

const SERVER: &str = "https://example.com/mcp";
const ISSUER: &str = "https://login.example.com";

fn operator_key(byte: u8) -> OperatorKey {
    OperatorKey::new([byte; 32]).unwrap()
}

fn seal() -> Seal {
    Seal::new(&operator_key(7))
}

fn memory() -> Client {
    MemoryBuilder::new().build().unwrap()
}

fn options(name: &str) -> ClientStateOptions {
    ClientStateOptions::new(name, SERVER)
}

fn state(client: &Client, options: ClientStateOptions) -> ClientState {
    ClientState::new(client, options, seal()).unwrap()
}

fn kind<T: Debug>(result: Result<T, Error>) -> ErrorKind {
    result.expect_err("it must be refused").kind()
}

/// Everything that a client can keep.
async fn fill(state: &ClientState) {
    state.set_session_id("session").await.unwrap();
    let token = TokenInfo::new("token");
    state.set_access_token(ISSUER, &token).await.unwrap();
    let metadata = ServerMetadata {
        protocol_version: "2025-06-18".to_owned(),
        capabilities: json!({"tools": {}}),
    };
    state.set_server_metadata(&metadata).await.unwrap();
    let result = json!({"ttlMs": 1000, "cacheScope": "private"});
    state.set_discover(&result).await.unwrap();
}

/// What each get answers: whether there is something, or what is wrong with it.
async fn look(state: &ClientState) -> [Result<bool, ErrorKind>; 4] {
    [
        state.get_session_id().await.map(|it| it.is_some()),
        state.get_access_token(ISSUER).await.map(|it| it.is_some()),
        state.get_server_metadata().await.map(|it| it.is_some()),
        state.get_discover().await.map(|it| it.is_some()),
    ]
    .map(|got| got.map_err(|error| error.kind()))
}

#[tokio::test]
async fn no_name_or_value_of_a_record_gives_a_secret_away() {
    let client = memory();
    let mine = state(&client, options("me"));
    mine.set_session_id("se-cret").await.unwrap();
    let token = TokenInfo::new("se-cret");
    mine.set_access_token(ISSUER, &token).await.unwrap();
    let listing = client.keys(KeyOptions::shared()).list_values("").await;
    let listing = listing.unwrap().items;
    assert_eq!(listing.len(), 2);
    for record in listing {
        assert!(
            record.value.as_str().unwrap().starts_with("cs1."),
            "{record:?}"
        );
        assert!(!format!("{record:?}").contains("se-cret"));
    }
    let shown = format!("{mine:?} {token:?} {:?} {:?}", seal(), operator_key(7));
    assert!(
        !shown.contains("se-cret") && !shown.contains("[7,"),
        "{shown}"
    );
}

#[tokio::test]
async fn every_field_moved_to_any_other_place_is_refused() {
    let client = memory();
    let keys = client.keys(KeyOptions::shared());
    let mine = state(&client, options("me"));
    fill(&mine).await;
    mine.set_access_token("other", &TokenInfo::new("o"))
        .await
        .unwrap();
    fill(&state(&client, options("you"))).await;
    let all = keys.list_values("").await.unwrap().items;
    assert_eq!(all.len(), 9);
    for from in &all {
        for to in &all {
            if from.name() == to.name() {
                continue;
            }
            keys.store(to.name(), &from.value).await.unwrap();
            let (mine, yours) = (
                look(&mine).await,
                look(&state(&client, options("you"))).await,
            );
            let refused = mine
                .iter()
                .chain(&yours)
                .filter(|it| **it == Err(ErrorKind::Sealed));
            let expected = usize::from(!to.name().contains("/other/"));
            assert_eq!(
                refused.count(),
                expected,
                "{} to {}",
                from.name(),
                to.name()
            );
            keys.store(to.name(), &to.value).await.unwrap();
        }
    }
    let moved = state(&client, options("me"));
    assert_eq!(
        look(&moved).await,
        [Ok(true); 4],
        "all is back where it was"
    );
}

#[tokio::test]
async fn another_key_tenant_or_owner_opens_nothing() {
    let client = memory();
    fill(&state(&client, options("me"))).await;
    let other = Seal::new(&operator_key(8));
    let other = ClientState::new(&client, options("me"), other).unwrap();
    assert_eq!(look(&other).await, [Err(ErrorKind::Sealed); 4]);
    let tenant = state(&client, options("me").tenant("other"));
    assert_eq!(look(&tenant).await, [Err(ErrorKind::Sealed); 4]);

    // The rows of another owner are other rows: what is moved there does not open either.
    let owned = state(&client, options("me").owner("ann"));
    assert_eq!(look(&owned).await, [Ok(false); 4]);
    let (from, to) = (KeyOptions::shared(), KeyOptions::new("ann"));
    let (from, to) = (client.keys(from), client.keys(to));
    for record in from.list_values("").await.unwrap().items {
        to.store(record.name(), &record.value).await.unwrap();
    }
    assert_eq!(look(&owned).await, [Err(ErrorKind::Sealed); 4]);
}

#[tokio::test]
async fn what_was_never_sealed_is_refused() {
    let client = memory();
    let mine = state(&client, options("me"));
    fill(&mine).await;
    let keys = client.keys(KeyOptions::shared());
    for forged in [
        json!("cs1."),
        json!(""),
        json!(null),
        json!({"access_token": "forged"}),
    ] {
        for name in keys.list("").await.unwrap() {
            keys.store(&name, &forged).await.unwrap();
        }
        assert_eq!(look(&mine).await, [Err(ErrorKind::Sealed); 4]);
    }
    for cleared in [
        mine.clear_session_id().await,
        mine.clear_access_token(ISSUER).await,
        mine.clear_server_metadata().await,
        mine.clear_discover().await,
    ] {
        cleared.unwrap();
    }
    assert_eq!(
        look(&mine).await,
        [Ok(false); 4],
        "what does not open can be cleared"
    );
}

#[tokio::test]
async fn keys_rotate_without_a_new_login() {
    let client = memory();
    let (old, new) = (operator_key(7), operator_key(8));
    let with = |seal| ClientState::new(&client, options("me"), seal).unwrap();
    fill(&with(Seal::new(&old))).await;
    let both = with(Seal::new(&new).and_open(&old));
    assert_eq!(look(&both).await, [Ok(true); 4]);
    fill(&both).await;
    assert_eq!(look(&with(Seal::new(&new))).await, [Ok(true); 4]);
    assert_eq!(
        look(&with(Seal::new(&old))).await,
        [Err(ErrorKind::Sealed); 4]
    );
    assert_eq!(
        look(&with(Seal::new(&old).and_open(&new))).await,
        [Ok(true); 4]
    );
}

#[tokio::test(start_paused = true)]
async fn a_token_says_how_long_it_lives_and_is_gone_then() {
    let mine = state(&memory(), options("me"));
    let token = TokenInfo::new("t").with_expires_in(Duration::from_secs(60));
    mine.set_access_token(ISSUER, &token).await.unwrap();
    tokio::time::advance(Duration::from_secs(59)).await;
    let token = mine.get_access_token(ISSUER).await.unwrap().unwrap();
    let at_ms = token.expires_at_ms().expect("it said when");
    mine.set_access_token(ISSUER, &token).await.unwrap();
    let again = mine.get_access_token(ISSUER).await.unwrap().unwrap();
    assert_eq!(again.expires_at_ms(), Some(at_ms), "kept again as it is");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(mine.get_access_token(ISSUER).await.unwrap(), None);
    let dead = TokenInfo::new("t").with_expires_in(Duration::ZERO);
    assert_eq!(
        kind(mine.set_access_token(ISSUER, &dead).await),
        ErrorKind::Invalid
    );
}

#[tokio::test(start_paused = true)]
async fn a_discover_result_is_kept_while_it_is_fresh_and_for_whom_it_says() {
    let client = memory();
    let (mine, yours) = (
        state(&client, options("me")),
        state(&client, options("you")),
    );
    let public = json!({"ttlMs": 60_000, "cacheScope": "public", "n": 1});
    mine.set_discover(&json!({"ttlMs": 60_000, "n": 0}))
        .await
        .unwrap();
    assert_eq!(yours.get_discover().await.unwrap(), None);
    mine.set_discover(&public).await.unwrap();
    for state in [&mine, &yours] {
        let found = state.get_discover().await.unwrap().unwrap();
        assert_eq!(found.scope, CacheScope::Public);
        assert_eq!(found.result, public);
    }
    let private = json!({"ttlMs": 30_000, "cacheScope": "private", "n": 2});
    yours.set_discover(&private).await.unwrap();
    assert_eq!(yours.get_discover().await.unwrap().unwrap().result, private);
    assert_eq!(mine.get_discover().await.unwrap().unwrap().result, public);
    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(yours.get_discover().await.unwrap().unwrap().result, public);
    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(mine.get_discover().await.unwrap(), None);

    mine.set_discover(&public).await.unwrap();
    mine.set_discover(&json!({})).await.unwrap();
    assert_eq!(
        mine.get_discover().await.unwrap(),
        None,
        "not to be kept at all"
    );
    let ages = json!({"ttlMs": u64::MAX, "cacheScope": "private"});
    mine.set_discover(&ages).await.unwrap();
    assert!(mine.get_discover().await.unwrap().is_some());
    tokio::time::advance(DISCOVER_TTL_MAX).await;
    assert_eq!(mine.get_discover().await.unwrap(), None, "a day at most");
}

#[tokio::test]
async fn names_that_are_empty_or_too_long_are_refused() {
    let client = memory();
    for (name, server) in [("", SERVER), ("me", "")] {
        let options = ClientStateOptions::new(name, server);
        assert_eq!(
            kind(ClientState::new(&client, options, seal())),
            ErrorKind::Invalid
        );
    }
    let mine = state(&client, options("me"));
    let long = "i".repeat(1024);
    for issuer in ["", &long] {
        assert_eq!(
            kind(mine.get_access_token(issuer).await),
            ErrorKind::Invalid
        );
        let set = mine.set_access_token(issuer, &TokenInfo::new("t")).await;
        assert_eq!(kind(set), ErrorKind::Invalid);
    }
}

#[tokio::test]
async fn a_closed_store_says_so() {
    let mine = state(&memory(), options("me"));
    mine.clone().close();
    assert_eq!(look(&mine).await, [Err(ErrorKind::Closed); 4]);
    assert_eq!(kind(mine.set_session_id("s").await), ErrorKind::Closed);
    let public = json!({"ttlMs": 1, "cacheScope": "public"});
    assert_eq!(kind(mine.set_discover(&public).await), ErrorKind::Closed);
}
