//! Clients that share keys, and what the host sees of them.

use helve_client::{
    BeginOutcome, HandleOptions, HandleStore, HandleStoreExt, KeyOptions, MemoryBuilder, Resolved,
    StateTool, Transacted, Ttl,
    v1::{GetRequest, PutRequest, RetrieveRequest, StoreRequest},
};
use serde_json::{Value, json};

use super::*;

const MARK: &str = "the secret of the cart";

fn key(byte: u8) -> OperatorKey {
    OperatorKey::new([byte; 32]).unwrap()
}

fn keys(byte: u8) -> EndToEnd {
    EndToEnd::new(&key(byte)).unwrap()
}

fn carts(client: &Client) -> helve_client::Handles<Value> {
    handles(client, "carts", "ada")
}

fn handles(client: &Client, store: &str, owner: &str) -> helve_client::Handles<Value> {
    client.handles(HandleOptions::new(store, owner))
}

async fn stored(host: &Client, id: &str) -> Bytes {
    let request = GetRequest {
        store: "carts".into(),
        owner: "ada".into(),
        id: id.into(),
    };
    host.call(request).await.unwrap().value
}

async fn stored_key(host: &Client, key: &str) -> Bytes {
    let request = RetrieveRequest {
        owner: "ada".into(),
        key: key.into(),
    };
    host.call(request).await.unwrap().record.unwrap().value
}

/// As a person who controls the host could.
async fn overwrite(host: &Client, id: &str, value: Bytes) {
    put_down(host, ["carts", "ada", id], value).await;
}

/// The same, under any handle.
async fn put_down(host: &Client, [store, owner, id]: [&str; 3], value: Bytes) {
    let request = PutRequest {
        store: store.into(),
        owner: owner.into(),
        id: id.into(),
        value,
        ..PutRequest::default()
    };
    host.call(request).await.unwrap();
}

fn is_seen(value: &Bytes) -> bool {
    value
        .windows(MARK.len())
        .any(|part| part == MARK.as_bytes())
}

#[tokio::test]
async fn two_clients_with_one_key_share_values_that_the_host_never_sees() {
    let host = MemoryBuilder::new().build().unwrap();
    let (one, other) = (host.sealed(&keys(1)), host.sealed(&keys(1)));
    let id = carts(&one).mint(&json!(MARK), Ttl::Default).await.unwrap();
    assert!(!is_seen(&stored(&host, &id).await));
    carts(&other)
        .update(&id, |cart| json!([cart, 2]))
        .await
        .unwrap();
    let value = stored(&host, &id).await;
    assert!(!is_seen(&value));
    let found = carts(&one).list_values().await.unwrap();
    assert_eq!(found.items[0].value, json!([MARK, 2]));
    let Resolved::Live(taken) = carts(&one).take(&id).await.unwrap() else {
        panic!("it lives")
    };
    assert_eq!(taken.value, json!([MARK, 2]));
    assert_eq!(
        taken.info.value_bytes,
        serde_json::to_vec(&taken.value).unwrap().len() as u64
    );
    // So that the search could have found it.
    let plain = carts(&host).mint(&json!(MARK), Ttl::Default).await.unwrap();
    assert!(is_seen(&stored(&host, &plain).await));
}

#[tokio::test]
async fn notes_and_results_of_claims_are_sealed() {
    let host = MemoryBuilder::new().build().unwrap();
    let (one, other) = (host.sealed(&keys(1)), host.sealed(&keys(1)));
    let claims = |client: &Client| client.claims::<Value>(HandleOptions::new("carts", "ada"));
    let hour = Duration::from_secs(3600);
    let begun = claims(&one).begin_with_note("a", "d", hour, MARK).await;
    let BeginOutcome::Fresh(lease) = begun.unwrap() else {
        panic!("it was free")
    };
    assert!(!is_seen(&stored(&host, "a").await));
    let BeginOutcome::InFlight(found) = claims(&other).begin("a", "d", hour).await.unwrap() else {
        panic!("it is in flight")
    };
    assert_eq!(found.note, MARK);
    lease.finish(&json!(MARK), Ttl::Default).await.unwrap();
    assert!(!is_seen(&stored(&host, "a").await));
    let BeginOutcome::Done(record) = claims(&other).begin("a", "d", hour).await.unwrap() else {
        panic!("it is done")
    };
    assert_eq!(record.value, json!(MARK));
    assert_eq!(record.info.value_bytes, MARK.len() as u64 + 2);
}

#[tokio::test]
async fn keys_batches_and_transactions_are_sealed_too() {
    let host = MemoryBuilder::new().build().unwrap();
    let client = host.sealed(&keys(1));
    let tool = client.keys(KeyOptions::new("ada"));
    tool.store("a", &json!(MARK)).await.unwrap();
    tool.batch_store(&[("b".into(), json!([MARK])), ("c".into(), json!(3))])
        .await
        .unwrap();
    for name in ["a", "b", "c"] {
        let value = stored_key(&host, name).await;
        assert!(value.len() as u64 > ADDED_BYTES && !is_seen(&value));
    }
    assert_eq!(tool.retrieve("a").await.unwrap(), Some(json!(MARK)));
    let all = tool
        .batch_retrieve(&["b", "no", "c"].map(String::from))
        .await
        .unwrap();
    assert_eq!(all, [Some(json!([MARK])), None, Some(json!(3))]);
    let id = carts(&client)
        .mint(&json!(MARK), Ttl::Default)
        .await
        .unwrap();
    let transaction = client.transaction().take(&carts(&client), &id);
    let transaction = transaction.store(&tool, "order", &json!({"cart": MARK}), Ttl::Default);
    let Transacted::Committed(done) = transaction.commit().await.unwrap() else {
        panic!("it lived")
    };
    assert_eq!(done.taken::<Value>(0).unwrap().value, json!(MARK));
    assert_eq!(
        tool.retrieve("order").await.unwrap(),
        Some(json!({"cart": MARK}))
    );
}

#[tokio::test]
async fn another_key_a_plain_value_and_a_changed_one_are_refused() {
    let host = MemoryBuilder::new().build().unwrap();
    let client = host.sealed(&keys(1));
    let id = carts(&client)
        .mint(&json!(MARK), Ttl::Default)
        .await
        .unwrap();
    let error = carts(&host.sealed(&keys(2))).get(&id).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Sealed);
    let mut changed = stored(&host, &id).await.to_vec();
    *changed.last_mut().unwrap() ^= 1;
    for value in [
        changed.into(),
        Bytes::from_static(b"\"plain\""),
        Bytes::new(),
    ] {
        overwrite(&host, &id, value).await;
        let error = carts(&client).get(&id).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Sealed);
    }
}

#[tokio::test]
async fn values_that_were_swapped_are_refused_once_each_has_its_name() {
    let host = MemoryBuilder::new().build().unwrap();
    let client = host.sealed(&keys(1));
    for id in ["one", "other"] {
        carts(&client)
            .put(id, &json!(id), Ttl::Default)
            .await
            .unwrap();
    }
    let value = stored(&host, "one").await;
    overwrite(&host, "other", value).await;
    let error = carts(&client).get("other").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Sealed);
    // What was only minted is bound to its store and owner, as is said there.
    let minted = carts(&client).mint(&json!(1), Ttl::Default).await.unwrap();
    overwrite(&host, "other", stored(&host, &minted).await).await;
    assert_eq!(carts(&client).get("other").await.unwrap(), Some(json!(1)));
}

#[tokio::test]
async fn a_handles_value_named_or_minted_opens_in_no_other_store_and_for_no_other_owner() {
    let host = MemoryBuilder::new().build().unwrap();
    let client = host.sealed(&keys(1));
    let cart = carts(&client);
    cart.put("one", &json!(1), Ttl::Default).await.unwrap();
    let minted = cart.mint(&json!(1), Ttl::Default).await.unwrap();
    for id in ["one", &minted] {
        let value = stored(&host, id).await;
        for (store, owner) in [("carts", "bob"), ("orders", "ada")] {
            put_down(&host, [store, owner, id], value.clone()).await;
            let there = handles(&client, store, owner);
            let error = there.get(id).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Sealed, "{store} {owner} {id}");
        }
    }
}

#[tokio::test]
async fn a_keys_value_opens_under_no_other_key_and_for_no_other_owner() {
    let host = MemoryBuilder::new().build().unwrap();
    let client = host.sealed(&keys(1));
    let tool = client.keys(KeyOptions::new("ada"));
    tool.store("a", &json!(1)).await.unwrap();
    let value = stored_key(&host, "a").await;
    for (owner, key) in [("bob", "a"), ("ada", "b")] {
        let request = StoreRequest {
            owner: owner.into(),
            key: key.into(),
            value: value.clone(),
            ..StoreRequest::default()
        };
        host.call(request).await.unwrap();
        let there = client.keys(KeyOptions::new(owner));
        let error = there.retrieve(key).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Sealed, "{owner} {key}");
    }
}

#[tokio::test]
async fn one_value_is_sealed_with_another_salt_and_nonce_each_time() {
    let host = MemoryBuilder::new().build().unwrap();
    let cart = carts(&host.sealed(&keys(1)));
    let mut seen = Vec::new();
    for _ in 0..2 {
        cart.put("one", &json!(1), Ttl::Default).await.unwrap();
        let value = stored(&host, "one").await;
        // Behind the form, the key's id and the version.
        let random = &value[1 + KEY_ID_BYTES + 1..][..helve_seal::RANDOM_BYTES];
        let (salt, nonce) = random.split_at(16);
        seen.push((salt.to_vec(), nonce.to_vec()));
    }
    let (first, second) = (&seen[0], &seen[1]);
    assert!(first.0 != second.0 && first.1 != second.1, "{seen:?}");
}

#[tokio::test]
async fn a_rotation_opens_what_the_old_key_sealed_and_seals_under_the_new_one() {
    let host = MemoryBuilder::new().build().unwrap();
    let old = host.sealed(&keys(1));
    let both = host.sealed(&keys(1).and_newest(&key(2)).unwrap());
    let id = carts(&old).mint(&json!(1), Ttl::Default).await.unwrap();
    assert_eq!(carts(&both).get(&id).await.unwrap(), Some(json!(1)));
    carts(&both).update(&id, |_| json!(2)).await.unwrap();
    assert_eq!(
        carts(&old).get(&id).await.unwrap_err().kind(),
        ErrorKind::Sealed
    );
    assert_eq!(
        carts(&host.sealed(&keys(2))).get(&id).await.unwrap(),
        Some(json!(2))
    );
    assert!(keys(1).and_newest(&key(1)).is_err(), "a key twice");
}
