//! What may be must not be found fault with.

use helve_client::{
    ErrorKind,
    v1::{CountRequest, Lifetime, exchange_call::Call},
};

use super::{
    holds,
    tale::{
        Tale, batch, checkout, delete, failed, get, get_of, identified, mint, name, put, put_for,
        renew, retrieve, store, take,
    },
    verdict,
};
use crate::{
    history::{History, Outcome, Request},
    judge::{Verdict, final_state},
    model::Cell,
};

#[test]
fn a_plain_history_holds() {
    let mut tale = Tale::new();
    tale.call(put("a", "1", None));
    tale.call(put("a", "2", Some(1)));
    tale.call(put("a", "3", Some(1)));
    tale.read(get("a"));
    tale.read(get_of("mallory", "a"));
    tale.call(mint("minted", None));
    tale.list();
    tale.call(take("a"));
    tale.read(get("a"));
    tale.call(put("a", "4", None));
    tale.call(batch(&[("k", "5"), ("l", "6")]));
    tale.call(store("k", "7", Some(0)));
    tale.read(retrieve("k"));
    tale.call(put("b", "8", None));
    tale.call(checkout("b", "order", "9"));
    tale.call(checkout("b", "order", "10"));
    tale.read(retrieve("order"));
    tale.read(Call::Count(CountRequest {
        store: "cart".into(),
        owner: None,
    }));
    tale.call(delete("b"));
    let Verdict::Held(stats) = verdict(&tale.events) else {
        panic!("{}", verdict(&tale.events));
    };
    assert_eq!((stats.calls, stats.unknown, stats.lists), (19, 0, 1));
    assert!(stats.searched >= 5, "{stats:?}");
}

#[test]
fn lifetimes_end_where_they_end() {
    let mut tale = Tale::new();
    tale.call(put_for("a", "1", super::tale::after(100)));
    tale.tick(50);
    tale.read(get("a"));
    tale.call(renew("a", 100));
    tale.tick(99);
    tale.read(get("a"));
    tale.tick(1);
    tale.read(get("a"));
    tale.call(put("a", "2", None));
    tale.call(take("a"));
    tale.list();
    holds(&tale.events);
}

#[test]
fn a_get_keeps_an_idle_handle_alive() {
    let mut tale = Tale::new();
    let idle = Lifetime {
        absolute: None,
        idle_ttl_ms: Some(100),
    };
    tale.call(put_for("a", "1", idle));
    for _ in 0..5 {
        tale.tick(60);
        let clock_ms = tale.clock_ms;
        tale.model.touch(&name("a"), clock_ms);
        tale.tick(0);
        tale.read(get("a"));
    }
    tale.tick(111);
    tale.read(get("a"));
    holds(&tale.events);
}

#[test]
fn a_write_of_unknown_outcome_may_take_effect_late_or_never() {
    let mut tale = Tale::new();
    tale.call(put("a", "1", None));
    let late = put("a", "late", None);
    tale.undone_unknown(late.clone());
    tale.undone_unknown(put("a", "never", None));
    tale.read(get("a"));
    tale.effect(&late);
    tale.read(get("a"));
    tale.call(put("a", "2", None));
    tale.list();
    let events = tale.events;
    let Verdict::Held(stats) = verdict(&events) else {
        panic!("{}", verdict(&events));
    };
    assert_eq!((stats.unknown, stats.settled), (2, 1));
    let left = final_state(&History::of(events));
    let values: Vec<_> = left[&name("a")]
        .iter()
        .map(|cell| cell.row().unwrap().value.clone())
        .collect();
    assert_eq!(values.len(), 2, "{values:?}");
    assert!(
        values.contains(&"2".into()) && values.contains(&"never".into()),
        "{values:?}"
    );
}

#[test]
fn a_take_of_unknown_outcome_explains_that_the_handle_is_taken() {
    let mut tale = Tale::new();
    tale.call(put("a", "1", None));
    tale.done_unknown(take("a"));
    tale.read(get("a"));
    tale.list();
    holds(&tale.events);
    let left = final_state(&History::of(tale.events));
    assert!(matches!(left[&name("a")][..], [Cell::Taken(_)]), "{left:?}");
}

#[test]
fn a_checkout_of_unknown_outcome_is_done_in_all_its_records_or_in_none() {
    let mut tale = Tale::new();
    tale.call(put("a", "1", None));
    tale.call(put("b", "2", None));
    tale.done_unknown(checkout("a", "order-a", "3"));
    tale.undone_unknown(checkout("b", "order-b", "4"));
    for id in ["a", "b"] {
        tale.read(get(id));
        tale.read(retrieve(&format!("order-{id}")));
    }
    holds(&tale.events);
}

#[test]
fn a_checkout_that_only_the_cart_shows_is_done_all_the_same() {
    let mut tale = Tale::new();
    tale.call(put("a", "1", None));
    tale.done_unknown(checkout("a", "order", "2"));
    tale.call(store("order", "3", None));
    tale.read(get("a"));
    tale.read(retrieve("order"));
    holds(&tale.events);
}

#[test]
fn retries_under_one_identity_are_one_call() {
    let mut tale = Tale::new();
    let call = identified(put("a", "1", None), 7);
    tale.done_unknown(call.clone());
    let told = {
        let mut twin = Tale::new();
        let event = twin.call(call.clone());
        twin.events[event].outcome.clone()
    };
    tale.call(put("b", "2", None));
    tale.tell(Request::Call(call.clone()), told.clone());
    tale.tell(Request::Call(call), told);
    tale.read(get("a"));
    holds(&tale.events);
}

#[test]
fn a_mint_that_nobody_was_told_of_may_be_counted_and_listed() {
    let mut tale = Tale::new();
    tale.done_unknown(mint("lost", None));
    tale.read(Call::Count(CountRequest {
        store: "cart".into(),
        owner: None,
    }));
    tale.undone_unknown(mint("never", None));
    tale.read(Call::Count(CountRequest {
        store: "cart".into(),
        owner: None,
    }));
    tale.list();
    holds(&tale.events);
}

#[test]
fn calls_that_never_returned_and_those_refused_say_nothing() {
    let mut tale = Tale::new();
    tale.call(put("a", "1", None));
    tale.tell(Request::Call(put("a", "open", None)), Outcome::Open);
    tale.tell(
        Request::Call(put("a", "refused", None)),
        failed(ErrorKind::Unavailable),
    );
    tale.tell(Request::Call(get("a")), failed(ErrorKind::Unavailable));
    tale.read(get("a"));
    holds(&tale.events);
}
