//! What must not be is found, by the promise that it breaks.

use helve_client::v1::{CountRequest, HandleStatus, exchange_answer::Answer, exchange_call::Call};

use super::{
    Rule, breaks, holds,
    tale::{
        Tale, after, batch, checkout, delete, get, get_of, mint, put, put_for, retrieve, store,
        take,
    },
};
use crate::history::{Outcome, Reply};

#[test]
fn an_acknowledged_write_that_is_lost() {
    let mut tale = Tale::new();
    tale.call(put("b", "1", None));
    let nothing = tale.read(get("a"));
    let nothing = tale.answer(nothing).clone();
    tale.call(put("a", "2", None));
    let read = tale.read(get("a"));
    let header = tale.header(read).clone();
    tale.falsify(read, nothing);
    *tale.header(read) = header;
    breaks(Rule::Lost, &tale.events);
    breaks(Rule::Linearizable, &tale.events);
}

#[test]
fn a_mint_that_took_effect_twice() {
    let mut tale = Tale::new();
    tale.call(mint("1", None));
    tale.effect(&mint("1", None));
    tale.list();
    breaks(Rule::Once, &tale.events);
}

#[test]
fn an_append_that_took_effect_twice() {
    let mut tale = Tale::new();
    tale.call(store("log", "a", None));
    tale.call(store("log", "a,b", Some(1)));
    tale.effect(&store("log", "a,b", None));
    tale.read(retrieve("log"));
    breaks(Rule::Once, &tale.events);
}

#[test]
fn a_stale_read_at_the_index_of_the_new_value() {
    let mut tale = Tale::new();
    tale.call(put("a", "1", None));
    let old = tale.read(get("a"));
    let old = tale.answer(old).clone();
    tale.call(put("a", "2", None));
    let read = tale.read(get("a"));
    let header = tale.header(read).clone();
    tale.falsify(read, old);
    *tale.header(read) = header;
    breaks(Rule::Stale, &tale.events);
    breaks(Rule::Linearizable, &tale.events);
}

#[test]
fn a_stale_read_at_the_index_of_the_old_value() {
    let mut tale = Tale::new();
    tale.call(put("a", "1", None));
    let old = tale.read(get("a"));
    let old = tale.answer(old).clone();
    tale.call(put("a", "2", None));
    let read = tale.read(get("a"));
    tale.falsify(read, old);
    breaks(Rule::RealTime, &tale.events);
    breaks(Rule::Linearizable, &tale.events);
}

#[test]
fn a_read_after_the_deadline() {
    let mut tale = Tale::new();
    tale.call(put_for("a", "1", after(100)));
    let read = tale.read(get("a"));
    let live = tale.answer(read).clone();
    tale.tick(200);
    let read = tale.read(get("a"));
    let header = tale.header(read).clone();
    tale.falsify(read, live);
    *tale.header(read) = header;
    breaks(Rule::Lifetime, &tale.events);
}

#[test]
fn a_handle_that_expired_early() {
    let mut tale = Tale::new();
    tale.call(put_for("a", "1", after(100)));
    tale.tick(50);
    let read = tale.read(get("a"));
    let Answer::Get(reply) = tale.answer(read) else {
        unreachable!()
    };
    reply.set_status(HandleStatus::Expired);
    reply.info = None;
    reply.value.clear();
    breaks(Rule::Lifetime, &tale.events);
}

#[test]
fn a_deadline_that_is_not_what_was_asked_for() {
    let mut tale = Tale::new();
    let write = tale.call(put_for("a", "1", after(100)));
    let Answer::Put(reply) = tale.answer(write) else {
        unreachable!()
    };
    reply.info.as_mut().unwrap().expires_at_ms = Some(1_051);
    breaks(Rule::Answer, &tale.events);
}

#[test]
fn an_idle_handle_with_less_than_its_idle_time_left_after_a_get() {
    let mut tale = Tale::new();
    let idle = helve_client::v1::Lifetime {
        absolute: None,
        idle_ttl_ms: Some(100),
    };
    tale.call(put_for("a", "1", idle));
    tale.tick(20);
    tale.call(put("b", "2", None));
    tale.read(get("a"));
    breaks(Rule::Lifetime, &tale.events);
}

#[test]
fn a_torn_batch() {
    let mut tale = Tale::new();
    tale.call(batch(&[("k", "1"), ("l", "2")]));
    let old = tale.read(retrieve("l"));
    let old = tale.answer(old).clone();
    tale.call(batch(&[("k", "3"), ("l", "4")]));
    tale.read(retrieve("k"));
    let read = tale.read(retrieve("l"));
    let header = tale.header(read).clone();
    tale.falsify(read, old);
    *tale.header(read) = header;
    breaks(Rule::Torn, &tale.events);
}

#[test]
fn a_checkout_that_stored_the_order_and_left_the_cart() {
    let mut tale = Tale::new();
    tale.call(put("a", "1", None));
    tale.undone_unknown(checkout("a", "order", "2"));
    tale.effect(&store("order", "2", None));
    tale.read(retrieve("order"));
    tale.read(get("a"));
    breaks(Rule::Torn, &tale.events);
}

#[test]
fn a_checkout_that_took_the_cart_and_stored_no_order() {
    let mut tale = Tale::new();
    tale.call(put("a", "1", None));
    tale.undone_unknown(checkout("a", "order", "2"));
    tale.effect(&take("a"));
    tale.read(get("a"));
    tale.read(retrieve("order"));
    breaks(Rule::Torn, &tale.events);
}

#[test]
fn a_list_of_two_views() {
    let mut tale = Tale::new();
    tale.call(put("a", "1", None));
    tale.call(put("b", "2", None));
    let list = tale.list();
    tale.call(put("b", "3", None));
    let newer = tale.list();
    holds(&tale.events);
    let parts = |tale: &Tale, event: usize| match &tale.events[event].outcome {
        Outcome::Answered(Reply::Handles(parts)) => parts.clone(),
        other => panic!("{other:?}"),
    };
    let (old, new) = (parts(&tale, list), parts(&tale, newer));
    // One part of each, under their own headers.
    let (mut first, mut second) = (old[0].clone(), new[0].clone());
    first.handles.truncate(1);
    second.handles.remove(0);
    tale.events[newer].outcome =
        Outcome::Answered(Reply::Handles(vec![first.clone(), second.clone()]));
    breaks(Rule::List, &tale.events);
    // Under one header: the rows tell.
    second = new[0].clone();
    second.handles[1] = old[0].handles[1].clone();
    tale.events[newer].outcome = Outcome::Answered(Reply::Handles(vec![second.clone()]));
    breaks(Rule::List, &tale.events);
    // A row is missing.
    second.handles = vec![new[0].handles[0].clone()];
    tale.events[newer].outcome = Outcome::Answered(Reply::Handles(vec![second]));
    breaks(Rule::List, &tale.events);
}

#[test]
fn a_count_that_no_view_has() {
    let mut tale = Tale::new();
    tale.call(put("a", "1", None));
    let count = tale.read(Call::Count(CountRequest {
        store: "cart".into(),
        owner: None,
    }));
    let Answer::Count(reply) = tale.answer(count) else {
        unreachable!()
    };
    reply.live = 2;
    breaks(Rule::Count, &tale.events);
}

#[test]
fn a_value_that_was_taken_twice() {
    let mut tale = Tale::new();
    tale.call(put("a", "1", None));
    let first = tale.call(take("a"));
    let taken = tale.answer(first).clone();
    let second = tale.call(take("a"));
    let header = tale.header(second).clone();
    tale.falsify(second, taken);
    *tale.header(second) = header;
    breaks(Rule::Taken, &tale.events);
    breaks(Rule::Linearizable, &tale.events);
}

#[test]
fn indexes_in_another_order_than_real_time() {
    let mut tale = Tale::new();
    let early = tale.call(put("a", "1", None));
    let late = tale.call(put("b", "2", None));
    let (one, two) = (
        tale.events[early].outcome.clone(),
        tale.events[late].outcome.clone(),
    );
    let (request_one, request_two) = (
        tale.events[early].request.clone(),
        tale.events[late].request.clone(),
    );
    tale.events[early].outcome = two;
    tale.events[early].request = request_two;
    tale.events[late].outcome = one;
    tale.events[late].request = request_one;
    breaks(Rule::RealTime, &tale.events);
}

#[test]
fn a_clock_that_goes_back() {
    let mut tale = Tale::new();
    tale.call(put("a", "1", None));
    tale.tick(100);
    let read = tale.read(get("a"));
    tale.tick(1);
    tale.read(get("a"));
    tale.header(read).clock_ms -= 150;
    breaks(Rule::Clock, &tale.events);
}

#[test]
fn a_foreign_owner_who_sees_a_handle() {
    let mut tale = Tale::new();
    tale.call(put("a", "1", None));
    let mine = tale.read(get("a"));
    let mine = tale.answer(mine).clone();
    let theirs = tale.read(get_of("mallory", "a"));
    tale.falsify(theirs, mine);
    breaks(Rule::Owner, &tale.events);
}

#[test]
fn a_value_that_nobody_wrote() {
    let mut tale = Tale::new();
    tale.call(put("a", "1", None));
    tale.effect(&put("a", "ghost", None));
    tale.read(get("a"));
    breaks(Rule::Phantom, &tale.events);
}

#[test]
fn a_deleted_handle_that_is_back() {
    let mut tale = Tale::new();
    tale.call(put("a", "1", None));
    let read = tale.read(get("a"));
    let live = tale.answer(read).clone();
    tale.call(delete("a"));
    let read = tale.read(get("a"));
    let header = tale.header(read).clone();
    tale.falsify(read, live);
    *tale.header(read) = header;
    breaks(Rule::Stale, &tale.events);
}
