//! Requests that no node may carry out: each is refused with a code and a reason, and leaves nothing behind.

use std::time::Duration;

use anyhow::Result;
use helve_proto::{
    Reason,
    v1::{
        BatchStoreRequest, CallIdentity, CountRequest, GetRequest, Lifetime, ListRequest,
        MintRequest, OpenSessionRequest, Operation, PutRequest, RetrieveRequest, SessionCall,
        StoreItem, StoreOperation, StoreRequest, TransactRequest, call_identity::Identity,
        lifetime::Absolute, operation::Operation as Kind,
    },
};
use helve_tests::{
    caller::{Caller, lifetime_of, new_identity, reason},
    cluster::Cluster,
};
use tonic::{Code, Status};
use uuid::{Builder, Uuid};

use super::nodes;

const MINUTE_MS: u64 = 60_000;

async fn one_node() -> Result<(Cluster, Caller)> {
    let cluster = nodes(1).start().await?;
    let caller = cluster.caller(1);
    Ok((cluster, caller))
}

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(answer: Result<T, Status>, code: Code, expected: Reason) {
    let status = answer.expect_err("the request is bad");
    assert_eq!(
        (status.code(), reason(&status)),
        (code, Some(expected)),
        "{}",
        status.message()
    );
    assert!(!status.message().is_empty(), "a refusal says what to do");
}

fn mint() -> MintRequest {
    MintRequest {
        store: "carts".to_owned(),
        ..MintRequest::default()
    }
}

fn put(id: &str) -> PutRequest {
    PutRequest {
        store: "carts".to_owned(),
        id: id.to_owned(),
        ..PutRequest::default()
    }
}

fn store(key: &str) -> StoreRequest {
    StoreRequest {
        key: key.to_owned(),
        ..StoreRequest::default()
    }
}

fn item(key: &str) -> StoreItem {
    StoreItem {
        key: key.to_owned(),
        ..StoreItem::default()
    }
}

fn batch(items: Vec<StoreItem>) -> BatchStoreRequest {
    BatchStoreRequest {
        items,
        ..BatchStoreRequest::default()
    }
}

async fn count(caller: &Caller, store: &str) -> Result<u64, Status> {
    let store = store.to_owned();
    Ok(caller
        .count(CountRequest { store, owner: None })
        .await?
        .live)
}

fn operations(count: usize, value_bytes: usize) -> TransactRequest {
    let operation = |number| Operation {
        operation: Some(Kind::Store(StoreOperation {
            key: format!("key-{number}"),
            value: vec![b'x'; value_bytes].into(),
            ..StoreOperation::default()
        })),
    };
    TransactRequest {
        identity: None,
        operations: (0..count).map(operation).collect(),
    }
}

fn in_session(session_id: Uuid, seq: u64, first_incomplete: u64) -> CallIdentity {
    let session_id = session_id.into_bytes().to_vec().into();
    CallIdentity {
        identity: Some(Identity::Session(SessionCall {
            session_id,
            seq,
            first_incomplete,
        })),
    }
}

fn request_id_of(time_ms: u64) -> CallIdentity {
    let id = Builder::from_unix_timestamp_millis(time_ms, &[7; 10]).into_uuid();
    CallIdentity {
        identity: Some(Identity::RequestId(id.into_bytes().to_vec().into())),
    }
}

#[tokio::test]
async fn what_is_over_a_limit_is_too_large_and_what_is_at_it_is_not() -> Result<()> {
    let (_cluster, caller) = one_node().await?;
    let refused = |answer| assert_refused::<()>(answer, Code::InvalidArgument, Reason::TooLarge);

    // Within a message, and over it: then the transport refuses it.
    for bytes in [7 << 20, (8 << 20) + 1] {
        let huge = "x".repeat(bytes);
        refused(caller.put(put(&huge)).await.map(drop));
        refused(caller.store(store(&huge)).await.map(drop));
    }
    let list = ListRequest {
        store: "x".repeat((8 << 20) + 1),
        ..ListRequest::default()
    };
    refused(caller.list(list).await.map(drop));
    caller.put(put(&"i".repeat(128))).await?;
    refused(caller.put(put(&"i".repeat(129))).await.map(drop));
    let get = GetRequest {
        store: "carts".to_owned(),
        id: "i".repeat(129),
        ..GetRequest::default()
    };
    refused(caller.get(get).await.map(drop));
    caller
        .mint(MintRequest {
            owner: "o".repeat(256),
            ..mint()
        })
        .await?;
    refused(
        caller
            .mint(MintRequest {
                owner: "o".repeat(257),
                ..mint()
            })
            .await
            .map(drop),
    );
    caller.store(store(&"k".repeat(1024))).await?;
    refused(caller.store(store(&"k".repeat(1025))).await.map(drop));
    let value = |bytes: usize| vec![b'v'; bytes].into();
    caller
        .store(StoreRequest {
            value: value(1 << 20),
            ..store("large")
        })
        .await?;
    refused(
        caller
            .store(StoreRequest {
                value: value((1 << 20) + 1),
                ..store("large")
            })
            .await
            .map(drop),
    );
    refused(
        caller
            .mint(MintRequest {
                value: value((1 << 20) + 1),
                ..mint()
            })
            .await
            .map(drop),
    );

    caller.transact(operations(128, 1)).await?;
    refused(caller.transact(operations(129, 1)).await.map(drop));
    refused(caller.transact(operations(5, 1 << 20)).await.map(drop));
    let items = (0..129).map(|number| item(&number.to_string()));
    refused(caller.batch_store(batch(items.collect())).await.map(drop));
    Ok(())
}

#[tokio::test]
async fn malformed_key_or_key_named_twice_is_refused() -> Result<()> {
    let (_cluster, caller) = one_node().await?;
    let refused = |answer| assert_refused::<()>(answer, Code::InvalidArgument, Reason::BadKey);
    refused(caller.store(store("")).await.map(drop));
    refused(caller.store(store("a\0b")).await.map(drop));
    refused(caller.retrieve(RetrieveRequest::default()).await.map(drop));
    let twice = batch(vec![item("twice"), item("once"), item("twice")]);
    refused(caller.batch_store(twice).await.map(drop));
    let mut twice = operations(2, 1);
    twice.operations.extend(operations(1, 1).operations);
    refused(caller.transact(twice).await.map(drop));
    Ok(())
}

#[tokio::test]
async fn a_malformed_id_or_name_is_refused() -> Result<()> {
    let (_cluster, caller) = one_node().await?;
    let refused = |answer, reason| assert_refused::<()>(answer, Code::InvalidArgument, reason);
    refused(caller.put(put("")).await.map(drop), Reason::BadId);
    refused(caller.put(put("a\0b")).await.map(drop), Reason::BadId);
    for name in ["", "Carts", "ca rts", "cärts", "a/b", &"s".repeat(65)] {
        let mut mint = mint();
        name.clone_into(&mut mint.store);
        refused(caller.mint(mint).await.map(drop), Reason::BadName);
        refused(count(&caller, name).await.map(drop), Reason::BadName);
    }
    for prefix in ["Cart", "a b", &"p".repeat(65)] {
        let mut mint = mint();
        prefix.clone_into(&mut mint.id_prefix);
        refused(caller.mint(mint).await.map(drop), Reason::BadName);
    }
    assert_eq!(
        count(&caller, "carts").await?,
        0,
        "a refused request left a handle"
    );
    Ok(())
}

#[tokio::test]
async fn a_lifetime_that_is_nothing_or_does_not_fit_is_refused() -> Result<()> {
    let (_cluster, caller) = one_node().await?;
    let of = |absolute_ms, idle_ttl_ms| Lifetime {
        absolute: Some(Absolute::AfterMs(absolute_ms)),
        idle_ttl_ms,
    };
    for lifetime in [
        of(0, None),
        of(u64::MAX, None),
        of(1, Some(0)),
        of(MINUTE_MS, Some(u64::MAX)),
    ] {
        let answer = caller
            .mint(MintRequest {
                lifetime: Some(lifetime),
                ..mint()
            })
            .await;
        assert_refused(answer, Code::InvalidArgument, Reason::BadLifetime);
    }
    caller
        .mint(MintRequest {
            lifetime: Some(lifetime_of(Duration::from_millis(1))),
            ..mint()
        })
        .await?;
    Ok(())
}

#[tokio::test]
async fn an_identity_that_was_used_for_something_else_is_refused() -> Result<()> {
    let (_cluster, caller) = one_node().await?;
    let identity = Some(new_identity());
    caller
        .store(StoreRequest {
            identity: identity.clone(),
            value: "1".into(),
            ..store("a")
        })
        .await?;
    let other = caller
        .store(StoreRequest {
            identity: identity.clone(),
            value: "2".into(),
            ..store("a")
        })
        .await;
    assert_refused(other, Code::InvalidArgument, Reason::ReplayMismatch);
    let other = caller.mint(MintRequest { identity, ..mint() }).await;
    assert_refused(other, Code::InvalidArgument, Reason::ReplayMismatch);
    let kept = caller
        .retrieve(RetrieveRequest {
            key: "a".to_owned(),
            ..RetrieveRequest::default()
        })
        .await?;
    assert_eq!(kept.record.unwrap_or_default().value, "1");
    Ok(())
}

#[tokio::test]
async fn a_request_id_that_is_too_old_too_early_or_malformed_is_refused() -> Result<()> {
    let (_cluster, caller) = one_node().await?;
    let now_ms = caller
        .store(store("a"))
        .await?
        .header
        .unwrap_or_default()
        .clock_ms;
    let store_as = |identity| {
        caller.store(StoreRequest {
            identity: Some(identity),
            value: "2".into(),
            ..store("a")
        })
    };
    let old = store_as(request_id_of(now_ms - 30 * MINUTE_MS)).await;
    assert_refused(old, Code::FailedPrecondition, Reason::RequestTooOld);
    let early = store_as(request_id_of(now_ms + 60 * MINUTE_MS)).await;
    assert_refused(early, Code::FailedPrecondition, Reason::TooEarly);
    let short = CallIdentity {
        identity: Some(Identity::RequestId("short".into())),
    };
    assert_refused(
        store_as(short).await,
        Code::InvalidArgument,
        Reason::BadRequest,
    );
    let kept = caller
        .retrieve(RetrieveRequest {
            key: "a".to_owned(),
            ..RetrieveRequest::default()
        })
        .await?;
    assert_eq!(
        kept.record.unwrap_or_default().value,
        "",
        "a refused request took effect"
    );
    Ok(())
}

#[tokio::test]
async fn a_call_outside_its_sessions_window_is_refused() -> Result<()> {
    let (_cluster, caller) = one_node().await?;
    let id = Uuid::now_v7();
    let store_as = |identity| {
        caller.store(StoreRequest {
            identity: Some(identity),
            ..store("a")
        })
    };
    let unknown = store_as(in_session(id, 1, 1)).await;
    assert_refused(unknown, Code::FailedPrecondition, Reason::SessionExpired);

    let opened = caller
        .open_session(OpenSessionRequest {
            session_id: id.into_bytes().to_vec().into(),
        })
        .await?;
    store_as(in_session(id, 1, 1)).await?;
    store_as(in_session(id, 2, 2)).await?;
    assert_refused(
        store_as(in_session(id, 1, 1)).await,
        Code::FailedPrecondition,
        Reason::StaleCall,
    );
    let beyond = in_session(id, 3 + opened.window_calls_max, 2);
    assert_refused(
        store_as(beyond).await,
        Code::FailedPrecondition,
        Reason::TooEarly,
    );
    store_as(in_session(id, 3, 3)).await?;
    Ok(())
}
