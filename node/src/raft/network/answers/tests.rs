//! Which answers consensus hears of, and when it may make requests.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    task::Wake,
};

use futures::{
    channel::mpsc::{self, UnboundedReceiver, UnboundedSender},
    future::poll_immediate,
    stream::Next,
};
use openraft::{EntryPayload, errors::Unreachable, raft::StreamAppendError};

use super::*;
use crate::raft::types::{CommittedLeaderId, Entry, Vote};

type Asked = AppendEntriesRequest<TypeConfig>;
type Answer = Result<StreamAppendResult<TypeConfig>, Error>;

/// One stream, with consensus at one end and the peer at the other.
struct Line {
    make: UnboundedSender<Asked>,
    requests: Requests<UnboundedReceiver<Asked>>,
    answer: UnboundedSender<Answer>,
    answers: Answers<UnboundedReceiver<Answer>>,
}

fn line() -> Line {
    let (make, made) = mpsc::unbounded();
    let (answer, answered) = mpsc::unbounded();
    let (requests, ledger) = paired(made);
    Line {
        make,
        requests,
        answer,
        answers: ledger.settle(answered),
    }
}

fn id(index: u64) -> LogId {
    LogId {
        leader_id: CommittedLeaderId::new(1),
        index,
    }
}

/// What is there without waiting.
async fn now<S: Stream + Unpin>(next: Next<'_, S>) -> Option<S::Item> {
    poll_immediate(next).await.flatten()
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Line {
    /// Consensus makes a request of the entries behind `prev` up to `last`.
    fn made(&self, prev: u64, last: u64) {
        let entries = (prev + 1..=last).map(|index| Entry {
            log_id: id(index),
            payload: EntryPayload::Blank,
        });
        let request = AppendEntriesRequest {
            vote: Vote::new(1, 1),
            prev_log_id: Some(id(prev)),
            leader_commit: None,
            entries: entries.collect(),
        };
        self.make.unbounded_send(request).unwrap();
    }

    /// The same, and it is sent.
    async fn asked(&mut self, prev: u64, last: u64) {
        self.made(prev, last);
        assert!(self.is_sent().await, "nothing holds it up");
    }

    async fn is_sent(&mut self) -> bool {
        now(self.requests.next()).await.is_some()
    }

    /// The peer has everything up to here.
    fn answered(&self, last: u64) {
        self.answer.unbounded_send(Ok(Ok(Some(id(last))))).unwrap();
    }

    /// Up to where consensus hears that the peer has everything.
    async fn heard(&mut self) -> Option<u64> {
        let answer = now(self.answers.next()).await?;
        answer.unwrap().unwrap().map(|id| id.index)
    }
}

#[tokio::test]
async fn an_answer_is_not_heard_while_a_later_request_that_ends_there_has_none() {
    let mut line = line();
    line.asked(0, 10).await;
    line.asked(10, 10).await;
    line.asked(10, 10).await;
    line.answered(10);
    assert_eq!(line.heard().await, None);
    line.answered(10);
    assert_eq!(line.heard().await, None);
    line.answered(10);
    assert_eq!(line.heard().await, Some(10));
}

#[tokio::test]
async fn answers_are_heard_one_by_one_where_each_request_brings_entries() {
    let mut line = line();
    line.asked(0, 10).await;
    line.asked(10, 20).await;
    line.asked(20, 30).await;
    line.answered(10);
    assert_eq!(line.heard().await, Some(10));
    line.answered(20);
    assert_eq!(line.heard().await, Some(20));
    line.answered(30);
    assert_eq!(line.heard().await, Some(30));
}

#[tokio::test]
async fn no_request_is_made_between_an_answer_and_its_date() {
    let mut line = line();
    line.asked(0, 10).await;
    line.answered(10);
    assert_eq!(line.heard().await, Some(10));
    // If it were made now, consensus would take it for answered.
    line.made(10, 10);
    assert!(!line.is_sent().await);
    // Who asks for more has dated what it had.
    assert_eq!(line.heard().await, None);
    assert!(line.is_sent().await);
}

#[tokio::test]
async fn a_request_that_had_to_wait_is_woken_by_the_next_look_for_an_answer_or_by_the_last() {
    for ends in [false, true] {
        let mut line = line();
        line.asked(0, 10).await;
        line.answered(10);
        assert_eq!(line.heard().await, Some(10));
        line.made(10, 20);
        let Line {
            mut requests,
            mut answers,
            ..
        } = line;
        let woken = Arc::<Woken>::default();
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        assert!(requests.poll_next_unpin(&mut context).is_pending());
        if ends {
            drop(answers);
        } else {
            assert!(now(answers.next()).await.is_none());
        }
        assert!(woken.0.load(Ordering::Relaxed));
        assert!(requests.poll_next_unpin(&mut context).is_ready());
    }
}

#[tokio::test]
async fn refusals_and_failures_are_heard_at_once() {
    let refusal = || Ok(Err(StreamAppendError::Conflict(id(10))));
    let failure = || Err(Error::Unreachable(Unreachable::from_string("gone")));
    for answer in [refusal(), failure()] {
        let mut line = line();
        line.asked(0, 10).await;
        line.asked(10, 10).await;
        let is_failure = answer.is_err();
        line.answer.unbounded_send(answer).unwrap();
        let heard = now(line.answers.next()).await.expect("it is heard");
        assert_eq!(heard.is_err(), is_failure);
    }
}
