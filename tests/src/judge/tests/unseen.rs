//! Calls of unknown outcome that took effect although what they wrote was not seen, several of them
//! together: what they may explain, and what they cannot.

use helve_client::{
    ErrorKind,
    v1::{ListKeysRequest, ListRequest},
};

use super::{
    Rule, breaks, holds,
    tale::{
        STORE, Tale, batch, checkout, delete, failed, get, mint, put, renew, retrieve, store,
        transfer,
    },
};
use crate::history::Request;

/// Asks for all handles and all keys, but not for their values: only the length and the revision of what was written are seen.
fn look_without_values(tale: &mut Tale) {
    let handles = Request::ListHandles(ListRequest {
        store: STORE.into(),
        ..ListRequest::default()
    });
    for request in [handles, Request::ListKeys(ListKeysRequest::default())] {
        let outcome = tale.view(&request);
        tale.tell(request, outcome);
    }
}

#[test]
fn what_a_cart_shows_of_one_call_a_key_may_show_of_another() {
    let mut tale = Tale::new();
    tale.done_unknown(batch(&[("k", "1"), ("l", "2")]));
    tale.call(put("a", "3", None));
    tale.done_unknown(checkout("a", "k", "4"));
    // That the key is as old as the first batch shows that it took effect; only the cart shows that the checkout did.
    tale.call(batch(&[("k", "5"), ("l", "6")]));
    tale.read(get("a"));
    holds(&tale.events);
}

#[test]
fn a_batch_may_be_seen_in_a_conflict_alone_and_another_in_what_it_left() {
    let mut tale = Tale::new();
    tale.done_unknown(batch(&[("k", "1"), ("l", "2")]));
    tale.call(batch(&[("k", "3"), ("l", "4")]));
    tale.done_unknown(batch(&[("k", "5"), ("l", "6")]));
    tale.call(store("k", "7", Some(1)));
    tale.call(batch(&[("k", "8"), ("l", "9")]));
    tale.read(retrieve("k"));
    holds(&tale.events);
}

#[test]
fn a_write_may_be_seen_in_a_conflict_alone() {
    let mut tale = Tale::new();
    tale.done_unknown(put("a", "1", None));
    tale.call(put("a", "2", Some(7)));
    tale.done_unknown(delete("a"));
    tale.call(put("a", "3", None));
    tale.read(get("a"));
    holds(&tale.events);
}

#[test]
fn a_conflict_that_only_a_write_explains_which_cannot_have_been() {
    let mut tale = Tale::new();
    tale.undone_unknown(put("a", "1", None));
    let conflict = tale.call(put("a", "2", Some(7)));
    tale.call(put("a", "3", None));
    holds(&tale.events);
    let kind = ErrorKind::Conflict {
        revision: 1,
        operation: 0,
    };
    tale.events[conflict].outcome = failed(kind);
    breaks(Rule::Answer, &tale.events);
}

#[test]
fn a_revision_without_its_value_may_be_that_of_any_call_that_fits() {
    let mut tale = Tale::new();
    tale.undone_unknown(put("a", "1", Some(77)));
    tale.done_unknown(put("a", "2", None));
    tale.call(renew("a", 1_000));
    tale.call(put("a", "3", None));
    holds(&tale.events);
}

#[test]
fn a_call_whose_value_is_seen_later_did_not_write_what_was_seen_before() {
    let mut tale = Tale::new();
    let late = put("a", "1", None);
    tale.undone_unknown(late.clone());
    tale.done_unknown(put("a", "2", None));
    tale.call(renew("a", 1_000));
    tale.effect(&late);
    tale.read(get("a"));
    holds(&tale.events);
}

#[test]
fn a_revision_without_its_value_is_that_of_all_records_that_its_call_wrote() {
    let mut tale = Tale::new();
    tale.undone_unknown(transfer([("b", 0), ("c", 0)], "1"));
    tale.done_unknown(transfer([("b", 0), ("c", 0)], "2"));
    let revision = tale.index;
    tale.call(renew("c", 1_000));
    tale.call(transfer([("b", revision), ("c", revision)], "3"));
    tale.read(get("b"));
    holds(&tale.events);
}

#[test]
fn a_revision_that_no_call_can_have_made_which_fits() {
    let mut tale = Tale::new();
    tale.undone_unknown(put("a", "1", Some(77)));
    tale.undone_unknown(put("a", "2", Some(78)));
    tale.effect(&put("a", "3", None));
    tale.call(renew("a", 1_000));
    breaks(Rule::Phantom, &tale.events);
}

#[test]
fn more_revisions_than_calls_that_may_have_made_them() {
    let mut tale = Tale::new();
    tale.undone_unknown(put("a", "1", None));
    tale.undone_unknown(put("a", "2", None));
    for value in ["1", "2"] {
        tale.effect(&put("a", value, None));
        look_without_values(&mut tale);
    }
    holds(&tale.events);
    tale.effect(&put("a", "3", None));
    look_without_values(&mut tale);
    breaks(Rule::Phantom, &tale.events);
}

#[test]
fn half_a_batch_whose_values_nobody_saw() {
    let mut tale = Tale::new();
    tale.undone_unknown(batch(&[("k", "1"), ("l", "2")]));
    tale.undone_unknown(batch(&[("k", "3"), ("l", "4")]));
    tale.effect(&store("k", "3", None));
    look_without_values(&mut tale);
    breaks(Rule::Torn, &tale.events);
}

#[test]
fn mints_whose_values_nobody_saw_are_as_many_as_are_listed() {
    let mut tale = Tale::new();
    tale.done_unknown(mint("1", None));
    tale.done_unknown(mint("2", None));
    look_without_values(&mut tale);
    holds(&tale.events);
    tale.effect(&mint("2", None));
    look_without_values(&mut tale);
    breaks(Rule::Phantom, &tale.events);
}

#[test]
fn calls_that_are_alike_explain_as_much_as_there_are_of_them() {
    let mut tale = Tale::new();
    tale.call(put("a", "1", None));
    tale.undone_unknown(delete("a"));
    tale.undone_unknown(delete("a"));
    for value in ["2", "3"] {
        tale.effect(&delete("a"));
        tale.call(put("a", value, None));
    }
    holds(&tale.events);
    tale.effect(&delete("a"));
    tale.call(put("a", "4", None));
    breaks(Rule::Answer, &tale.events);
}

#[test]
fn a_call_explains_nothing_that_was_before_it() {
    let mut tale = Tale::new();
    tale.undone_unknown(delete("a"));
    tale.call(put("a", "1", None));
    for value in ["2", "3"] {
        tale.effect(&delete("a"));
        tale.call(put("a", value, None));
    }
    tale.undone_unknown(delete("a"));
    breaks(Rule::Answer, &tale.events);
}
