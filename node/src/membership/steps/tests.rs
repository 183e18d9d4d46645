//! The steps of changes, on a group that commits every edit at once.

use std::sync::Arc;

use super::*;
use crate::{
    membership::under_way::{Begun, Changes},
    raft::fake_group::{FakeGroup, record},
};

fn held(change: Change) -> Held {
    let Ok(Begun::New(held)) = Arc::new(Changes::default()).begin(change) else {
        panic!("nothing is under way");
    };
    held
}

fn voters(group: &FakeGroup) -> Vec<u64> {
    group.members().voters().into_iter().collect()
}

/// Node 4 takes seat 2 over.
async fn take_over(group: &FakeGroup) -> Result<(), MembershipError> {
    let (seats, held) = (
        Seats::new(group.clone()),
        held(Change::TakeOver { id: 4, seat: 2 }),
    );
    Steps::new(&seats, &held).seat(4, record(4, 2)).await
}

/// Seat 4, which node 4 holds if any does, replaces node 3.
async fn replace(group: &FakeGroup) -> Result<u64, MembershipError> {
    let change = Change::Replace {
        id: 3,
        seat: 4,
        peer_address: record(4, 4).peer_address,
    };
    let (seats, held) = (Seats::new(group.clone()), held(change));
    let checked = seats.check(held.change());
    let done = Steps::new(&seats, &held).carry_out().await;
    assert_eq!(checked.is_ok(), done.is_ok(), "{checked:?}, then {done:?}");
    done
}

#[tokio::test]
async fn a_seat_of_a_silent_voter_is_taken_over() {
    let group = FakeGroup::new([1, 2, 3]);
    group.silence(2);
    take_over(&group).await.expect("the seat is vacant");
    assert_eq!(voters(&group), [1, 3, 4]);
    assert!(group.members().member(2).is_none());
}

#[tokio::test]
async fn a_voter_that_returns_before_the_change_keeps_its_seat() {
    let group = FakeGroup::new([1, 2, 3]);
    group.silence(2);
    // While the new node is asked how it was started, which may take long.
    group.return_meanwhile(2);
    let refused = take_over(&group).await;
    assert!(
        matches!(refused, Err(MembershipError::SeatTaken(2))),
        "{refused:?}"
    );
    assert_eq!(voters(&group), [1, 2, 3]);
}

#[tokio::test]
async fn replacing_a_removed_node_by_a_learner_is_not_done() {
    let group = FakeGroup::new([1, 2]);
    group.add_learner(4);
    let refused = replace(&group).await;
    assert!(
        matches!(refused, Err(MembershipError::NoMember(3))),
        "{refused:?}"
    );
    assert_eq!(voters(&group), [1, 2]);
}

#[tokio::test]
async fn a_replacement_of_a_voter_is_found_done() {
    let group = FakeGroup::new([1, 2, 3]);
    group.add_learner(4);
    for _ in 0..2 {
        let done = replace(&group).await.expect("node 4 has caught up");
        assert_eq!((done, voters(&group)), (4, vec![1, 2, 4]));
    }
}
