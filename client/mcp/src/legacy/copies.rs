//! The copies of sessions that one replica keeps in memory, each about 100 KiB.
//!
//! The session itself is in the cluster, so a copy can go at any time when no call is under way in it: the next request makes
//! another. So a principal's idlest copy makes room for its next, and no principal takes the room of all.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rmcp::{
    model::RequestId,
    transport::streamable_http_server::session::{SessionManager as _, local::LocalSessionManager},
};

use crate::metrics::{Limit, Metrics};

/// How many copies a replica keeps, and for one principal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) copies: usize,
    pub(super) of_principal: usize,
}

/// 100 MiB in all, and a quarter for one principal.
pub(super) const LIMITS: Limits = Limits {
    copies: 1_024,
    of_principal: 256,
};

/// Ids of requests without an answer that are remembered in a copy.
const SPENT_MAX: usize = 1_024;

/// Why there is no room for another copy: a call is under way in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Busy {
    /// In each of this principal's.
    Principal,
    /// In each of the replica's.
    Replica,
}

/// The copies of one replica.
#[derive(Clone)]
pub(super) struct Copies {
    pub(super) sessions: Arc<LocalSessionManager>,
    limits: Limits,
    state: Arc<Mutex<State>>,
    metrics: Metrics,
}

#[derive(Default)]
struct State {
    /// Grows with each use.
    next: u64,
    copies: HashMap<String, Copy>,
    /// Of the ids that are spent.
    hasher: RandomState,
}

struct Copy {
    owner: String,
    used: u64,
    calls: usize,
    /// The ids of the requests under way.
    requests: HashSet<RequestId>,
    /// Hashes of the ids of requests that `rmcp` gave up without an answer, such as cancelled ones,
    /// the last one at the end. It does not stop their handlers, and would take the answer of one
    /// for that of a later request with its id. Ids of 1,024 bytes would take more than the copy.
    spent: VecDeque<u64>,
}

/// A call in a session. Its copy stays until this is dropped.
pub(super) struct Call {
    copies: Copies,
    id: String,
    request: Option<RequestId>,
    is_answered: bool,
}

impl Copies {
    pub(super) fn new(
        sessions: Arc<LocalSessionManager>,
        limits: Limits,
        metrics: Metrics,
    ) -> Self {
        Self {
            sessions,
            limits,
            state: Arc::default(),
            metrics,
        }
    }

    /// Whether there is a copy of this session, or is about to be.
    #[cfg(test)]
    pub(super) fn is_counted(&self, id: &str) -> bool {
        self.lock().is_known(id)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a call in a session, and makes room if there is no copy of it yet. Where callers do not authenticate they are one
    /// principal, `owner` is empty, and the room is all theirs.
    ///
    /// # Errors
    /// If there is no room.
    pub(super) async fn call(&self, id: &str, owner: &str) -> Result<Call, Busy> {
        let going = self.reserve(id, owner).await.inspect_err(|busy| {
            self.metrics.refused(match busy {
                Busy::Principal => Limit::PrincipalSessions,
                Busy::Replica => Limit::Sessions,
            });
        })?;
        // Before anything else is awaited: if the caller goes away, this gives the count back.
        let call = Call {
            copies: self.clone(),
            id: id.to_owned(),
            request: None,
            is_answered: false,
        };
        self.metrics.sessions(self.lock().copies.len());
        if !going.is_empty() {
            self.close_all(going).await;
        }
        Ok(call)
    }

    /// Gives up the copy of a session.
    pub(super) async fn close(&self, id: &str) {
        if let Err(error) = self.sessions.close_session(&Arc::from(id)).await {
            tracing::debug!(%error, "a copy of a session had gone already");
        }
    }

    /// Gives up copies that are in no count any more, even if the caller goes away meanwhile.
    async fn close_all(&self, going: Vec<String>) {
        let copies = self.clone();
        let closed = tokio::spawn(async move {
            for id in going {
                copies.close(&id).await;
            }
        });
        if let Err(error) = closed.await {
            tracing::error!(%error, "copies of sessions could not be given up");
        }
    }

    /// Takes a place for a copy. Returns the sessions whose copies must go for it.
    async fn reserve(&self, id: &str, owner: &str) -> Result<Vec<String>, Busy> {
        let share = if owner.is_empty() {
            self.limits.copies
        } else {
            self.limits.of_principal
        };
        {
            let mut state = self.lock();
            let is_full = state.of(owner) >= share || state.copies.len() >= self.limits.copies;
            if state.is_known(id) || !is_full {
                state.insert(id, owner);
                return Ok(Vec::new());
            }
        }
        let held: HashSet<String> = {
            let held = self.sessions.sessions.read().await;
            held.keys().map(ToString::to_string).collect()
        };
        let mut state = self.lock();
        // Those whose time was over have gone by themselves.
        state
            .copies
            .retain(|id, copy| copy.calls > 0 || held.contains(id));
        let mut going = Vec::new();
        if state.of(owner) >= share {
            going.push(state.take_idlest(Some(owner)).ok_or(Busy::Principal)?);
        }
        if state.copies.len() >= self.limits.copies {
            going.push(state.take_idlest(None).ok_or(Busy::Replica)?);
        }
        state.insert(id, owner);
        Ok(going)
    }
}

impl State {
    /// Whether there is a copy of this session.
    fn is_known(&self, id: &str) -> bool {
        self.copies.contains_key(id)
    }

    /// One more call in a session, which is used now.
    fn insert(&mut self, id: &str, owner: &str) {
        self.next += 1;
        let copy = self.copies.entry(id.to_owned()).or_insert_with(|| Copy {
            owner: owner.to_owned(),
            used: 0,
            calls: 0,
            requests: HashSet::new(),
            spent: VecDeque::new(),
        });
        copy.used = self.next;
        copy.calls += 1;
    }

    fn of(&self, owner: &str) -> usize {
        let own = self.copies.values().filter(|copy| copy.owner == owner);
        own.count()
    }

    /// Forgets the copy that has been unused longest, of this owner or of all.
    fn take_idlest(&mut self, owner: Option<&str>) -> Option<String> {
        let idle = self
            .copies
            .iter()
            .filter(|(_, copy)| copy.calls == 0 && owner.is_none_or(|owner| copy.owner == owner));
        let (id, _) = idle.min_by_key(|(_, copy)| copy.used)?;
        let id = id.clone();
        self.copies.remove(&id);
        Some(id)
    }
}

impl Call {
    /// Takes this id of a request until the call is over, for good if it ends without an answer.
    ///
    /// # Errors
    /// The id, if another call of the session has it, or had it and got no answer.
    pub(super) fn with_id(mut self, request: Option<RequestId>) -> Result<Self, RequestId> {
        let Some(request) = request else {
            return Ok(self);
        };
        let mut state = self.copies.lock();
        let hash = state.hasher.hash_one(&request);
        let copy = state.copies.get_mut(&self.id);
        let is_free = copy.is_none_or(|copy| {
            !copy.spent.contains(&hash) && copy.requests.insert(request.clone())
        });
        drop(state);
        if !is_free {
            return Err(request);
        }
        self.request = Some(request);
        Ok(self)
    }

    /// The request is answered: its id can be taken again once the call is over.
    pub(super) fn answered(&mut self) {
        self.is_answered = true;
    }

    /// Whether a request waits for its answer.
    pub(super) fn is_pending(&self) -> bool {
        self.request.is_some() && !self.is_answered
    }

    /// A session that this call has begun has been given its id.
    pub(super) fn named(mut self, id: &str) -> Self {
        let mut state = self.copies.lock();
        if let Some(copy) = state.copies.remove(&self.id) {
            state.copies.insert(id.to_owned(), copy);
        }
        drop(state);
        id.clone_into(&mut self.id);
        self
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut state = self.copies.lock();
        let request = self.request.as_ref();
        let hash = request.map(|request| state.hasher.hash_one(request));
        let Some(copy) = state.copies.get_mut(&self.id) else {
            return;
        };
        copy.calls -= 1;
        if let Some(request) = request {
            copy.requests.remove(request);
        }
        if let Some(hash) = hash.filter(|_| !self.is_answered) {
            copy.spend(hash);
        }
    }
}

impl Copy {
    /// Remembers the id of a request without an answer.
    fn spend(&mut self, hash: u64) {
        if self.spent.len() == SPENT_MAX {
            self.spent.pop_front();
        }
        self.spent.push_back(hash);
    }
}

#[cfg(test)]
mod tests;
