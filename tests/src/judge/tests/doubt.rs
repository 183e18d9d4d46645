//! Bad histories in which calls of unknown outcome, refusals and retries play a part.

use helve_client::{ErrorKind, v1::exchange_answer::Answer};

use super::{
    Rule, breaks, holds,
    tale::{Tale, failed, get, identified, put, take},
};
use crate::history::Request;

#[test]
fn an_unknown_write_that_was_seen_and_vanished() {
    let mut tale = Tale::new();
    tale.call(put("a", "1", None));
    let old = tale.read(get("a"));
    let old = tale.answer(old).clone();
    tale.done_unknown(put("a", "2", None));
    tale.read(get("a"));
    let read = tale.read(get("a"));
    let header = tale.header(read).clone();
    tale.falsify(read, old);
    *tale.header(read) = header;
    breaks(Rule::Stale, &tale.events);
    breaks(Rule::Linearizable, &tale.events);
}

#[test]
fn an_unknown_write_that_stands_before_it_was_asked_for() {
    let mut tale = Tale::new();
    tale.call(put("b", "1", None));
    tale.effect(&put("a", "2", None));
    tale.call(put("b", "3", None));
    tale.undone_unknown(put("a", "2", None));
    tale.read(get("a"));
    breaks(Rule::Phantom, &tale.events);
}

#[test]
fn a_write_that_was_said_to_have_had_no_effect() {
    let mut tale = Tale::new();
    let call = put("a", "1", None);
    tale.effect(&call);
    tale.tell(Request::Call(call), failed(ErrorKind::Unavailable));
    tale.read(get("a"));
    breaks(Rule::Honest, &tale.events);
}

#[test]
fn a_take_that_was_said_to_have_had_no_effect() {
    let mut tale = Tale::new();
    tale.call(put("a", "1", None));
    tale.effect(&take("a"));
    tale.tell(Request::Call(take("a")), failed(ErrorKind::Unavailable));
    tale.read(get("a"));
    breaks(Rule::Honest, &tale.events);
}

#[test]
fn a_conflict_with_a_revision_that_the_record_never_had() {
    let mut tale = Tale::new();
    tale.call(put("a", "1", None));
    tale.call(put("b", "2", None));
    let conflict = tale.call(put("a", "3", Some(7)));
    holds(&tale.events);
    let kind = ErrorKind::Conflict {
        revision: 2,
        operation: 0,
    };
    tale.events[conflict].outcome = failed(kind);
    breaks(Rule::Answer, &tale.events);
    breaks(Rule::Linearizable, &tale.events);
}

#[test]
fn a_conflict_that_should_have_been_none() {
    let mut tale = Tale::new();
    tale.call(put("a", "1", None));
    let kind = ErrorKind::Conflict {
        revision: 0,
        operation: 0,
    };
    tale.index += 1;
    tale.tell(Request::Call(put("a", "2", Some(1))), failed(kind));
    breaks(Rule::Answer, &tale.events);
}

#[test]
fn a_lost_update() {
    let mut tale = Tale::new();
    tale.call(put("a", "1", None));
    tale.call(put("a", "2", Some(1)));
    let second = tale.call(put("a", "3", None));
    let request = Request::Call(put("a", "3", Some(1)));
    tale.events[second].request = request;
    breaks(Rule::Answer, &tale.events);
    breaks(Rule::Linearizable, &tale.events);
}

#[test]
fn a_retry_that_was_told_another_outcome() {
    let mut tale = Tale::new();
    tale.call(put("a", "1", None));
    let call = identified(take("a"), 3);
    tale.call(call.clone());
    let retry = tale.call(call);
    let Answer::Take(reply) = tale.answer(retry) else {
        unreachable!()
    };
    assert!(
        reply.info.is_none(),
        "the model knows no identities: the second finds it taken"
    );
    breaks(Rule::Once, &tale.events);
}

#[test]
fn two_writes_with_one_index() {
    let mut tale = Tale::new();
    tale.call(put("a", "1", None));
    tale.index -= 1;
    tale.clock_ms -= 1;
    tale.call(put("b", "2", None));
    breaks(Rule::Once, &tale.events);
}
