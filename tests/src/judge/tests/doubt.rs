//! Bad histories in which calls of unknown outcome, refusals and retries play a part.

use helve_client::{ErrorKind, v1::exchange_answer::Answer};

use super::{
    Rule, breaks,
    history_builder::{HistoryBuilder, failed, get, identified, put, take},
    holds,
};
use crate::history::Request;

#[test]
fn an_unknown_write_that_was_seen_and_vanished() {
    let mut history = HistoryBuilder::new();
    history.call(put("a", "1", None));
    let old = history.read(get("a"));
    let old = history.answer(old).clone();
    history.done_unknown(put("a", "2", None));
    history.read(get("a"));
    let read = history.read(get("a"));
    let header = history.header(read).clone();
    history.falsify(read, old);
    *history.header(read) = header;
    breaks(Rule::Stale, &history.events);
    breaks(Rule::Linearizable, &history.events);
}

#[test]
fn an_unknown_write_before_it_was_asked_for() {
    let mut history = HistoryBuilder::new();
    history.call(put("b", "1", None));
    history.effect(&put("a", "2", None));
    history.call(put("b", "3", None));
    history.undone_unknown(put("a", "2", None));
    history.read(get("a"));
    breaks(Rule::Phantom, &history.events);
}

#[test]
fn a_write_that_was_said_to_have_had_no_effect() {
    let mut history = HistoryBuilder::new();
    let call = put("a", "1", None);
    history.effect(&call);
    history.tell(Request::Call(call), failed(ErrorKind::Unavailable));
    history.read(get("a"));
    breaks(Rule::Honest, &history.events);
}

#[test]
fn a_take_that_was_said_to_have_had_no_effect() {
    let mut history = HistoryBuilder::new();
    history.call(put("a", "1", None));
    history.effect(&take("a"));
    history.tell(Request::Call(take("a")), failed(ErrorKind::Unavailable));
    history.read(get("a"));
    breaks(Rule::Honest, &history.events);
}

#[test]
fn a_conflict_with_a_revision_that_the_record_never_had() {
    let mut history = HistoryBuilder::new();
    history.call(put("a", "1", None));
    history.call(put("b", "2", None));
    let conflict = history.call(put("a", "3", Some(7)));
    holds(&history.events);
    let kind = ErrorKind::Conflict {
        revision: 2,
        operation: 0,
    };
    history.events[conflict].outcome = failed(kind);
    breaks(Rule::Answer, &history.events);
    breaks(Rule::Linearizable, &history.events);
}

#[test]
fn a_conflict_that_should_have_been_none() {
    let mut history = HistoryBuilder::new();
    history.call(put("a", "1", None));
    let kind = ErrorKind::Conflict {
        revision: 0,
        operation: 0,
    };
    history.index += 1;
    history.tell(Request::Call(put("a", "2", Some(1))), failed(kind));
    breaks(Rule::Answer, &history.events);
}

#[test]
fn a_lost_update() {
    let mut history = HistoryBuilder::new();
    history.call(put("a", "1", None));
    history.call(put("a", "2", Some(1)));
    let second = history.call(put("a", "3", None));
    let request = Request::Call(put("a", "3", Some(1)));
    history.events[second].request = request;
    breaks(Rule::Answer, &history.events);
    breaks(Rule::Linearizable, &history.events);
}

#[test]
fn a_retry_that_was_told_another_outcome() {
    let mut history = HistoryBuilder::new();
    history.call(put("a", "1", None));
    let call = identified(take("a"), 3);
    history.call(call.clone());
    let retry = history.call(call);
    let Answer::Take(reply) = history.answer(retry) else {
        unreachable!()
    };
    assert!(
        reply.info.is_none(),
        "the model knows no identities: the second finds it taken"
    );
    breaks(Rule::Once, &history.events);
}

#[test]
fn two_writes_with_one_index() {
    let mut history = HistoryBuilder::new();
    history.call(put("a", "1", None));
    history.index -= 1;
    history.clock_ms -= 1;
    history.call(put("b", "2", None));
    breaks(Rule::Once, &history.events);
}
