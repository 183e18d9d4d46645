//! Answers that a node makes up.

use helve_proto::v1::{ErrorReply, ExchangeReply, GetReply};
use proptest::{collection::vec, prelude::*, sample::Index};

use super::*;
use crate::properties::check;

/// An answer of each kind to calls 1 to 3.
fn reply() -> Vec<u8> {
    let error = ErrorReply {
        code: 8,
        reason: "OVERLOADED".to_owned(),
        message: "later".to_owned(),
        metadata: [("retry_after_ms".to_owned(), "40".to_owned())].into(),
    };
    let answers = [
        Some(Answer::Get(GetReply::default())),
        Some(Answer::Error(error)),
        None,
    ];
    let answers = answers
        .into_iter()
        .zip(1..)
        .map(|(answer, correlation_id)| ExchangeAnswer {
            correlation_id,
            answer,
        });
    ExchangeReply {
        answers: answers.collect(),
    }
    .encode_to_vec()
}

#[test]
fn answers_that_a_node_makes_up_are_each_for_one_call_or_for_none() {
    let noise = vec(any::<u8>(), 0..200);
    let edits = vec((any::<Index>(), any::<u8>()), 0..6);
    let edited = edits.prop_map(|edits| {
        let mut bytes = reply();
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] ^= byte;
        }
        bytes
    });
    let cut = any::<Index>().prop_map(|at| {
        let mut bytes = reply();
        bytes.truncate(at.index(bytes.len()));
        bytes
    });
    check(&prop_oneof![noise, edited, cut], |bytes| {
        exchange_reply(&bytes);
        Ok(())
    });
}
