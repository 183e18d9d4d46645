//! Which replies let a node take part that comes back.

use helve_proto::peer::v1::{NodeRecord, Testimony};

use super::*;
use crate::identity::acknowledged::{Position, Run};

fn identity() -> Identity {
    let record = NodeRecord {
        uuid: "own".to_owned(),
        seat: 1,
        ..NodeRecord::default()
    };
    Identity::new(record, 1, "ours".to_owned())
}

#[expect(
    clippy::fn_params_excessive_bools,
    reason = "it is the message's own field"
)]
fn reply(takes_part: bool) -> HelloReply {
    HelloReply {
        testimony: Some(Testimony {
            takes_part,
            ..Testimony::default()
        }),
        ..HelloReply::default()
    }
}

fn replies(of: &[(&str, bool)]) -> BTreeMap<String, HelloReply> {
    of.iter()
        .map(|(uuid, takes_part)| ((*uuid).to_owned(), reply(*takes_part)))
        .collect()
}

fn is_clear(voters: &[&str], of: &[(&str, bool)], waited: Duration) -> bool {
    let verdict = judge(&identity(), &others(voters), &replies(of), waited);
    verdict == Verdict::Clear
}

/// What a log says that has these voters.
fn others(voters: &[&str]) -> Others {
    Others {
        voters: voters.iter().map(ToString::to_string).collect(),
        count: voters.len(),
        ..Others::default()
    }
}

/// An empty log, of a node whose `--peers` lists `count` others.
fn unknown(count: usize) -> Others {
    Others {
        count,
        is_unknown: true,
        ..Others::default()
    }
}

/// The reply of a member that takes part and knows the node that comes back.
fn member(role: MemberRole) -> HelloReply {
    HelloReply {
        role: role.into(),
        knows_you: true,
        cluster_id: "ours".to_owned(),
        ..reply(true)
    }
}

fn verdict(others: &Others, of: &[(&str, HelloReply)], waited: Duration) -> Verdict {
    let replies = of.iter().cloned();
    let replies = replies.map(|(uuid, reply)| (uuid.to_owned(), reply));
    judge(&identity(), others, &replies.collect(), waited)
}

#[test]
fn a_majority_clears_a_node_if_one_takes_part_or_all_answer_or_time_is_up() {
    let soon = Duration::ZERO;
    assert!(!is_clear(&["b", "c"], &[], PATIENCE));
    assert!(!is_clear(&["b", "c"], &[("b", false)], soon));
    assert!(is_clear(&["b", "c"], &[("b", true)], soon));
    assert!(is_clear(&["b", "c"], &[("b", false)], PATIENCE));
    assert!(is_clear(&["b", "c"], &[("b", false), ("c", false)], soon));
    assert!(!is_clear(&["b", "c", "d", "e"], &[("b", true)], PATIENCE));
    assert!(is_clear(
        &["b", "c", "d", "e"],
        &[("b", true), ("c", false)],
        soon
    ));
    assert!(is_clear(&["b"], &[("b", false)], soon));
    assert!(!is_clear(&["b"], &[], PATIENCE));
    assert!(is_clear(&[], &[], soon));
    // Who is no voter, and does not know this node, clears nothing.
    assert!(!is_clear(&["b", "c"], &[("x", true)], PATIENCE));
}

#[test]
fn a_learner_does_not_count_towards_the_majority() {
    let voters = others(&["b", "c"]);
    let learner = || ("l", member(MemberRole::NoVoter));
    let of = [learner()];
    assert_ne!(verdict(&voters, &of, PATIENCE), Verdict::Clear);
    // Nor as the second answer, after which a third is not waited for.
    let of = [learner(), ("c", reply(false))];
    assert_ne!(verdict(&voters, &of, Duration::ZERO), Verdict::Clear);
    assert_eq!(verdict(&voters, &of, PATIENCE), Verdict::Clear);
}

#[test]
fn a_voter_that_an_old_log_does_not_have_counts_if_it_says_so() {
    let voters = others(&["b", "c"]);
    let of = [("d", member(MemberRole::Voter))];
    assert_eq!(verdict(&voters, &of, Duration::ZERO), Verdict::Clear);
    // By this node's own log.
    let of = [("b", member(MemberRole::Unspecified))];
    assert_eq!(verdict(&voters, &of, Duration::ZERO), Verdict::Clear);
    let stranger = HelloReply {
        knows_you: false,
        ..member(MemberRole::Voter)
    };
    let of = [("d", stranger)];
    assert_ne!(verdict(&voters, &of, PATIENCE), Verdict::Clear);
}

#[test]
fn an_older_version_that_does_not_say_whether_it_votes() {
    let of = [("d", member(MemberRole::Unspecified))];
    for others in [others(&["b", "c"]), unknown(1)] {
        let verdict = verdict(&others, &of, PATIENCE);
        assert!(
            matches!(&verdict, Verdict::Wait(why) if why.contains("upgrade those")),
            "{verdict:?}"
        );
    }
}

#[test]
fn a_node_without_a_log_needs_a_voters_word() {
    let founder = || reply(false);
    let voter = || member(MemberRole::Voter);
    let clear =
        |count, of: &[(&str, HelloReply)]| verdict(&unknown(count), of, PATIENCE) == Verdict::Clear;
    assert!(clear(0, &[]));
    assert!(clear(2, &[("b", voter())]));
    assert!(clear(4, &[("b", voter()), ("c", founder())]));
    assert!(!clear(2, &[("c", founder()), ("d", founder())]));
    let no_voter = || member(MemberRole::NoVoter);
    assert!(!clear(4, &[("b", voter()), ("l", no_voter())]));
    assert!(clear(
        3,
        &[("b", voter()), ("l", no_voter()), ("m", no_voter())]
    ));
    let joining = HelloReply {
        cluster_id: "ours".to_owned(),
        ..founder()
    };
    assert!(!clear(3, &[("b", voter()), ("l", joining)]));
    let learner = HelloReply {
        learner: true,
        ..founder()
    };
    assert!(!clear(4, &[("b", voter()), ("l", learner.clone())]));
    assert!(clear(
        3,
        &[("b", voter()), ("l", learner.clone()), ("m", learner)]
    ));
}

#[test]
fn an_only_voter_hears_its_learners_and_does_not_need_them() {
    let alone = Others {
        is_only_voter: true,
        ..Others::default()
    };
    assert_ne!(verdict(&alone, &[], Duration::ZERO), Verdict::Clear);
    assert_eq!(verdict(&alone, &[], PATIENCE), Verdict::Clear);
    let of = [("l", member(MemberRole::NoVoter))];
    assert_eq!(verdict(&alone, &of, Duration::ZERO), Verdict::Clear);
}

#[test]
fn peer_on_an_older_disk_clears_no_node() {
    let identity = identity();
    let acknowledged = identity.acknowledged();
    let run = |number| Run { number, nonce: 1 };
    let newer = Position {
        term: 2,
        last: Some((2, 9)),
    };
    acknowledged.note("b", run(1), newer);
    let testimony = Testimony {
        run: Some(run(2).to_proto()),
        takes_part: true,
        ..Testimony::default()
    };
    identity.hear("b", Some(&testimony));
    let replies = replies(&[("b", true)]);
    let verdict = judge(&identity, &others(&["b", "c"]), &replies, PATIENCE);
    assert!(
        matches!(&verdict, Verdict::Wait(why) if why.contains("entry 9 in term 2")),
        "{verdict:?}"
    );
}
