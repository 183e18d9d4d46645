//! Tests of what shows an older disk, and of what must not.

use std::sync::Arc;

use helve_proto::peer::v1::{Acknowledged as Told, Testimony};
use proptest::prelude::*;
use prost::Message as _;

use super::*;
use crate::properties;

const OWN: &str = "own";
const PEER: &str = "peer";

fn run(number: u64) -> Run {
    Run {
        number,
        nonce: number + 100,
    }
}

fn at(term: u64, entry_term: u64, index: u64) -> Position {
    Position {
        term,
        last: Some((entry_term, index)),
    }
}

fn judged(known: &AcknowledgedPositions, number: u64, began: Position) -> bool {
    known.judge(PEER, run(number), began).is_ok()
}

#[test]
fn a_later_run_that_lacks_what_was_acknowledged_is_on_an_older_disk() {
    let known = AcknowledgedPositions::default();
    known.note(PEER, run(1), at(3, 3, 50));
    known.note(PEER, run(1), at(3, 3, 40));
    for (began, is_sound) in [
        (at(3, 3, 50), true),
        (at(3, 3, 51), true),
        (at(3, 3, 49), false),
        (at(3, 2, 70), false),
        (at(2, 2, 70), false),
        // A later leader may have shortened the log.
        (at(4, 2, 10), true),
        (Position::default(), false),
    ] {
        assert_eq!(judged(&known, 2, began), is_sound, "{began}");
    }
    // Its own run grows beyond what it began with.
    assert!(judged(&known, 1, Position::default()));
}

#[test]
fn a_vote_that_was_lost_shows_an_older_disk() {
    let known = AcknowledgedPositions::default();
    let vote = Position {
        term: 5,
        last: None,
    };
    known.note(PEER, run(1), vote);
    assert!(!judged(&known, 2, at(4, 4, 50)));
    assert!(judged(&known, 2, at(5, 4, 50)));
}

#[test]
fn a_number_of_starts_that_was_used_up_shows_an_older_disk() {
    let known = AcknowledgedPositions::default();
    known.note(PEER, run(3), Position::default());
    let copy = Run {
        number: 3,
        nonce: 7,
    };
    assert!(known.judge(PEER, copy, at(9, 9, 9)).is_err());
    assert!(!judged(&known, 2, at(9, 9, 9)));
    assert!(judged(&known, 3, Position::default()));
    assert!(judged(&known, 4, Position::default()));
}

#[test]
fn what_an_earlier_run_acknowledged_is_not_forgotten_over_a_later_one() {
    let known = AcknowledgedPositions::default();
    known.note(PEER, run(1), at(3, 3, 50));
    known.note(PEER, run(2), at(3, 3, 10));
    assert!(!judged(&known, 2, at(3, 3, 9)));
    // A late report counts all the same, and not as the newer run.
    let known = AcknowledgedPositions::default();
    known.note(PEER, run(2), at(3, 3, 10));
    known.note(PEER, run(1), at(3, 3, 50));
    assert!(!judged(&known, 2, at(3, 3, 9)));
    assert!(judged(&known, 2, at(3, 3, 50)));
}

#[test]
fn a_node_learns_from_a_peer_that_its_own_disk_is_older() {
    let peer = AcknowledgedPositions::default();
    peer.begin(PEER, run(1), Position::default(), None);
    peer.note(OWN, run(1), at(3, 3, 50));
    let own = AcknowledgedPositions::default();
    own.begin(OWN, run(2), at(3, 3, 20), None);
    own.hear(OWN, PEER, &peer.testimony());
    let why = own.put_back().expect("it lacks thirty entries");
    assert!(
        why.contains("entry 20 in term 3") && why.contains("entry 50"),
        "{why}"
    );
    let sound = AcknowledgedPositions::default();
    sound.begin(OWN, run(2), at(3, 3, 50), None);
    sound.hear(OWN, PEER, &peer.testimony());
    assert_eq!(sound.put_back(), None);
}

#[test]
fn what_is_known_outlives_the_process_and_damage_is_no_obstacle() {
    let known = AcknowledgedPositions::default();
    known.note(PEER, run(1), at(3, 3, 50));
    known.note(PEER, run(2), at(3, 3, 60));
    let stored = known.encode().expect("there is something new");
    assert_eq!(known.encode(), None);
    let next = AcknowledgedPositions::default();
    next.begin(OWN, run(1), Position::default(), Some(&stored));
    assert!(!judged(&next, 2, at(3, 3, 49)));
    assert!(!judged(&next, 3, at(3, 3, 59)));
    let forgetful = AcknowledgedPositions::default();
    forgetful.begin(OWN, run(1), Position::default(), Some(&[0xff; 9]));
    assert!(judged(&forgetful, 3, Position::default()));
}

#[test]
fn a_leader_on_an_older_disk_is_told_of_the_run_that_it_repeats() {
    let peer = AcknowledgedPositions::default();
    peer.begin(PEER, run(1), Position::default(), None);
    peer.note(OWN, run(2), at(3, 3, 50));
    let own = AcknowledgedPositions::default();
    let repeated = Run {
        number: 2,
        nonce: 1,
    };
    own.begin(OWN, repeated, at(3, 3, 20), None);
    own.note(OWN, repeated, at(4, 4, 22));
    own.hear(OWN, PEER, &peer.testimony());
    assert!(own.put_back().is_some());
}

#[test]
fn a_log_that_was_put_back_beside_a_newer_memory_is_told_at_once() {
    let own = AcknowledgedPositions::default();
    own.note(OWN, run(1), at(3, 3, 50));
    let stored = own.encode().expect("there is something new");
    let next = AcknowledgedPositions::default();
    next.begin(OWN, run(2), at(3, 3, 49), Some(&stored));
    assert!(next.put_back().is_some());
}

#[test]
fn a_node_of_a_version_that_tells_nothing_is_not_suspected() {
    let known = AcknowledgedPositions::default();
    known.note(PEER, Run::default(), at(3, 3, 50));
    known.note(PEER, run(1), at(3, 3, 50));
    let nothing = Position::default();
    assert!(known.judge(PEER, Run::default(), nothing).is_ok());
}

#[test]
fn only_members_are_remembered_and_not_too_many() {
    let known = AcknowledgedPositions::default();
    // First: once as many nodes are known as may be, no other is added, however short its name is.
    let long = "x".repeat(ACKNOWLEDGED_UUID_BYTES_MAX + 1);
    known.note(&long, run(1), Position::default());
    assert!(known.testimony().acknowledged.is_empty());
    for number in 0..2 * ACKNOWLEDGED_NODES_MAX {
        known.note(&format!("node-{number}"), run(1), Position::default());
    }
    assert_eq!(known.testimony().acknowledged.len(), ACKNOWLEDGED_NODES_MAX);
    known.retain(&["node-1".to_owned()].into());
    assert_eq!(known.testimony().acknowledged.len(), 1);
}

fn made_up_position() -> impl Strategy<Value = Position> {
    (0..4_u64, proptest::option::of((0..4_u64, 0..9_u64)))
        .prop_map(|(term, last)| Position { term, last })
}

fn made_up_told() -> impl Strategy<Value = Told> {
    let run = (0..4_u64, 0..2_u64).prop_map(|(number, nonce)| Run { number, nonce });
    let uuid = prop_oneof![Just(OWN.to_owned()), Just(PEER.to_owned()), ".{0,80}"];
    let before = proptest::option::of(made_up_position());
    (uuid, run, made_up_position(), before).prop_map(|(uuid, run, position, before)| Told {
        uuid,
        run: Some(run.to_proto()),
        position: Some(position.to_proto()),
        before: before.map(Position::to_proto),
    })
}

#[test]
fn no_testimony_that_a_peer_makes_up_is_believed_beyond_its_bounds() {
    let told = proptest::collection::vec(made_up_told(), 0..100);
    properties::check(&told, |acknowledged| {
        let own = AcknowledgedPositions::default();
        own.begin(OWN, run(9), at(9, 9, 9), None);
        let testimony = Testimony {
            acknowledged,
            ..Testimony::default()
        };
        own.hear(OWN, PEER, &testimony);
        // Whatever it says of earlier runs, this one began beyond it.
        prop_assert_eq!(own.put_back(), None::<Arc<String>>);
        let kept = own.testimony();
        prop_assert!(kept.acknowledged.len() <= ACKNOWLEDGED_NODES_MAX);
        let is_short = |told: &Told| told.uuid.len() <= ACKNOWLEDGED_UUID_BYTES_MAX;
        prop_assert!(kept.acknowledged.iter().all(is_short), "{kept:?}");
        let stored = kept.encode_to_vec();
        own.begin(OWN, run(9), at(9, 9, 9), Some(&stored));
        Ok(())
    });
}
