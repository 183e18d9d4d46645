//! The copies of sessions that one replica keeps in memory, each about 100 KiB.
//!
//! The session itself is in the cluster, so a copy can go at any time when no call is under way in it: the next request makes
//! another. So a principal's idlest copy makes room for its next, and no principal takes the room of all.

use std::{
    collections::{HashMap, HashSet},
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
}

struct Copy {
    owner: String,
    used: u64,
    calls: usize,
    /// The ids of the requests under way.
    requests: HashSet<RequestId>,
}

/// A call in a session. Its copy stays until this is dropped.
pub(super) struct Call {
    copies: Copies,
    id: String,
    request: Option<RequestId>,
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
        self.metrics.sessions(self.lock().copies.len());
        for id in going {
            self.close(&id).await;
        }
        Ok(Call {
            copies: self.clone(),
            id: id.to_owned(),
            request: None,
        })
    }

    /// Gives up the copy of a session.
    pub(super) async fn close(&self, id: &str) {
        if let Err(error) = self.sessions.close_session(&Arc::from(id)).await {
            tracing::debug!(%error, "a copy of a session had gone already");
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
    /// Takes this id of a request until the call is over.
    ///
    /// # Errors
    /// The id, if another call of the session has it.
    pub(super) fn with_id(mut self, request: Option<RequestId>) -> Result<Self, RequestId> {
        let Some(request) = request else {
            return Ok(self);
        };
        let mut state = self.copies.lock();
        let copy = state.copies.get_mut(&self.id);
        let is_free = copy.is_none_or(|copy| copy.requests.insert(request.clone()));
        drop(state);
        if !is_free {
            return Err(request);
        }
        self.request = Some(request);
        Ok(self)
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
        if let Some(copy) = state.copies.get_mut(&self.id) {
            copy.calls -= 1;
            if let Some(request) = &self.request {
                copy.requests.remove(request);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies(copies: usize, of_principal: usize) -> Copies {
        let limits = Limits {
            copies,
            of_principal,
        };
        Copies::new(Arc::default(), limits, Metrics::new())
    }

    /// Begins a session as rmcp does, and a call in it.
    async fn begin(copies: &Copies, owner: &str) -> (String, Call) {
        let call = copies.call("begun", owner).await.unwrap();
        let (id, _transport) = copies.sessions.create_session().await.unwrap();
        (id.to_string(), call.named(&id))
    }

    async fn is_held(copies: &Copies, id: &str) -> bool {
        copies.sessions.has_session(&Arc::from(id)).await.unwrap()
    }

    #[tokio::test]
    async fn principal_over_its_share_loses_its_own_idlest_copy() {
        let copies = copies(10, 2);
        let (other, _) = begin(&copies, "bob").await;
        let (first, _) = begin(&copies, "alice").await;
        let (second, _) = begin(&copies, "alice").await;
        drop(copies.call(&first, "alice").await);
        let (third, _) = begin(&copies, "alice").await;
        for (id, expected) in [(other, true), (first, true), (second, false), (third, true)] {
            assert_eq!(is_held(&copies, &id).await, expected);
        }
    }

    #[tokio::test]
    async fn copies_with_a_call_under_way_stay() {
        let copies = copies(10, 2);
        let held = [begin(&copies, "alice").await, begin(&copies, "alice").await];
        assert_eq!(
            copies.call("begun", "alice").await.err(),
            Some(Busy::Principal)
        );
        // Others are not refused for it.
        begin(&copies, "bob").await;
        drop(held);
        begin(&copies, "alice").await;
    }

    #[tokio::test]
    async fn full_replica_loses_the_idlest_copy_of_all() {
        let copies = copies(2, 2);
        let (first, _) = begin(&copies, "alice").await;
        let (second, held) = begin(&copies, "bob").await;
        let (_, held_too) = begin(&copies, "carol").await;
        assert!(!is_held(&copies, &first).await && is_held(&copies, &second).await);
        assert_eq!(
            copies.call("begun", "dave").await.err(),
            Some(Busy::Replica)
        );
        drop((held, held_too));
    }

    #[tokio::test]
    async fn without_principals_the_room_is_for_all() {
        let copies = copies(3, 1);
        let mut ids = Vec::new();
        for _ in 0..4 {
            ids.push(begin(&copies, "").await.0);
        }
        assert!(!is_held(&copies, &ids[0]).await);
        for id in &ids[1..] {
            assert!(is_held(&copies, id).await);
        }
        assert_eq!(copies.lock().copies.len(), 3);
    }
}
