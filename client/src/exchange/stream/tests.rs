//! Answers that a node makes up.

use helve_proto::v1::{ErrorReply, ExchangeReply, GetReply, GetRequest};
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
        let Ok(reply) = ExchangeReply::decode(bytes.as_slice()) else {
            return Ok(());
        };
        let again = ExchangeReply::decode(reply.encode_to_vec().as_slice());
        prop_assert_eq!(again.as_ref(), Ok(&reply));
        let stream = ExchangeStream {
            address: "a:1".into(),
            room: Arc::new(Semaphore::new(3)),
            state: Mutex::default(),
        };
        let mut answers = Vec::new();
        for _ in 0..3 {
            let (reply, answer) = oneshot::channel();
            let room = Arc::clone(&stream.room).try_acquire_owned().unwrap();
            let call = Call::Get(GetRequest::default());
            let id = stream.enqueue(call, Instant::now(), Waiting { reply, _room: room });
            answers.push((id.unwrap(), answer));
        }
        let named = |id| reply.answers.iter().any(|it| it.correlation_id == id);
        let named: Vec<_> = answers.iter().map(|(id, _)| named(*id)).collect();
        stream.settle(reply.answers);
        for ((id, mut answer), named) in answers.into_iter().zip(named) {
            prop_assert_eq!(answer.try_recv().is_ok(), named, "call {}", id);
        }
        Ok(())
    });
}
