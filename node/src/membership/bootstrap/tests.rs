//! How a pristine node begins, by the answers of its peers.

use super::*;

fn node(seat: u64) -> NodeRecord {
    NodeRecord {
        uuid: format!("u-{seat}"),
        seat,
        ..NodeRecord::default()
    }
}

fn pristine(seat: u64) -> (u64, HelloReply) {
    let reply = HelloReply {
        seat,
        uuid: format!("u-{seat}"),
        pristine: true,
        ..HelloReply::default()
    };
    (seat, reply)
}

fn peers() -> BTreeMap<u64, String> {
    (1..=3).map(|seat| (seat, format!("h:{seat}"))).collect()
}

#[test]
fn the_lowest_seat_makes_the_cluster_once_every_listed_peer_answered_pristine() {
    let all = [pristine(2), pristine(3)].into();
    let Decision::Begin(Beginning::Initialise(members)) =
        decide(&node(1), &peers(), &all, Force::No)
    else {
        panic!("must initialise");
    };
    assert_eq!(members.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(members[&3].peer_address, "h:3");
    let some = [pristine(2)].into();
    assert!(matches!(
        decide(&node(1), &peers(), &some, Force::No),
        Decision::Wait(_)
    ));
    let others = [pristine(1), pristine(3)].into();
    assert!(matches!(
        decide(&node(2), &peers(), &others, Force::No),
        Decision::Wait(_)
    ));
}

#[test]
fn the_operator_must_say_that_what_silent_peers_held_is_lost() {
    let some = [pristine(2)].into();
    let decision = decide(&node(1), &peers(), &some, Force::EverythingIsLost);
    let Decision::Forced(Ok(Beginning::Initialise(members))) = decision else {
        panic!("must initialise");
    };
    assert_eq!(members.len(), 2);
    let decision = decide(&node(1), &peers(), &some, Force::Asked);
    let Decision::Forced(Err(NotForced::Silent { silent })) = decision else {
        panic!("must refuse");
    };
    assert_eq!(silent, [3]);
}

#[test]
fn a_pristine_node_never_makes_a_second_cluster() {
    let member = HelloReply {
        seat: 2,
        leader_peer_address: "h:2".to_owned(),
        ..HelloReply::default()
    };
    let replies = BTreeMap::from([(2, member.clone()), pristine(3)]);
    let decision = decide(&node(1), &peers(), &replies, Force::No);
    assert!(matches!(decision, Decision::Join(address) if address == "h:2"));
    // With a leader or without: its data is left.
    let leaderless = HelloReply {
        leader_peer_address: String::new(),
        ..member.clone()
    };
    for survivor in [member.clone(), leaderless] {
        for force in [Force::Asked, Force::EverythingIsLost] {
            let replies = BTreeMap::from([(2, survivor.clone())]);
            let decision = decide(&node(1), &peers(), &replies, force);
            let Decision::Forced(Err(NotForced::DataLeft { seat, address })) = decision else {
                panic!("must refuse");
            };
            assert_eq!((seat, address.as_str()), (2, "h:2"));
        }
    }
    let known = [(
        2,
        HelloReply {
            knows_you: true,
            ..member
        },
    )]
    .into();
    for force in [Force::No, Force::Asked, Force::EverythingIsLost] {
        let decision = decide(&node(1), &peers(), &known, force);
        assert!(matches!(decision, Decision::Begin(Beginning::Await)));
    }
}

#[test]
fn a_peer_that_was_given_an_id_elsewhere_is_no_founder() {
    let (seat, mut joined) = pristine(2);
    joined.cluster_id = "c".to_owned();
    let replies = BTreeMap::from([(seat, joined), pristine(3)]);
    let decision = decide(&node(1), &peers(), &replies, Force::No);
    assert!(matches!(decision, Decision::Wait(_)));
}

#[test]
fn a_learner_founds_no_cluster_and_waits_or_joins() {
    let (seat, mut learner) = pristine(1);
    learner.learner = true;
    let all = BTreeMap::from([(seat, learner), pristine(3)]);
    // The lowest seat of those that vote founds the cluster, without it.
    let decision = decide(&node(2), &peers(), &all, Force::No);
    let Decision::Begin(Beginning::Initialise(members)) = decision else {
        panic!("must initialise");
    };
    assert_eq!(members.keys().copied().collect::<Vec<_>>(), [2, 3]);
    let pristine_ones = [pristine(2), pristine(3)].into();
    assert!(matches!(
        decide_as_learner(&pristine_ones),
        Decision::Wait(why) if why.contains("start the voters")
    ));
    let member = HelloReply {
        seat: 2,
        leader_peer_address: "h:2".to_owned(),
        ..HelloReply::default()
    };
    let joining = BTreeMap::from([(2, member.clone()), pristine(3)]);
    assert!(matches!(
        decide_as_learner(&joining),
        Decision::Join(address) if address == "h:2"
    ));
    let founder = HelloReply {
        knows_you: true,
        ..member
    };
    assert!(matches!(
        decide_as_learner(&BTreeMap::from([(2, founder)])),
        Decision::Wait(why) if why.contains("without --learner")
    ));
}
