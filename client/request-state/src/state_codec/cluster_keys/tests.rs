//! Replicas on one ring, on paused time.

use std::time::Duration;

use helve_client::{Client, HandleOptions, HandleStore, MemoryBuilder, Ttl};

use super::*;
use crate::state_codec::{
    HardenedCodec, OperatorKey, PICK_UP_MAX, Patience, Refusal, StateCodec, StateContext,
};

fn ring(client: &Client) -> KeyRing {
    KeyRing::new(client, "shop", &OperatorKey::new([9; 32]).unwrap()).unwrap()
}

async fn replica(client: &Client) -> HardenedCodec {
    HardenedCodec::new(ClusterKeys::open(ring(client)).await.unwrap())
}

/// Every replica opens what every replica seals, and what they sealed before.
async fn all_open(replicas: &[HardenedCodec], sealed: &mut Vec<String>) {
    let context = StateContext::new().subject("alice");
    for replica in replicas {
        sealed.push(replica.encode("s", &context).await.unwrap());
    }
    for replica in replicas {
        for one in &*sealed {
            assert_eq!(replica.decode(one, &context).await.unwrap().state, "s");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_state_of_one_replica_opens_on_all_before_during_and_after_a_rotation() {
    let client = MemoryBuilder::new().build().unwrap();
    let ring = ring(&client);
    let old = ring.add().await.unwrap();
    let mut replicas = Vec::new();
    for _ in 0..3 {
        replicas.push(replica(&client).await);
        // They do not read the ring at the same times.
        tokio::time::advance(Duration::from_millis(1700)).await;
    }
    let mut sealed = Vec::new();
    all_open(&replicas, &mut sealed).await;
    let new = ring.add().await.unwrap();
    all_open(&replicas, &mut sealed).await;
    assert!(ring.activate(new.id, Patience::Wait).await.is_err());
    tokio::time::advance(PICK_UP_MAX).await;
    ring.activate(new.id, Patience::Wait).await.unwrap();
    for _ in 0..8 {
        all_open(&replicas, &mut sealed).await;
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert!(ring.remove(old.id, Patience::Wait).await.is_err());
    tokio::time::advance(Duration::from_secs(24 * 3600) + PICK_UP_MAX).await;
    ring.remove(old.id, Patience::Wait).await.unwrap();
    tokio::time::sleep(REFRESH + REFRESH).await;
    let late = replicas[2].decode(&sealed[0], &StateContext::new()).await;
    assert!(matches!(late, Err(Refusal::UnknownKey)), "{late:?}");
    all_open(&replicas, &mut Vec::new()).await;
}

#[tokio::test(start_paused = true)]
async fn a_key_that_was_forced_is_looked_up_as_soon_as_a_state_names_it() {
    let client = MemoryBuilder::new().build().unwrap();
    let ring = ring(&client);
    ring.add().await.unwrap();
    let early = replica(&client).await;
    let new = ring.add().await.unwrap();
    ring.activate(new.id, Patience::Force).await.unwrap();
    let late = replica(&client).await;
    let context = StateContext::new();
    let sealed = late.encode("s", &context).await.unwrap();
    assert!(early.decode(&sealed, &context).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_key_that_was_removed_by_force_opens_nothing_once_the_ring_was_read() {
    let client = MemoryBuilder::new().build().unwrap();
    let ring = ring(&client);
    let known_to_others = ring.add().await.unwrap();
    let replica = replica(&client).await;
    let context = StateContext::new();
    let sealed = replica.encode("s", &context).await.unwrap();
    let new = ring.add().await.unwrap();
    ring.activate(new.id, Patience::Force).await.unwrap();
    ring.remove(known_to_others.id, Patience::Force)
        .await
        .unwrap();
    tokio::time::sleep(REFRESH + REFRESH).await;
    let refused = replica.decode(&sealed, &context).await;
    assert!(matches!(refused, Err(Refusal::UnknownKey)), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_cannot_read_the_ring_holds_on_for_a_while_and_then_refuses_all() {
    let client = MemoryBuilder::new().build().unwrap();
    ring(&client).add().await.unwrap();
    let replica = replica(&client).await;
    let context = StateContext::new();
    let sealed = replica.encode("s", &context).await.unwrap();
    client.close();
    tokio::time::sleep(STALE_AFTER - REFRESH).await;
    assert!(replica.decode(&sealed, &context).await.is_ok());
    tokio::time::sleep(REFRESH + REFRESH).await;
    let refused = replica.decode(&sealed, &context).await;
    assert!(
        matches!(refused, Err(Refusal::Unavailable(_))),
        "{refused:?}"
    );
    assert!(replica.encode("s", &context).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_old_ring_put_back_in_its_place_is_not_taken() {
    let client = MemoryBuilder::new().build().unwrap();
    let ring = ring(&client);
    let old = ring.add().await.unwrap();
    let store = client.handles::<String>(HandleOptions::shared("helve-key-rings"));
    let before = store.get("shop").await.unwrap().unwrap();
    let new = ring.add().await.unwrap();
    ring.activate(new.id, Patience::Force).await.unwrap();
    ring.remove(old.id, Patience::Force).await.unwrap();
    let keys = ClusterKeys::open(ring).await.unwrap();
    store.put("shop", &before, Ttl::Never).await.unwrap();
    tokio::time::sleep(REFRESH + REFRESH).await;
    assert_eq!(keys.active().await.unwrap().id(), new.id);
    assert!(keys.find(old.id).await.is_err(), "it is not known");
}

#[tokio::test]
async fn a_ring_without_a_key_or_of_another_operator_refuses_to_open() {
    let client = MemoryBuilder::new().build().unwrap();
    let error = ClusterKeys::open(ring(&client)).await.unwrap_err();
    assert!(error.message().contains("helve key add"), "{error}");
    ring(&client).add().await.unwrap();
    let other = OperatorKey::new([8; 32]).unwrap();
    let other = KeyRing::new(&client, "shop", &other).unwrap();
    let error = ClusterKeys::open(other).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(KeyRing::new(&client, "no such name", &OperatorKey::new([8; 32]).unwrap()).is_err());
}

#[tokio::test]
async fn two_operators_at_once_lose_no_key() {
    let client = MemoryBuilder::new().build().unwrap();
    let rings: Vec<_> = (0..8).map(|_| ring(&client)).collect();
    let added = futures::future::join_all(rings.iter().map(KeyRing::add)).await;
    assert!(added.iter().all(Result::is_ok));
    assert_eq!(rings[0].list().await.unwrap().len(), 8);
}
