//! The node's own replay sessions, for calls that come without an identity: the node can then retry them safely, even though their
//! callers cannot.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use helve_machine::{level, limits::SESSION_WINDOW_CALLS_MAX};
use helve_proto::{
    command::v1::{Command, Outcome, Refusal, command::Operation, outcome::Outcome as Kind},
    v1::{CallIdentity, OpenSessionRequest, SessionCall, call_identity::Identity},
};
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

use super::{ProposeError, Proposer};
use crate::{bounds, stamp};

/// A session belongs to a tenant and a principal.
type Caller = (String, String);

/// The open sessions, by caller.
#[derive(Debug, Default)]
pub(crate) struct OwnSessions {
    open: Mutex<BTreeMap<Caller, Arc<Session>>>,
    /// Held while a session is being opened: many first calls open one.
    opening: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Session {
    id: Bytes,
    caller: Caller,
    calls: Mutex<Calls>,
    /// A call has ended, so that the window may have moved.
    ended: Notify,
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

/// What asking for a call came to.
pub(crate) enum Opened {
    /// Here it is.
    Call(OwnCall),
    /// The cluster refused to open a session: that is the outcome.
    Refused(Box<Outcome>),
}

impl OwnSessions {
    /// Numbers a call of this command's caller, opening a session if there is none. Waits while the session's window is full.
    pub(crate) async fn call(
        &self,
        proposer: &Proposer,
        command: &Command,
        deadline: Instant,
    ) -> Result<Opened, ProposeError> {
        let caller = (command.tenant.clone(), command.principal.clone());
        let session = match self.session(proposer, caller, deadline).await? {
            Ok(session) => session,
            Err(refused) => return Ok(Opened::Refused(refused)),
        };
        let call = timeout_at(deadline, OwnCall::begin(&session)).await;
        // What fills the window are commands of this caller that wait.
        call.map(Opened::Call)
            .map_err(|_| ProposeError::Overloaded(bounds::QUEUED_COMMANDS))
    }

    /// Forgets this call's session, because the cluster has.
    pub(crate) fn forget(&self, call: &OwnCall) {
        let mut open = lock(&self.open);
        if open
            .get(&call.session.caller)
            .is_some_and(|known| Arc::ptr_eq(known, &call.session))
        {
            open.remove(&call.session.caller);
        }
    }

    async fn session(
        &self,
        proposer: &Proposer,
        caller: Caller,
        deadline: Instant,
    ) -> Result<Result<Arc<Session>, Box<Outcome>>, ProposeError> {
        if let Some(session) = self.known(&caller) {
            return Ok(Ok(session));
        }
        let opening = timeout_at(deadline, self.opening.lock()).await;
        let _opening = opening.map_err(|_| ProposeError::NoLeader)?;
        match self.known(&caller) {
            Some(session) => Ok(Ok(session)),
            None => self.open(proposer, caller, deadline).await,
        }
    }

    fn known(&self, caller: &Caller) -> Option<Arc<Session>> {
        lock(&self.open).get(caller).cloned()
    }

    async fn open(
        &self,
        proposer: &Proposer,
        caller: Caller,
        deadline: Instant,
    ) -> Result<Result<Arc<Session>, Box<Outcome>>, ProposeError> {
        let id = Bytes::copy_from_slice(&stamp::random_bytes().map_err(Arc::new)?);
        let operation = Operation::OpenSession(OpenSessionRequest {
            session_id: id.clone(),
        });
        let command = Command {
            feature_level: level::needed(&operation),
            tenant: caller.0.clone(),
            principal: caller.1.clone(),
            identity: Some(identity(&id, 0, 0)),
            operation: Some(operation),
            ..Command::default()
        };
        // Opening is idempotent by the session's id, so its own identity is never looked up.
        let outcome = match Box::pin(proposer.propose(&command, deadline)).await {
            Ok(outcome) => outcome,
            // The call itself was never sent, whatever became of its session.
            Err(ProposeError::Unknown(_)) => return Err(ProposeError::NoLeader),
            Err(error) => return Err(error),
        };
        if matches!(outcome.outcome, Some(Kind::Refused(_))) {
            return Ok(Err(Box::new(outcome)));
        }
        let (calls, ended) = (Mutex::default(), Notify::new());
        let session = Arc::new(Session {
            id,
            caller: caller.clone(),
            calls,
            ended,
        });
        lock(&self.open).insert(caller, Arc::clone(&session));
        Ok(Ok(session))
    }
}

impl OwnCall {
    async fn begin(session: &Arc<Session>) -> Self {
        loop {
            let ended = session.ended.notified();
            tokio::pin!(ended);
            // From here on no end is missed.
            ended.as_mut().enable();
            let numbered = lock(&session.calls).next();
            if let Some((seq, first_incomplete)) = numbered {
                let session = Arc::clone(session);
                return Self {
                    session,
                    seq,
                    first_incomplete,
                };
            }
            ended.await;
        }
    }

    /// What every attempt of this call repeats.
    pub(crate) fn identity(&self) -> CallIdentity {
        identity(&self.session.id, self.seq, self.first_incomplete)
    }

    /// The session expired before this call was executed, so it needs a new one.
    pub(crate) fn must_renew(&self, outcome: &Outcome) -> bool {
        matches!(&outcome.outcome, Some(Kind::Refused(refused)) if refused.refusal() == Refusal::SessionExpired)
    }
}

impl Calls {
    /// The next number and the first incomplete one; `None` while the window is full.
    fn next(&mut self) -> Option<(u64, u64)> {
        let seq = self.last + 1;
        let first_incomplete = self.incomplete.first().copied().unwrap_or(seq);
        if seq - first_incomplete >= SESSION_WINDOW_CALLS_MAX {
            return None;
        }
        self.last = seq;
        self.incomplete.insert(seq);
        Some((seq, first_incomplete))
    }
}

impl Drop for OwnCall {
    fn drop(&mut self) {
        lock(&self.session.calls).incomplete.remove(&self.seq);
        self.session.ended.notify_waiters();
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_incomplete_call_rises_only_when_the_oldest_is_done() {
        let mut calls = Calls::default();
        assert_eq!(calls.next(), Some((1, 1)));
        assert_eq!(calls.next(), Some((2, 1)));
        calls.incomplete.remove(&2);
        assert_eq!(calls.next(), Some((3, 1)));
        calls.incomplete.remove(&1);
        assert_eq!(calls.next(), Some((4, 3)));
    }

    #[test]
    fn no_call_is_numbered_beyond_the_window() {
        let mut calls = Calls::default();
        for _ in 0..SESSION_WINDOW_CALLS_MAX {
            assert!(calls.next().is_some());
        }
        assert_eq!(calls.next(), None);
        calls.incomplete.remove(&1);
        assert_eq!(calls.next(), Some((SESSION_WINDOW_CALLS_MAX + 1, 2)));
    }
}
