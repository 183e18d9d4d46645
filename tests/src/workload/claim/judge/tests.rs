//! The judge of claims says nothing of what holds, and finds each way in which it can fail to hold.

use helve_client::v1::{ClaimAbandon, ClaimBegin, ClaimFinish, RecordInfo, ReplyHeader};

use super::*;

const D: &[u8] = b"d";
const E: &[u8] = b"e";

fn reply(index: u64, clock_ms: u64, status: ClaimStatus) -> ClaimReply {
    ClaimReply {
        header: Some(ReplyHeader {
            index,
            clock_ms,
            leader_hint: String::new(),
        }),
        status: status.into(),
        ..ClaimReply::default()
    }
}

fn told(action: Action, reply: ClaimReply) -> Told {
    Told {
        effect: 0,
        action,
        reply: Some(reply),
    }
}

fn doubt(told: Told) -> Told {
    Told {
        reply: None,
        ..told
    }
}

fn until(until_ms: u64, mut told: Told) -> Told {
    let reply = told.reply.as_mut().unwrap();
    reply.info = Some(RecordInfo {
        expires_at_ms: Some(until_ms),
        ..RecordInfo::default()
    });
    told
}

fn begun(index: u64, clock_ms: u64, digest: &'static [u8], status: ClaimStatus) -> Told {
    let begin = Action::Begin(ClaimBegin {
        digest: Bytes::from_static(digest),
        lease_ms: 10,
        note: Bytes::new(),
    });
    told(begin, reply(index, clock_ms, status))
}

/// A lease of ten milliseconds.
fn fresh(index: u64, clock_ms: u64) -> Told {
    let mut fresh = until(clock_ms + 10, begun(index, clock_ms, D, ClaimStatus::Fresh));
    fresh.reply.as_mut().unwrap().fence = index;
    fresh
}

/// A lease that is told how one before it ended.
fn behind(end: LeaseEnd, fence: u64, ended_at_ms: u64, mut fresh: Told) -> Told {
    fresh.reply.as_mut().unwrap().earlier = Some(EarlierLease {
        end: end.into(),
        fence,
        ended_at_ms,
    });
    fresh
}

fn in_flight(index: u64, clock_ms: u64, until_ms: u64) -> Told {
    until(until_ms, begun(index, clock_ms, D, ClaimStatus::InFlight))
}

fn showing(value: &'static str, mut told: Told) -> Told {
    told.reply.as_mut().unwrap().value = Bytes::from_static(value.as_bytes());
    told
}

fn done(index: u64, value: &'static str) -> Told {
    showing(value, begun(index, 100, D, ClaimStatus::Done))
}

fn finish(index: u64, clock_ms: u64, fence: u64, value: &'static str, status: ClaimStatus) -> Told {
    let finish = Action::Finish(ClaimFinish {
        fence,
        result: Bytes::from_static(value.as_bytes()),
        result_ttl_ms: None,
    });
    told(finish, reply(index, clock_ms, status))
}

fn finished(index: u64, clock_ms: u64, fence: u64, value: &'static str) -> Told {
    finish(index, clock_ms, fence, value, ClaimStatus::Finished)
}

fn abandon(index: u64, clock_ms: u64, fence: u64, status: ClaimStatus) -> Told {
    let abandon = Action::Abandon(ClaimAbandon {
        fence,
        ..ClaimAbandon::default()
    });
    told(abandon, reply(index, clock_ms, status))
}

#[test]
fn what_holds_is_not_found_wrong_in_whichever_order_it_was_told() {
    let histories = [
        vec![
            fresh(1, 0),
            in_flight(2, 5, 10),
            begun(3, 6, E, ClaimStatus::Conflict),
            finished(4, 9, 1, "v"),
            done(5, "v"),
            showing("v", finish(6, 20, 1, "w", ClaimStatus::Done)),
            begun(7, 21, E, ClaimStatus::Conflict),
        ],
        // A lease ends.
        vec![
            fresh(1, 0),
            behind(LeaseEnd::Expired, 1, 10, fresh(2, 10)),
            finish(3, 11, 1, "v", ClaimStatus::LeaseLost),
            finished(4, 12, 2, "w"),
            done(5, "w"),
        ],
        // It is abandoned.
        vec![
            fresh(1, 0),
            abandon(2, 1, 1, ClaimStatus::Abandoned),
            behind(LeaseEnd::Abandoned, 1, 1, fresh(3, 2)),
            finish(4, 3, 1, "v", ClaimStatus::LeaseLost),
        ],
        // What is in doubt may have been done, or not.
        vec![
            doubt(fresh(0, 0)),
            in_flight(2, 5, 12),
            begun(3, 6, E, ClaimStatus::Conflict),
            fresh(4, 20),
            doubt(finished(0, 0, 4, "v")),
            doubt(finished(0, 0, 4, "w")),
            done(5, "w"),
            done(6, "w"),
        ],
        vec![
            fresh(1, 0),
            doubt(abandon(0, 0, 1, ClaimStatus::Abandoned)),
            behind(LeaseEnd::Abandoned, 1, 2, fresh(2, 3)),
            finished(3, 4, 2, "v"),
        ],
        vec![
            fresh(1, 0),
            doubt(abandon(0, 0, 1, ClaimStatus::Abandoned)),
            behind(LeaseEnd::Expired, 1, 10, fresh(2, 10)),
        ],
        // An abandon hides none that ran out before; what is long ago is not known any more.
        vec![
            fresh(1, 0),
            behind(LeaseEnd::Expired, 1, 10, fresh(2, 10)),
            abandon(3, 11, 2, ClaimStatus::Abandoned),
            behind(LeaseEnd::Expired, 1, 10, fresh(4, 12)),
            fresh(5, 12 + KNOWN_MS),
        ],
    ];
    for mut history in histories {
        for _ in 0..history.len() {
            let harmed = judge(&history);
            assert!(harmed.is_empty(), "{harmed:?}");
            history.rotate_left(1);
        }
    }
}

#[test]
fn each_broken_promise_is_found() {
    let cases = [
        ("two leases are out", vec![fresh(1, 0), fresh(2, 9)]),
        (
            "was lost before its end",
            vec![fresh(1, 0), finish(2, 9, 1, "v", ClaimStatus::LeaseLost)],
        ),
        (
            "was given out behind result",
            vec![fresh(1, 0), finished(2, 1, 1, "v"), fresh(3, 50)],
        ),
        (
            "behind result",
            vec![fresh(1, 0), finished(2, 1, 1, "v"), finished(3, 2, 1, "w")],
        ),
        (
            "became",
            vec![fresh(1, 0), finished(2, 1, 1, "v"), done(3, "w")],
        ),
        ("no finish brought it", vec![fresh(1, 0), done(2, "v")]),
        (
            "in flight behind result",
            vec![fresh(1, 0), finished(2, 1, 1, "v"), in_flight(3, 2, 10)],
        ),
        (
            "is not the one that is out",
            vec![fresh(1, 0), finished(2, 10, 1, "v")],
        ),
        (
            "is not the one that is out",
            vec![fresh(1, 0), fresh(2, 10), finished(3, 11, 1, "v")],
        ),
        (
            "in flight until 10",
            vec![fresh(1, 0), in_flight(2, 10, 10)],
        ),
        (
            "the last known lease",
            vec![fresh(1, 0), in_flight(2, 5, 30)],
        ),
        (
            "a conflict with the same digest",
            vec![fresh(1, 0), begun(2, 1, D, ClaimStatus::Conflict)],
        ),
        (
            "a conflict with nothing",
            vec![begun(2, 1, D, ClaimStatus::Conflict)],
        ),
        (
            "a conflict with nothing",
            vec![fresh(1, 0), begun(2, 10, E, ClaimStatus::Conflict)],
        ),
        (
            "was shown to",
            vec![
                fresh(1, 0),
                finished(2, 1, 1, "v"),
                showing("v", begun(3, 2, E, ClaimStatus::Done)),
            ],
        ),
        (
            "came to Fresh",
            vec![finish(1, 0, 1, "v", ClaimStatus::Fresh)],
        ),
    ];
    for (sign, history) in cases {
        let harmed = judge(&history);
        let found = harmed.iter().any(|harmed| harmed.seen.contains(sign));
        assert!(found, "{sign}: {harmed:?}");
    }
}

#[test]
fn a_lease_that_is_told_wrongly_of_those_before_is_found() {
    let ran_out = || vec![fresh(1, 0), behind(LeaseEnd::Expired, 1, 10, fresh(2, 10))];
    let abandoned = abandon(3, 11, 2, ClaimStatus::Abandoned);
    let cases = [
        ("is not told of lease 2", vec![fresh(4, 30)]),
        ("none was", vec![]),
        (
            "is told of",
            vec![behind(LeaseEnd::Abandoned, 2, 11, fresh(4, 30))],
        ),
        (
            "is told of",
            vec![behind(LeaseEnd::Expired, 1, 10, fresh(4, 30))],
        ),
        (
            "is told of",
            vec![behind(LeaseEnd::Expired, 2, 19, fresh(4, 30))],
        ),
        (
            "is told of",
            vec![
                abandoned.clone(),
                behind(LeaseEnd::Abandoned, 2, 11, fresh(4, 12)),
            ],
        ),
        ("is not told of lease 2", vec![abandoned, fresh(4, 12)]),
    ];
    for (sign, last) in cases {
        let mut history = ran_out();
        if last.is_empty() {
            history.remove(0);
        }
        history.extend(last);
        let harmed = judge(&history);
        let found = harmed.iter().any(|harmed| harmed.seen.contains(sign));
        assert!(found, "{sign}: {harmed:?}");
    }
}

#[test]
fn a_fence_that_falls_is_found() {
    let mut fell = fresh(2, 50);
    fell.reply.as_mut().unwrap().fence = 1;
    let harmed = judge(&[fresh(1, 0), fell]);
    assert!(harmed[0].seen.contains("follows fence"), "{harmed:?}");
}
