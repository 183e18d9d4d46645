//! Calls of unknown outcome that took effect although what they wrote was not seen, several of them
//! together: what they may explain, and what they cannot.

use helve_client::{
    ErrorKind,
    v1::{ListKeysRequest, ListRequest},
};

use super::{
    Rule, breaks,
    history_builder::{
        HistoryBuilder, STORE, batch, checkout, delete, failed, get, mint, put, renew, retrieve,
        store, transfer,
    },
    holds,
};
use crate::history::Request;

/// Asks for all handles and all keys, but not for their values: only the length and the revision of what was written are seen.
fn look_without_values(history: &mut HistoryBuilder) {
    let handles = Request::ListHandles(ListRequest {
        store: STORE.into(),
        ..ListRequest::default()
    });
    for request in [handles, Request::ListKeys(ListKeysRequest::default())] {
        let outcome = history.view(&request);
        history.tell(request, outcome);
    }
}

#[test]
fn what_a_cart_shows_of_one_call_a_key_may_show_of_another() {
    let mut history = HistoryBuilder::new();
    history.done_unknown(batch(&[("k", "1"), ("l", "2")]));
    history.call(put("a", "3", None));
    history.done_unknown(checkout("a", "k", "4"));
    // That the key is as old as the first batch shows that it took effect; only the cart shows that the checkout did.
    history.call(batch(&[("k", "5"), ("l", "6")]));
    history.read(get("a"));
    holds(&history.events);
}

#[test]
fn a_batch_may_be_seen_in_a_conflict_alone_and_another_in_what_it_left() {
    let mut history = HistoryBuilder::new();
    history.done_unknown(batch(&[("k", "1"), ("l", "2")]));
    history.call(batch(&[("k", "3"), ("l", "4")]));
    history.done_unknown(batch(&[("k", "5"), ("l", "6")]));
    history.call(store("k", "7", Some(1)));
    history.call(batch(&[("k", "8"), ("l", "9")]));
    history.read(retrieve("k"));
    holds(&history.events);
}

#[test]
fn a_write_may_be_seen_in_a_conflict_alone() {
    let mut history = HistoryBuilder::new();
    history.done_unknown(put("a", "1", None));
    history.call(put("a", "2", Some(7)));
    history.done_unknown(delete("a"));
    history.call(put("a", "3", None));
    history.read(get("a"));
    holds(&history.events);
}

#[test]
fn a_conflict_that_only_a_write_explains_which_cannot_have_been() {
    let mut history = HistoryBuilder::new();
    history.undone_unknown(put("a", "1", None));
    let conflict = history.call(put("a", "2", Some(7)));
    history.call(put("a", "3", None));
    holds(&history.events);
    let kind = ErrorKind::Conflict {
        revision: 1,
        operation: 0,
    };
    history.events[conflict].outcome = failed(kind);
    breaks(Rule::Answer, &history.events);
}

#[test]
fn a_revision_without_its_value_may_be_that_of_any_call_that_fits() {
    let mut history = HistoryBuilder::new();
    history.undone_unknown(put("a", "1", Some(77)));
    history.done_unknown(put("a", "2", None));
    history.call(renew("a", 1_000));
    history.call(put("a", "3", None));
    holds(&history.events);
}

#[test]
fn a_call_whose_value_is_seen_later_did_not_write_what_was_seen_before() {
    let mut history = HistoryBuilder::new();
    let late = put("a", "1", None);
    history.undone_unknown(late.clone());
    history.done_unknown(put("a", "2", None));
    history.call(renew("a", 1_000));
    history.effect(&late);
    history.read(get("a"));
    holds(&history.events);
}

#[test]
fn a_revision_without_its_value_is_that_of_all_records_that_its_call_wrote() {
    let mut history = HistoryBuilder::new();
    history.undone_unknown(transfer([("b", 0), ("c", 0)], "1"));
    history.done_unknown(transfer([("b", 0), ("c", 0)], "2"));
    let revision = history.index;
    history.call(renew("c", 1_000));
    history.call(transfer([("b", revision), ("c", revision)], "3"));
    history.read(get("b"));
    holds(&history.events);
}

#[test]
fn a_revision_that_no_call_can_have_made_which_fits() {
    let mut history = HistoryBuilder::new();
    history.undone_unknown(put("a", "1", Some(77)));
    history.undone_unknown(put("a", "2", Some(78)));
    history.effect(&put("a", "3", None));
    history.call(renew("a", 1_000));
    breaks(Rule::Phantom, &history.events);
}

#[test]
fn more_revisions_than_calls_that_may_have_made_them() {
    let mut history = HistoryBuilder::new();
    history.undone_unknown(put("a", "1", None));
    history.undone_unknown(put("a", "2", None));
    for value in ["1", "2"] {
        history.effect(&put("a", value, None));
        look_without_values(&mut history);
    }
    holds(&history.events);
    history.effect(&put("a", "3", None));
    look_without_values(&mut history);
    breaks(Rule::Phantom, &history.events);
}

#[test]
fn half_a_batch_whose_values_were_not_seen() {
    let mut history = HistoryBuilder::new();
    history.undone_unknown(batch(&[("k", "1"), ("l", "2")]));
    history.undone_unknown(batch(&[("k", "3"), ("l", "4")]));
    history.effect(&store("k", "3", None));
    look_without_values(&mut history);
    breaks(Rule::Torn, &history.events);
}

#[test]
fn mints_of_unseen_values_are_as_many_as_are_listed() {
    let mut history = HistoryBuilder::new();
    history.done_unknown(mint("1", None));
    history.done_unknown(mint("2", None));
    look_without_values(&mut history);
    holds(&history.events);
    history.effect(&mint("2", None));
    look_without_values(&mut history);
    breaks(Rule::Phantom, &history.events);
}

#[test]
fn calls_that_are_alike_explain_as_much_as_there_are_of_them() {
    let mut history = HistoryBuilder::new();
    history.call(put("a", "1", None));
    history.undone_unknown(delete("a"));
    history.undone_unknown(delete("a"));
    for value in ["2", "3"] {
        history.effect(&delete("a"));
        history.call(put("a", value, None));
    }
    holds(&history.events);
    history.effect(&delete("a"));
    history.call(put("a", "4", None));
    breaks(Rule::Answer, &history.events);
}

#[test]
fn a_call_explains_nothing_that_was_before_it() {
    let mut history = HistoryBuilder::new();
    history.undone_unknown(delete("a"));
    history.call(put("a", "1", None));
    for value in ["2", "3"] {
        history.effect(&delete("a"));
        history.call(put("a", value, None));
    }
    history.undone_unknown(delete("a"));
    breaks(Rule::Answer, &history.events);
}
