//! The node's own replay sessions, for calls that come without an identity: the node can then retry them safely, even though their
//! callers cannot.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use helve_proto::{
    command::v1::{
        Command, Outcome, Refusal, Refused, command::Operation, outcome::Outcome as Kind,
    },
    v1::{CallIdentity, OpenSessionRequest, SessionCall, call_identity::Identity},
};
use tokio::time::Instant;

use crate::{
    propose::{ProposeError, Proposer},
    stamp,
};

/// A session belongs to a tenant and a principal.
type Caller = (String, String);

/// The open sessions, by caller.
#[derive(Debug, Default)]
pub(crate) struct OwnSessions {
    open: Mutex<BTreeMap<Caller, Arc<Session>>>,
}

#[derive(Debug)]
struct Session {
    id: Bytes,
    calls: Mutex<Calls>,
}

#[derive(Debug, Default)]
struct Calls {
    last: u64,
    incomplete: BTreeSet<u64>,
}

/// One numbered call; its number is released when this is dropped.
#[derive(Debug)]
pub(crate) struct OwnCall {
    session: Arc<Session>,
    seq: u64,
    first_incomplete: u64,
}

impl OwnSessions {
    /// Numbers a call of this command's caller, opening a session if there is none.
    pub(crate) async fn call(
        &self,
        proposer: &Proposer,
        command: &Command,
        deadline: Instant,
    ) -> Result<OwnCall, ProposeError> {
        let caller = caller(command);
        let known = lock(&self.open).get(&caller).cloned();
        let session = match known {
            Some(session) => session,
            None => self.open(proposer, caller, deadline).await?,
        };
        Ok(OwnCall::new(session))
    }

    /// Forgets the session of this command's caller, because the cluster has.
    pub(crate) fn forget(&self, command: &Command) {
        lock(&self.open).remove(&caller(command));
    }

    async fn open(
        &self,
        proposer: &Proposer,
        caller: Caller,
        deadline: Instant,
    ) -> Result<Arc<Session>, ProposeError> {
        let id = Bytes::copy_from_slice(&stamp::random_bytes().map_err(Arc::new)?);
        let command = Command {
            feature_level: helve_machine::limits::FEATURE_LEVEL,
            tenant: caller.0.clone(),
            principal: caller.1.clone(),
            identity: Some(identity(&id, 0, 0)),
            operation: Some(Operation::OpenSession(OpenSessionRequest {
                session_id: id.clone(),
            })),
            ..Command::default()
        };
        // Opening is idempotent by the session's id, so its own identity is never looked up.
        Box::pin(proposer.propose(command, deadline)).await?;
        let session = Arc::new(Session {
            id,
            calls: Mutex::default(),
        });
        Ok(Arc::clone(
            lock(&self.open).entry(caller).or_insert(session),
        ))
    }
}

impl OwnCall {
    fn new(session: Arc<Session>) -> Self {
        let mut calls = lock(&session.calls);
        calls.last += 1;
        let seq = calls.last;
        calls.incomplete.insert(seq);
        let first_incomplete = calls.incomplete.first().copied().unwrap_or(seq);
        drop(calls);
        Self {
            session,
            seq,
            first_incomplete,
        }
    }

    /// What every attempt of this call repeats.
    pub(crate) fn identity(&self) -> CallIdentity {
        identity(&self.session.id, self.seq, self.first_incomplete)
    }

    /// The session expired before this call was executed, so it needs a new one.
    pub(crate) fn must_renew(&self, outcome: &Outcome) -> bool {
        let expired = i32::from(Refusal::SessionExpired);
        matches!(&outcome.outcome, Some(Kind::Refused(Refused { refusal, .. })) if *refusal == expired)
    }
}

impl Drop for OwnCall {
    fn drop(&mut self) {
        lock(&self.session.calls).incomplete.remove(&self.seq);
    }
}

fn identity(session_id: &Bytes, seq: u64, first_incomplete: u64) -> CallIdentity {
    let call = SessionCall {
        session_id: session_id.clone(),
        seq,
        first_incomplete,
    };
    CallIdentity {
        identity: Some(Identity::Session(call)),
    }
}

fn caller(command: &Command) -> Caller {
    (command.tenant.clone(), command.principal.clone())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_incomplete_call_rises_only_when_the_oldest_is_done() {
        let session = Arc::new(Session {
            id: Bytes::from_static(&[7; 16]),
            calls: Mutex::default(),
        });
        let first = OwnCall::new(Arc::clone(&session));
        let second = OwnCall::new(Arc::clone(&session));
        assert_eq!((first.seq, second.seq, second.first_incomplete), (1, 2, 1));
        drop(second);
        let third = OwnCall::new(Arc::clone(&session));
        assert_eq!((third.seq, third.first_incomplete), (3, 1));
        drop(first);
        assert_eq!(OwnCall::new(session).first_incomplete, 3);
    }
}
