//! What may be must not be found fault with.

use helve_client::{
    ErrorKind,
    v1::{CountRequest, Lifetime, exchange_call::Call},
};

use super::{
    history_builder::{
        HistoryBuilder, batch, checkout, delete, failed, get, get_of, identified, mint, name, put,
        put_for, renew, retrieve, store, take,
    },
    holds, verdict,
};
use crate::{
    history::{History, Outcome, Request},
    judge::{Verdict, final_state},
    model::Cell,
};

#[test]
fn a_plain_history_holds() {
    let mut history = HistoryBuilder::new();
    history.call(put("a", "1", None));
    history.call(put("a", "2", Some(1)));
    history.call(put("a", "3", Some(1)));
    history.read(get("a"));
    history.read(get_of("mallory", "a"));
    history.call(mint("minted", None));
    history.list();
    history.call(take("a"));
    history.read(get("a"));
    history.call(put("a", "4", None));
    history.call(batch(&[("k", "5"), ("l", "6")]));
    history.call(store("k", "7", Some(0)));
    history.read(retrieve("k"));
    history.call(put("b", "8", None));
    history.call(checkout("b", "order", "9"));
    history.call(checkout("b", "order", "10"));
    history.read(retrieve("order"));
    history.read(Call::Count(CountRequest {
        store: "cart".into(),
        owner: None,
    }));
    history.call(delete("b"));
    let Verdict::Held(stats) = verdict(&history.events) else {
        panic!("{}", verdict(&history.events));
    };
    assert_eq!((stats.calls, stats.unknown, stats.lists), (19, 0, 1));
    assert!(stats.searched >= 5, "{stats:?}");
}

#[test]
fn lifetimes_end_where_they_end() {
    let mut history = HistoryBuilder::new();
    history.call(put_for("a", "1", super::history_builder::after(100)));
    history.tick(50);
    history.read(get("a"));
    history.call(renew("a", 100));
    history.tick(99);
    history.read(get("a"));
    history.tick(1);
    history.read(get("a"));
    history.call(put("a", "2", None));
    history.call(take("a"));
    history.list();
    holds(&history.events);
}

#[test]
fn a_get_keeps_an_idle_handle_alive() {
    let mut history = HistoryBuilder::new();
    let idle = Lifetime {
        absolute: None,
        idle_ttl_ms: Some(100),
    };
    history.call(put_for("a", "1", idle));
    for _ in 0..5 {
        history.tick(60);
        let clock_ms = history.clock_ms;
        history.model.touch(&name("a"), clock_ms);
        history.tick(0);
        history.read(get("a"));
    }
    history.tick(111);
    history.read(get("a"));
    holds(&history.events);
}

#[test]
fn a_write_of_unknown_outcome_may_take_effect_late_or_never() {
    let mut history = HistoryBuilder::new();
    history.call(put("a", "1", None));
    let late = put("a", "late", None);
    history.undone_unknown(late.clone());
    history.undone_unknown(put("a", "never", None));
    history.read(get("a"));
    history.effect(&late);
    history.read(get("a"));
    history.call(put("a", "2", None));
    history.list();
    let events = history.events;
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
    let mut history = HistoryBuilder::new();
    history.call(put("a", "1", None));
    history.done_unknown(take("a"));
    history.read(get("a"));
    history.list();
    holds(&history.events);
    let left = final_state(&History::of(history.events));
    assert!(matches!(left[&name("a")][..], [Cell::Taken(_)]), "{left:?}");
}

#[test]
fn a_checkout_of_unknown_outcome_is_done_in_all_its_records_or_in_none() {
    let mut history = HistoryBuilder::new();
    history.call(put("a", "1", None));
    history.call(put("b", "2", None));
    history.done_unknown(checkout("a", "order-a", "3"));
    history.undone_unknown(checkout("b", "order-b", "4"));
    for id in ["a", "b"] {
        history.read(get(id));
        history.read(retrieve(&format!("order-{id}")));
    }
    holds(&history.events);
}

#[test]
fn a_checkout_that_only_the_cart_shows_is_done_all_the_same() {
    let mut history = HistoryBuilder::new();
    history.call(put("a", "1", None));
    history.done_unknown(checkout("a", "order", "2"));
    history.call(store("order", "3", None));
    history.read(get("a"));
    history.read(retrieve("order"));
    holds(&history.events);
}

#[test]
fn retries_under_one_identity_are_one_call() {
    let mut history = HistoryBuilder::new();
    let call = identified(put("a", "1", None), 7);
    history.done_unknown(call.clone());
    let told = {
        let mut twin = HistoryBuilder::new();
        let event = twin.call(call.clone());
        twin.events[event].outcome.clone()
    };
    history.call(put("b", "2", None));
    history.tell(Request::Call(call.clone()), told.clone());
    history.tell(Request::Call(call), told);
    history.read(get("a"));
    holds(&history.events);
}

#[test]
fn a_mint_without_an_answer_may_be_counted_and_listed() {
    let mut history = HistoryBuilder::new();
    history.done_unknown(mint("lost", None));
    history.read(Call::Count(CountRequest {
        store: "cart".into(),
        owner: None,
    }));
    history.undone_unknown(mint("never", None));
    history.read(Call::Count(CountRequest {
        store: "cart".into(),
        owner: None,
    }));
    history.list();
    holds(&history.events);
}

#[test]
fn calls_that_never_returned_and_those_refused_say_nothing() {
    let mut history = HistoryBuilder::new();
    history.call(put("a", "1", None));
    history.tell(Request::Call(put("a", "open", None)), Outcome::Open);
    history.tell(
        Request::Call(put("a", "refused", None)),
        failed(ErrorKind::Unavailable),
    );
    history.tell(Request::Call(get("a")), failed(ErrorKind::Unavailable));
    history.read(get("a"));
    holds(&history.events);
}
