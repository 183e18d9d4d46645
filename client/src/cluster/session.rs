//! The numbers of a replay session's calls.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use helve_proto::v1::{CallIdentity, SessionCall, call_identity::Identity};
use tokio::sync::Notify;

/// A replay session that the cluster has opened. Gives each mutation its number, and knows the lowest one still incomplete: the
/// cluster forgets outcomes below it.
#[derive(Debug)]
pub(crate) struct Session {
    id: Bytes,
    /// How far a number may run ahead of the lowest incomplete one.
    window: u64,
    numbers: Mutex<Numbers>,
    released: Notify,
}

#[derive(Debug)]
struct Numbers {
    next: u64,
    incomplete: BTreeSet<u64>,
}

impl Numbers {
    fn first_incomplete(&self) -> u64 {
        self.incomplete.first().copied().unwrap_or(self.next)
    }
}

/// One call's number. Dropping it, be it with the outcome in hand, at the deadline, or because the
/// caller no longer waits, releases it: the cluster may then forget the outcome, so a caller that
/// gave up will never know it.
#[derive(Debug)]
pub(crate) struct Number {
    session: Arc<Session>,
    seq: u64,
}

impl Session {
    pub(crate) fn new(id: [u8; 16], window: u64) -> Self {
        Self {
            id: Bytes::copy_from_slice(&id),
            window: window.max(1),
            numbers: Mutex::new(Numbers {
                next: 1,
                incomplete: BTreeSet::new(),
            }),
            released: Notify::new(),
        }
    }

    /// The next number, as soon as the window has room.
    pub(crate) async fn begin(self: &Arc<Self>) -> Number {
        loop {
            let released = self.released.notified();
            tokio::pin!(released);
            released.as_mut().enable();
            if let Some(number) = self.try_begin() {
                return number;
            }
            released.await;
        }
    }

    fn try_begin(self: &Arc<Self>) -> Option<Number> {
        let mut numbers = self.numbers();
        let seq = numbers.next;
        if seq - numbers.first_incomplete() >= self.window {
            return None;
        }
        numbers.next += 1;
        numbers.incomplete.insert(seq);
        Some(Number {
            session: Arc::clone(self),
            seq,
        })
    }

    /// Nothing panics while it holds the lock half-way, so a poisoned one is still right.
    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Number {
    /// The identity to send with the next try. Only the lowest incomplete number may differ from try to try.
    pub(crate) fn identity(&self) -> CallIdentity {
        CallIdentity {
            identity: Some(Identity::Session(SessionCall {
                session_id: self.session.id.clone(),
                seq: self.seq,
                first_incomplete: self.session.numbers().first_incomplete(),
            })),
        }
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        self.session.numbers().incomplete.remove(&self.seq);
        self.session.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::vectors::part;

    fn session(window: u64) -> Arc<Session> {
        Arc::new(Session::new([7; 16], window))
    }

    fn call(number: &Number) -> (u64, u64) {
        match number.identity().identity {
            Some(Identity::Session(call)) => (call.seq, call.first_incomplete),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn first_incomplete_is_the_lowest_number_still_under_way() {
        let session = session(10);
        let [first, second, third] = [(); 3].map(|()| session.try_begin().unwrap());
        assert_eq!(call(&third), (3, 1));
        drop(second);
        assert_eq!(call(&third), (3, 1));
        drop(first);
        assert_eq!(call(&third), (3, 3));
        drop(third);
        assert_eq!(call(&session.try_begin().unwrap()), (4, 4));
    }

    #[tokio::test]
    async fn a_call_beyond_the_window_waits_until_the_lowest_number_is_released() {
        let session = session(2);
        let first = session.begin().await;
        drop(session.begin().await);
        assert!(session.try_begin().is_none(), "3 is two ahead of 1");
        let waiting = tokio::spawn({
            let session = Arc::clone(&session);
            async move { call(&session.begin().await) }
        });
        tokio::task::yield_now().await;
        drop(first);
        assert_eq!(waiting.await.unwrap(), (3, 3));
    }

    #[tokio::test]
    async fn a_cancelled_caller_releases_its_number() {
        let session = session(2);
        let task = tokio::spawn({
            let session = Arc::clone(&session);
            async move {
                let _number = session.begin().await;
                std::future::pending::<()>().await;
            }
        });
        while session.numbers().incomplete.is_empty() {
            tokio::task::yield_now().await;
        }
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        assert_eq!(session.numbers().first_incomplete(), 2);
    }

    #[test]
    fn numbers_begin_and_end_as_the_vectors_say() {
        for case in part("identities.json", "sessions") {
            let session = session(case["window"].as_u64().unwrap());
            let (mut numbers, mut under_way) = (Vec::new(), Vec::new());
            for step in case["steps"].as_array().unwrap() {
                match step.as_str().unwrap().split_at(1) {
                    ("b", "") => {
                        let number = session.try_begin();
                        numbers.push(number.as_ref().map(|number| number.seq));
                        under_way.extend(number);
                    }
                    ("e", seq) => {
                        let seq: u64 = seq.parse().unwrap();
                        let at = under_way.iter().position(|number| number.seq == seq);
                        drop(under_way.remove(at.unwrap()));
                    }
                    _ => panic!("no step {step}"),
                }
            }
            let sends: Vec<_> = under_way.iter().map(call).collect();
            let found: [Value; 2] = [json!(numbers), json!(sends)];
            assert_eq!(
                &found,
                &[&case["numbers"], &case["sends"]].map(Value::clone),
                "{case}"
            );
        }
    }
}
