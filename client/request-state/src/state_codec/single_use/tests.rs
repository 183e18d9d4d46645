//! Replicas that share one memory of what was used.

use helve_client::MemoryBuilder;

use super::*;
use crate::state_codec::{FixedKeys, HardenedCodec, OperatorKey};

fn replica(key: &OperatorKey, client: &Client) -> SingleUse {
    let codec = HardenedCodec::new(Arc::new(FixedKeys::new(key)));
    SingleUse::new(Arc::new(codec), client)
}

#[tokio::test]
async fn of_all_replicas_to_which_a_state_is_presented_at_once_one_redeems_it() {
    let client = MemoryBuilder::new().build().unwrap();
    let key = OperatorKey::generate().unwrap();
    let replicas: Vec<_> = (0..3).map(|_| replica(&key, &client)).collect();
    let context = StateContext::new().subject("alice");
    let sealed = replicas[0].encode("refund", &context).await.unwrap();
    let tries = replicas.iter().map(|one| one.decode(&sealed, &context));
    let outcomes = futures::future::join_all(tries).await;
    assert_eq!(outcomes.iter().filter(|one| one.is_ok()).count(), 1);
    let used = |one: &&Result<Opened, Refusal>| matches!(one, Err(Refusal::Used));
    assert_eq!(outcomes.iter().filter(used).count(), 2);
}

#[tokio::test]
async fn a_state_that_does_not_hold_is_not_used_up() {
    let client = MemoryBuilder::new().build().unwrap();
    let replica = replica(&OperatorKey::generate().unwrap(), &client);
    let alice = StateContext::new().subject("alice");
    let sealed = replica.encode("refund", &alice).await.unwrap();
    let mallory = StateContext::new().subject("mallory");
    let refused = replica.decode(&sealed, &mallory).await;
    assert!(matches!(refused, Err(Refusal::Subject)), "{refused:?}");
    let store = client.handles::<()>(HandleOptions::shared(STORE));
    assert_eq!(store.len().await.unwrap(), 0, "nothing was stored");
    assert!(replica.decode(&sealed, &alice).await.is_ok());
}

#[tokio::test]
async fn without_a_store_to_mark_it_in_no_state_is_redeemed() {
    let client = MemoryBuilder::new().build().unwrap();
    let replica = replica(&OperatorKey::generate().unwrap(), &client);
    let context = StateContext::new();
    let sealed = replica.encode("refund", &context).await.unwrap();
    client.close();
    let refused = replica.decode(&sealed, &context).await;
    assert!(
        matches!(refused, Err(Refusal::Unavailable(_))),
        "{refused:?}"
    );
}
