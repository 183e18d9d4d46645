//! What breaks a limit or a rule is refused with its reason, and has no effect.

use std::time::Duration;

use bytes::Bytes;
use helve_client::{
    Error, ErrorKind, HandleOptions, HandleStore, Handles, StateTool, Transacted, Ttl,
};
use helve_proto::{
    Reason,
    v1::{CallIdentity, MintRequest, PutRequest, SessionCall, call_identity::Identity},
};
use serde_json::{Value, json};

use crate::setup::Setup;

const ID_BYTES_MAX: usize = 128;
const KEY_BYTES_MAX: usize = 1024;
const NAME_BYTES_MAX: usize = 64;
const OWNER_BYTES_MAX: usize = 256;
/// A JSON text of this many characters has two bytes more.
const VALUE_BYTES_MAX: usize = (1 << 20) - 2;
const OPERATIONS_MAX: usize = 128;

fn refused<A>(said: Result<A, Error>, reason: Reason, what: &str) {
    let error = said.err();
    let said = error.as_ref().map(|error| (error.kind(), error.reason()));
    assert_eq!(
        said,
        Some((ErrorKind::Invalid, Some(reason))),
        "{what}: {error:?}"
    );
}

pub(super) async fn bad_handle_calls_are_refused(setup: Setup) -> Result<(), Error> {
    let store = setup.handles::<String>(0);
    let value = "value".to_owned();
    let long = "i".repeat(ID_BYTES_MAX + 1);
    for (id, reason) in [
        ("", Reason::BadId),
        ("nul\0", Reason::BadId),
        (long.as_str(), Reason::TooLarge),
    ] {
        refused(store.put(id, &value, Ttl::Default).await, reason, "put");
        refused(store.get(id).await, reason, "get");
        refused(store.take(id).await, reason, "take");
        refused(store.renew(id, Ttl::Never).await, reason, "renew");
        refused(store.delete(id).await, reason, "delete");
    }
    let large = "v".repeat(VALUE_BYTES_MAX + 1);
    refused(
        store.mint(&large, Ttl::Default).await,
        Reason::TooLarge,
        "mint",
    );
    refused(
        store.put("h", &large, Ttl::Default).await,
        Reason::TooLarge,
        "put",
    );

    let long = "n".repeat(NAME_BYTES_MAX + 1);
    for name in [
        "",
        "Upper",
        "sp ace",
        "dot.",
        "\u{fc}",
        "nul\0",
        long.as_str(),
    ] {
        let bad = setup
            .client(0)
            .handles::<String>(HandleOptions::shared(name));
        refused(
            bad.mint(&value, Ttl::Default).await,
            Reason::BadName,
            "mint",
        );
        refused(bad.get("h").await, Reason::BadName, "get");
        refused(bad.len().await, Reason::BadName, "len");
        refused(bad.list().await, Reason::BadName, "list");
        if !name.is_empty() {
            let bad: Handles<String> = setup.client(0).handles(setup.options().id_prefix(name));
            refused(
                bad.mint(&value, Ttl::Default).await,
                Reason::BadName,
                "prefix",
            );
        }
    }
    let foreign = store.for_owner("o".repeat(OWNER_BYTES_MAX + 1));
    refused(foreign.get("h").await, Reason::TooLarge, "owner");
    assert!(store.is_empty().await?, "nothing was written");
    Ok(())
}

pub(super) async fn bad_key_calls_are_refused(setup: Setup) -> Result<(), Error> {
    let tool = setup.keys(0);
    let long = "k".repeat(KEY_BYTES_MAX + 1);
    for (key, reason) in [
        ("", Reason::BadKey),
        ("nul\0", Reason::BadKey),
        (long.as_str(), Reason::TooLarge),
    ] {
        let item = (key.to_owned(), Value::Null);
        refused(tool.store(key, &Value::Null).await, reason, "store");
        refused(tool.retrieve(key).await, reason, "retrieve");
        refused(tool.exists(key).await, reason, "exists");
        refused(tool.delete(key).await, reason, "delete");
        refused(tool.batch_store(&[item]).await, reason, "batch_store");
        refused(
            tool.batch_retrieve(&[key.to_owned()]).await,
            reason,
            "batch_retrieve",
        );
    }
    let large = json!("v".repeat(VALUE_BYTES_MAX + 1));
    refused(tool.store("k", &large).await, Reason::TooLarge, "store");
    let twice = ["k", "k"].map(|key| (key.to_owned(), Value::Null));
    refused(tool.batch_store(&twice).await, Reason::BadKey, "twice");
    let many: Vec<_> = (0..=OPERATIONS_MAX)
        .map(|n| (n.to_string(), Value::Null))
        .collect();
    refused(tool.batch_store(&many).await, Reason::TooLarge, "many");
    let many: Vec<_> = many.into_iter().map(|(key, _)| key).collect();
    refused(tool.batch_retrieve(&many).await, Reason::TooLarge, "many");
    refused(tool.list("nul\0").await, Reason::BadKey, "list");
    assert!(tool.list("").await?.is_empty(), "nothing was written");
    Ok(())
}

pub(super) async fn bad_transactions_are_refused(setup: Setup) -> Result<(), Error> {
    let (store, keys, client) = (setup.handles::<String>(0), setup.keys(0), setup.client(0));
    store.put("h", &"value".to_owned(), Ttl::Default).await?;
    let twice = client.transaction().take(&store, "h").delete(&store, "h");
    refused(twice.commit().await, Reason::BadId, "a handle twice");
    let twice = client
        .transaction()
        .delete_key(&keys, "k")
        .delete_key(&keys, "k");
    refused(twice.commit().await, Reason::BadKey, "a key twice");
    let mut many = client.transaction();
    for n in 0..=OPERATIONS_MAX {
        many = many.delete_key(&keys, &n.to_string());
    }
    refused(many.commit().await, Reason::TooLarge, "many operations");
    let megabyte = "v".repeat(VALUE_BYTES_MAX);
    let mut large = client.transaction();
    for n in 0..5 {
        large = large.store(&keys, &n.to_string(), &megabyte, Ttl::Default);
    }
    refused(large.commit().await, Reason::TooLarge, "many bytes");
    let condition = client.transaction().if_revision(1);
    refused(
        condition.commit().await,
        Reason::BadRequest,
        "a condition on nothing",
    );
    assert_eq!(store.get("h").await?.as_deref(), Some("value"));
    assert!(keys.list("").await?.is_empty(), "nothing was written");
    Ok(())
}

pub(super) async fn what_fits_no_message_is_too_large(setup: Setup) -> Result<(), Error> {
    let (store, keys, client) = (setup.handles::<String>(0), setup.keys(0), setup.client(0));
    let large = "v".repeat(9 << 20);
    let mint = store.mint(&large, Ttl::Default).await;
    refused(mint, Reason::TooLarge, "mint");
    let put = store.put("h", &large, Ttl::Default).await;
    refused(put, Reason::TooLarge, "put");
    let stored = keys.store("k", &json!(large)).await;
    refused(stored, Reason::TooLarge, "store");
    refused(store.get(&large).await, Reason::TooLarge, "get");
    refused(keys.list(&large).await, Reason::TooLarge, "list");
    let megabyte = "v".repeat(VALUE_BYTES_MAX);
    for values in [5, 9] {
        let mut transaction = client.transaction();
        for n in 0..values {
            transaction = transaction.put(&store, &n.to_string(), &megabyte, Ttl::Default);
        }
        refused(transaction.commit().await, Reason::TooLarge, "transaction");
    }
    assert!(store.is_empty().await?, "nothing was written");
    assert!(keys.list("").await?.is_empty(), "nothing was written");
    Ok(())
}

pub(super) async fn bad_lifetimes_are_refused(setup: Setup) -> Result<(), Error> {
    let store = setup.handles::<u32>(0);
    let overflowing = Duration::from_millis(u64::MAX);
    for ttl in [Duration::ZERO, Duration::MAX, overflowing].map(Ttl::After) {
        refused(store.mint(&1, ttl).await, Reason::BadLifetime, "mint");
        refused(store.put("h", &1, ttl).await, Reason::BadLifetime, "put");
    }
    for idle_ttl in [Duration::ZERO, overflowing] {
        let idle = setup
            .client(0)
            .handles::<u32>(setup.options().idle_ttl(idle_ttl));
        refused(idle.mint(&1, Ttl::Never).await, Reason::BadLifetime, "idle");
    }
    assert!(store.is_empty().await?, "nothing was written");
    Ok(())
}

pub(super) async fn bad_identities_are_refused(setup: Setup) -> Result<(), Error> {
    let numbered = |session_id: &'static [u8], seq, first_incomplete| {
        Identity::Session(SessionCall {
            session_id: Bytes::from_static(session_id),
            seq,
            first_incomplete,
        })
    };
    for (what, identity) in [
        ("a short session id", numbered(b"short", 1, 1)),
        ("no number", numbered(b"0123456789abcdef", 0, 0)),
        (
            "a floor above the call",
            numbered(b"0123456789abcdef", 1, 2),
        ),
        (
            "no UUIDv7",
            Identity::RequestId(Bytes::from_static(&[0; 16])),
        ),
        (
            "a short request id",
            Identity::RequestId(Bytes::from_static(&[7])),
        ),
    ] {
        let request = MintRequest {
            identity: Some(CallIdentity {
                identity: Some(identity),
            }),
            store: setup.name.clone(),
            value: Bytes::from_static(b"1"),
            ..MintRequest::default()
        };
        refused(
            setup.client(0).call(request).await,
            Reason::BadRequest,
            what,
        );
    }
    assert!(
        setup.handles::<u32>(0).is_empty().await?,
        "nothing was written"
    );
    Ok(())
}

pub(super) async fn the_largest_of_everything_is_accepted(setup: Setup) -> Result<(), Error> {
    let value = "v".repeat(VALUE_BYTES_MAX);
    let (id, key) = ("i".repeat(ID_BYTES_MAX), "k".repeat(KEY_BYTES_MAX));
    let options = setup.options().id_prefix("p".repeat(NAME_BYTES_MAX));
    let store = setup.client(0).handles::<String>(options);
    store.put(&id, &value, Ttl::Default).await?;
    assert_eq!(store.get(&id).await?, Some(value.clone()));
    let minted = store.mint(&value, Ttl::Default).await?;
    assert_eq!(
        store.take(&minted).await?.live().expect("it lived").value,
        value
    );
    let keys = setup.keys(0);
    keys.store(&key, &json!(value)).await?;
    assert_eq!(keys.retrieve(&key).await?, Some(json!(value)));
    let mut many = setup.client(0).transaction();
    for n in 0..OPERATIONS_MAX {
        many = many.store(&keys, &n.to_string(), &n, Ttl::Default);
    }
    assert!(matches!(many.commit().await?, Transacted::Committed(_)));
    let owned = store.for_owner("o".repeat(OWNER_BYTES_MAX));
    let bytes = PutRequest {
        store: setup.name.clone(),
        id,
        value: Bytes::from_static(&[0xff, 0]),
        ..PutRequest::default()
    };
    setup.client(0).call(bytes).await?;
    owned.put("h", &value, Ttl::Default).await?;
    Ok(())
}
