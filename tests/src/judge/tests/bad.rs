//! What must not be is found, by the promise that it breaks.

use helve_client::v1::{CountRequest, HandleStatus, exchange_answer::Answer, exchange_call::Call};

use super::{
    Rule, breaks,
    history_builder::{
        HistoryBuilder, after, batch, checkout, delete, get, get_of, mint, put, put_for, retrieve,
        store, take,
    },
    holds,
};
use crate::history::{Outcome, Reply};

#[test]
fn an_acknowledged_write_that_is_lost() {
    let mut history = HistoryBuilder::new();
    history.call(put("b", "1", None));
    let nothing = history.read(get("a"));
    let nothing = history.answer(nothing).clone();
    history.call(put("a", "2", None));
    let read = history.read(get("a"));
    let header = history.header(read).clone();
    history.falsify(read, nothing);
    *history.header(read) = header;
    breaks(Rule::Lost, &history.events);
    breaks(Rule::Linearizable, &history.events);
}

#[test]
fn a_mint_that_took_effect_twice() {
    let mut history = HistoryBuilder::new();
    history.call(mint("1", None));
    history.effect(&mint("1", None));
    history.list();
    breaks(Rule::Once, &history.events);
}

#[test]
fn an_append_that_took_effect_twice() {
    let mut history = HistoryBuilder::new();
    history.call(store("log", "a", None));
    history.call(store("log", "a,b", Some(1)));
    history.effect(&store("log", "a,b", None));
    history.read(retrieve("log"));
    breaks(Rule::Once, &history.events);
}

#[test]
fn a_stale_read_at_the_index_of_the_new_value() {
    let mut history = HistoryBuilder::new();
    history.call(put("a", "1", None));
    let old = history.read(get("a"));
    let old = history.answer(old).clone();
    history.call(put("a", "2", None));
    let read = history.read(get("a"));
    let header = history.header(read).clone();
    history.falsify(read, old);
    *history.header(read) = header;
    breaks(Rule::Stale, &history.events);
    breaks(Rule::Linearizable, &history.events);
}

#[test]
fn a_stale_read_at_the_index_of_the_old_value() {
    let mut history = HistoryBuilder::new();
    history.call(put("a", "1", None));
    let old = history.read(get("a"));
    let old = history.answer(old).clone();
    history.call(put("a", "2", None));
    let read = history.read(get("a"));
    history.falsify(read, old);
    breaks(Rule::RealTime, &history.events);
    breaks(Rule::Linearizable, &history.events);
}

#[test]
fn a_read_after_the_deadline() {
    let mut history = HistoryBuilder::new();
    history.call(put_for("a", "1", after(100)));
    let read = history.read(get("a"));
    let live = history.answer(read).clone();
    history.tick(200);
    let read = history.read(get("a"));
    let header = history.header(read).clone();
    history.falsify(read, live);
    *history.header(read) = header;
    breaks(Rule::Lifetime, &history.events);
}

#[test]
fn a_handle_that_expired_early() {
    let mut history = HistoryBuilder::new();
    history.call(put_for("a", "1", after(100)));
    history.tick(50);
    let read = history.read(get("a"));
    let Answer::Get(reply) = history.answer(read) else {
        unreachable!()
    };
    reply.set_status(HandleStatus::Expired);
    reply.info = None;
    reply.value.clear();
    breaks(Rule::Lifetime, &history.events);
}

#[test]
fn a_deadline_that_is_not_what_was_asked_for() {
    let mut history = HistoryBuilder::new();
    let write = history.call(put_for("a", "1", after(100)));
    let Answer::Put(reply) = history.answer(write) else {
        unreachable!()
    };
    reply.info.as_mut().unwrap().expires_at_ms = Some(1_051);
    breaks(Rule::Answer, &history.events);
}

#[test]
fn an_idle_handle_with_less_than_its_idle_time_left_after_a_get() {
    let mut history = HistoryBuilder::new();
    let idle = helve_client::v1::Lifetime {
        absolute: None,
        idle_ttl_ms: Some(100),
    };
    history.call(put_for("a", "1", idle));
    history.tick(20);
    history.call(put("b", "2", None));
    history.read(get("a"));
    breaks(Rule::Lifetime, &history.events);
}

#[test]
fn a_torn_batch() {
    let mut history = HistoryBuilder::new();
    history.call(batch(&[("k", "1"), ("l", "2")]));
    let old = history.read(retrieve("l"));
    let old = history.answer(old).clone();
    history.call(batch(&[("k", "3"), ("l", "4")]));
    history.read(retrieve("k"));
    let read = history.read(retrieve("l"));
    let header = history.header(read).clone();
    history.falsify(read, old);
    *history.header(read) = header;
    breaks(Rule::Torn, &history.events);
}

#[test]
fn a_checkout_that_stored_the_order_and_left_the_cart() {
    let mut history = HistoryBuilder::new();
    history.call(put("a", "1", None));
    history.undone_unknown(checkout("a", "order", "2"));
    history.effect(&store("order", "2", None));
    history.read(retrieve("order"));
    history.read(get("a"));
    breaks(Rule::Torn, &history.events);
}

#[test]
fn a_checkout_that_took_the_cart_and_stored_no_order() {
    let mut history = HistoryBuilder::new();
    history.call(put("a", "1", None));
    history.undone_unknown(checkout("a", "order", "2"));
    history.effect(&take("a"));
    history.read(get("a"));
    history.read(retrieve("order"));
    breaks(Rule::Torn, &history.events);
}

#[test]
fn a_list_of_two_views() {
    let mut history = HistoryBuilder::new();
    history.call(put("a", "1", None));
    history.call(put("b", "2", None));
    let list = history.list();
    history.call(put("b", "3", None));
    let newer = history.list();
    holds(&history.events);
    let parts = |history: &HistoryBuilder, event: usize| match &history.events[event].outcome {
        Outcome::Answered(Reply::Handles(parts)) => parts.clone(),
        other => panic!("{other:?}"),
    };
    let (old, new) = (parts(&history, list), parts(&history, newer));
    // One part of each, under their own headers.
    let (mut first, mut second) = (old[0].clone(), new[0].clone());
    first.handles.truncate(1);
    second.handles.remove(0);
    history.events[newer].outcome =
        Outcome::Answered(Reply::Handles(vec![first.clone(), second.clone()]));
    breaks(Rule::List, &history.events);
    // Under one header: the rows tell.
    second = new[0].clone();
    second.handles[1] = old[0].handles[1].clone();
    history.events[newer].outcome = Outcome::Answered(Reply::Handles(vec![second.clone()]));
    breaks(Rule::List, &history.events);
    // A row is missing.
    second.handles = vec![new[0].handles[0].clone()];
    history.events[newer].outcome = Outcome::Answered(Reply::Handles(vec![second]));
    breaks(Rule::List, &history.events);
}

#[test]
fn a_count_that_no_view_has() {
    let mut history = HistoryBuilder::new();
    history.call(put("a", "1", None));
    let count = history.read(Call::Count(CountRequest {
        store: "cart".into(),
        owner: None,
    }));
    let Answer::Count(reply) = history.answer(count) else {
        unreachable!()
    };
    reply.live = 2;
    breaks(Rule::Count, &history.events);
}

#[test]
fn a_value_that_was_taken_twice() {
    let mut history = HistoryBuilder::new();
    history.call(put("a", "1", None));
    let first = history.call(take("a"));
    let taken = history.answer(first).clone();
    let second = history.call(take("a"));
    let header = history.header(second).clone();
    history.falsify(second, taken);
    *history.header(second) = header;
    breaks(Rule::Taken, &history.events);
    breaks(Rule::Linearizable, &history.events);
}

#[test]
fn indexes_in_another_order_than_real_time() {
    let mut history = HistoryBuilder::new();
    let early = history.call(put("a", "1", None));
    let late = history.call(put("b", "2", None));
    let (one, two) = (
        history.events[early].outcome.clone(),
        history.events[late].outcome.clone(),
    );
    let (request_one, request_two) = (
        history.events[early].request.clone(),
        history.events[late].request.clone(),
    );
    history.events[early].outcome = two;
    history.events[early].request = request_two;
    history.events[late].outcome = one;
    history.events[late].request = request_one;
    breaks(Rule::RealTime, &history.events);
}

#[test]
fn a_clock_that_goes_back() {
    let mut history = HistoryBuilder::new();
    history.call(put("a", "1", None));
    history.tick(100);
    let read = history.read(get("a"));
    history.tick(1);
    history.read(get("a"));
    history.header(read).clock_ms -= 150;
    breaks(Rule::Clock, &history.events);
}

#[test]
fn a_foreign_owner_who_sees_a_handle() {
    let mut history = HistoryBuilder::new();
    history.call(put("a", "1", None));
    let mine = history.read(get("a"));
    let mine = history.answer(mine).clone();
    let theirs = history.read(get_of("mallory", "a"));
    history.falsify(theirs, mine);
    breaks(Rule::Owner, &history.events);
}

#[test]
fn a_value_that_was_never_written() {
    let mut history = HistoryBuilder::new();
    history.call(put("a", "1", None));
    history.effect(&put("a", "ghost", None));
    history.read(get("a"));
    breaks(Rule::Phantom, &history.events);
}

#[test]
fn a_deleted_handle_that_is_back() {
    let mut history = HistoryBuilder::new();
    history.call(put("a", "1", None));
    let read = history.read(get("a"));
    let live = history.answer(read).clone();
    history.call(delete("a"));
    let read = history.read(get("a"));
    let header = history.header(read).clone();
    history.falsify(read, live);
    *history.header(read) = header;
    breaks(Rule::Stale, &history.events);
}
