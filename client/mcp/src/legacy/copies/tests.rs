//! Room for copies, and what calls hold.

use std::time::Duration;

use futures::FutureExt as _;
use tokio::{task::yield_now, time::timeout};

use super::*;

fn copies(copies: usize, of_principal: usize) -> Copies {
    let limits = Limits {
        copies,
        of_principal,
    };
    Copies::new(Arc::default(), limits, Metrics::new())
}

/// Begins a session as rmcp does, and a call in it.
async fn begin(copies: &Copies, owner: &str) -> (String, Call) {
    let call = copies.call("begun", owner).await.unwrap();
    let (id, _transport) = copies.sessions.create_session().await.unwrap();
    (id.to_string(), call.named(&id))
}

async fn is_held(copies: &Copies, id: &str) -> bool {
    copies.sessions.has_session(&Arc::from(id)).await.unwrap()
}

#[tokio::test]
async fn principal_over_its_share_loses_its_own_idlest_copy() {
    let copies = copies(10, 2);
    let (other, _) = begin(&copies, "bob").await;
    let (first, _) = begin(&copies, "alice").await;
    let (second, _) = begin(&copies, "alice").await;
    drop(copies.call(&first, "alice").await);
    let (third, _) = begin(&copies, "alice").await;
    for (id, expected) in [(other, true), (first, true), (second, false), (third, true)] {
        assert_eq!(is_held(&copies, &id).await, expected);
    }
}

#[tokio::test]
async fn copies_with_a_call_under_way_stay() {
    let copies = copies(10, 2);
    let held = [begin(&copies, "alice").await, begin(&copies, "alice").await];
    assert_eq!(
        copies.call("begun", "alice").await.err(),
        Some(Busy::Principal)
    );
    // Others are not refused for it.
    begin(&copies, "bob").await;
    drop(held);
    begin(&copies, "alice").await;
}

#[tokio::test]
async fn full_replica_loses_the_idlest_copy_of_all() {
    let copies = copies(2, 2);
    let (first, _) = begin(&copies, "alice").await;
    let (second, held) = begin(&copies, "bob").await;
    let (_, held_too) = begin(&copies, "carol").await;
    assert!(!is_held(&copies, &first).await && is_held(&copies, &second).await);
    assert_eq!(
        copies.call("begun", "dave").await.err(),
        Some(Busy::Replica)
    );
    drop((held, held_too));
}

#[tokio::test]
async fn without_principals_the_room_is_for_all() {
    let copies = copies(3, 1);
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(begin(&copies, "").await.0);
    }
    assert!(!is_held(&copies, &ids[0]).await);
    for id in &ids[1..] {
        assert!(is_held(&copies, id).await);
    }
    assert_eq!(copies.lock().copies.len(), 3);
}

#[tokio::test]
async fn caller_who_goes_away_while_room_is_made_leaves_no_call() {
    let copies = copies(1, 1);
    let (idle, _) = begin(&copies, "").await;
    // The idle copy cannot go while its sessions are read.
    let reading = copies.sessions.sessions.read().await;
    let hung_up = copies.call("b", "").now_or_never();
    assert!(hung_up.is_none(), "the room was free");
    drop(reading);
    assert!(copies.call("c", "").await.is_ok(), "a call was left");
    let gone = async {
        while is_held(&copies, &idle).await {
            yield_now().await;
        }
    };
    let within = timeout(Duration::from_secs(60), gone).await;
    assert!(within.is_ok(), "{idle} is in memory, and in no count");
}

#[tokio::test]
async fn ids_without_an_answer_stay_spent_up_to_a_bound() {
    let copies = copies(1, 1);
    let (session, _) = begin(&copies, "").await;
    let take = async |number: usize| {
        let id = RequestId::String(number.to_string().into());
        let call = copies.call(&session, "").await.unwrap();
        call.with_id(Some(id)).ok()
    };
    let mut answered = take(0).await.unwrap();
    assert!(take(0).await.is_none(), "it is under way");
    answered.answered();
    drop(answered);
    for number in 0..SPENT_MAX {
        drop(take(number).await.unwrap());
    }
    for number in [0, SPENT_MAX - 1] {
        assert!(take(number).await.is_none(), "{number}");
    }
    drop(take(SPENT_MAX).await.unwrap());
    assert!(take(0).await.is_some(), "the oldest is forgotten");
}
