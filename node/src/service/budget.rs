//! What callers take up on this node: one accounting of calls, streams and bytes, shared out fairly.
//!
//! ```text
//! node ── tenant ── principal      operators      strangers ── address
//!      └─ address (on a node that asks for no credentials)
//! ```
//!
//! An owner has at most what its bound says, and at most as much as it leaves free of its parent's. So however many greedy owners there
//! are, part of the parent's is free for the next one, and no owner needs a share that lies idle. Operators and strangers have budgets
//! beside the node's, which tenants cannot use up.

mod full;
mod owners;
mod queues;

use std::{
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use helve_http::Address;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

pub(crate) use self::{full::Full, owners::Owner};
use self::{
    owners::Owners,
    queues::{Queues, Waiting},
};
use super::caller::{Caller, Power};
use crate::bounds::{Bounds, Fullness, GIVEN_UP, GivenUp, Load, OWNERS, OwnerKind, WHATS, What};

/// The budgets of one node. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Budgets(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    bounds: Bounds,
    node: Arc<Owner>,
    operators: Arc<Owner>,
    strangers: Arc<Owner>,
    /// Guards all `used` counts as well: what is taken of an owner is taken of its parents in the same moment.
    state: Mutex<State>,
    refused: [[AtomicU64; WHATS.len()]; OWNERS.len()],
    given_up: [AtomicU64; GIVEN_UP.len()],
}

#[derive(Debug, Default)]
struct State {
    tenants: Owners<String>,
    principals: Owners<(String, String)>,
    addresses: Owners<Option<Address>>,
    strangers: Owners<Option<Address>>,
    /// By what they wait for.
    waiting: [Queues; WHATS.len()],
}

/// What was taken of a budget. Given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    budgets: Budgets,
    owner: Arc<Owner>,
    what: What,
    amount: usize,
}

impl Budgets {
    /// Empty ones with these bounds.
    pub(crate) fn new(bounds: Bounds) -> Self {
        let root = |kind| Arc::new(Owner::new(kind, None));
        Self(Arc::new(Inner {
            bounds,
            node: root(OwnerKind::Node),
            operators: root(OwnerKind::Operators),
            strangers: root(OwnerKind::Strangers),
            state: Mutex::default(),
            refused: Default::default(),
            given_up: Default::default(),
        }))
    }

    /// The bounds.
    pub(crate) fn bounds(&self) -> &Bounds {
        &self.0.bounds
    }

    /// Whose budget a caller's requests are charged to. `from` is where they come from; requests of unknown origin, which only tests
    /// make, count as of one address.
    pub(crate) fn owner(&self, caller: &Caller, from: Option<IpAddr>) -> Arc<Owner> {
        match &caller.power {
            Power::Nothing => self.stranger(from),
            Power::All => {
                let mut state = self.lock();
                state
                    .addresses
                    .of(from.map(Address::from), OwnerKind::Address, &self.0.node)
            }
            Power::Token { .. } if caller.is_operator() => Arc::clone(&self.0.operators),
            Power::Token { .. } => {
                let mut state = self.lock();
                let tenant = caller.tenant.clone();
                let name = (tenant.clone(), caller.principal.clone());
                let tenant = state.tenants.of(tenant, OwnerKind::Tenant, &self.0.node);
                state.principals.of(name, OwnerKind::Principal, &tenant)
            }
        }
    }

    /// Whose budget requests from this address are charged to while no credential is known.
    pub(crate) fn stranger(&self, from: Option<IpAddr>) -> Arc<Owner> {
        let mut state = self.lock();
        state.strangers.of(
            from.map(Address::from),
            OwnerKind::Stranger,
            &self.0.strangers,
        )
    }

    /// Takes this much, or says which budget is used up.
    pub(crate) fn take(
        &self,
        owner: &Arc<Owner>,
        what: What,
        amount: usize,
    ) -> Result<Charge, Full> {
        let state = self.lock();
        let taken = self.take_locked(&state, owner, what, amount);
        taken.inspect_err(|full| self.count_refused(*full))
    }

    /// Takes this much as soon as there is room, until the deadline.
    pub(crate) async fn wait(
        &self,
        owner: &Arc<Owner>,
        what: What,
        amount: usize,
        deadline: Instant,
    ) -> Result<Charge, Full> {
        let (full, granted) = {
            let mut state = self.lock();
            let full = match self.take_locked(&state, owner, what, amount) {
                Ok(charge) => return Ok(charge),
                Err(full) => full,
            };
            // A call whose deadline has passed would only fill the queue.
            if deadline <= Instant::now() {
                self.count_refused(full);
                return Err(full);
            }
            let (granted, waiting) = oneshot::channel();
            state.waiting[what as usize].push(owner, Waiting { amount, granted });
            (full, waiting)
        };
        match timeout_at(deadline, granted).await {
            Ok(Ok(charge)) => Ok(charge),
            Ok(Err(_)) | Err(_) => {
                self.count_refused(full);
                Err(full)
            }
        }
    }

    /// The most that an owner can have while no other has any.
    pub(crate) fn attainable(&self, owner: &Owner, what: What) -> usize {
        let bound = |kind| self.0.bounds.of(kind, what);
        let most = owner.chain().map(|owner| match &owner.parent {
            Some(parent) => bound(owner.kind).min(bound(parent.kind) / 2),
            None => bound(owner.kind),
        });
        most.min().unwrap_or(0)
    }

    /// Counts a message that was given up.
    pub(crate) fn give_up(&self, why: GivenUp) {
        self.0.given_up[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// What callers take up now, and what was refused.
    pub(crate) fn load(&self) -> Load {
        let count = |why: GivenUp| self.0.given_up[why as usize].load(Ordering::Relaxed);
        Load {
            budgets: self.fullness(),
            given_up: GIVEN_UP.into_iter().map(|why| (why, count(why))).collect(),
            others: Vec::new(),
        }
    }

    /// How full each budget is.
    pub(crate) fn fullness(&self) -> Vec<Fullness> {
        let owners = OWNERS.into_iter();
        let all = owners.flat_map(|owner| {
            WHATS.map(|what| Fullness {
                owner,
                what,
                used: self.used(owner, what),
                limit: self.0.bounds.of(owner, what),
                refused: self.0.refused[owner as usize][what as usize].load(Ordering::Relaxed),
            })
        });
        all.collect()
    }

    /// What all owners of a kind have taken: for those that are many, the one that has most.
    pub(crate) fn used(&self, owner: OwnerKind, what: What) -> usize {
        let state = self.lock();
        match owner {
            OwnerKind::Node => self.0.node.used(what),
            OwnerKind::Operators => self.0.operators.used(what),
            OwnerKind::Strangers => self.0.strangers.used(what),
            OwnerKind::Tenant => state.tenants.fullest(what),
            OwnerKind::Principal => state.principals.fullest(what),
            OwnerKind::Address => state.addresses.fullest(what),
            OwnerKind::Stranger => state.strangers.fullest(what),
        }
    }

    fn count_refused(&self, full: Full) {
        self.0.refused[full.owner as usize][full.what as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Every count changes as a whole, so one that a panic left is right.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_locked(
        &self,
        _: &MutexGuard<'_, State>,
        owner: &Arc<Owner>,
        what: What,
        amount: usize,
    ) -> Result<Charge, Full> {
        self.fits(owner, what, amount)?;
        for owner in owner.chain() {
            owner.used[what as usize].fetch_add(amount, Ordering::Relaxed);
        }
        Ok(Charge {
            budgets: self.clone(),
            owner: Arc::clone(owner),
            what,
            amount,
        })
    }

    fn fits(&self, owner: &Owner, what: What, amount: usize) -> Result<(), Full> {
        for owner in owner.chain() {
            let full = Err(Full {
                owner: owner.kind,
                what,
            });
            let used = owner.used(what).saturating_add(amount);
            if used > self.0.bounds.of(owner.kind, what) {
                return full;
            }
            if let Some(parent) = &owner.parent {
                let all = parent.used(what).saturating_add(amount);
                let free = self.0.bounds.of(parent.kind, what).saturating_sub(all);
                if used > free {
                    return full;
                }
            }
        }
        Ok(())
    }

    /// Gives back, and hands what is free to those who wait.
    fn give_back(&self, owner: &Arc<Owner>, what: What, amount: usize) {
        let granted = {
            let mut state = self.lock();
            for owner in owner.chain() {
                owner.used[what as usize].fetch_sub(amount, Ordering::Relaxed);
            }
            self.grant(&mut state, what)
        };
        for (waiting, charge) in granted {
            // Of a call that gave up in this moment the charge comes back, and is dropped outside the lock.
            drop(waiting.send(charge));
        }
    }

    /// Hands what is free to those who wait: to one call of each owner at a time.
    fn grant(
        &self,
        state: &mut MutexGuard<'_, State>,
        what: What,
    ) -> Vec<(oneshot::Sender<Charge>, Charge)> {
        let mut queues = std::mem::take(&mut state.waiting[what as usize]);
        let granted =
            queues.grant(|owner, amount| self.take_locked(state, owner, what, amount).ok());
        state.waiting[what as usize] = queues;
        granted
    }

    /// How many calls wait for this, gone or not.
    #[cfg(test)]
    pub(crate) fn waiting(&self, what: What) -> usize {
        self.lock().waiting[what as usize].len()
    }
}

impl Charge {
    /// Keeps this much and gives the rest back.
    pub(crate) fn shrink_to(&mut self, amount: usize) {
        let rest = self.amount.saturating_sub(amount);
        if rest > 0 {
            self.amount -= rest;
            self.budgets.give_back(&self.owner, self.what, rest);
        }
    }

    /// Adds another charge of the same budget.
    pub(crate) fn add(&mut self, mut other: Self) {
        debug_assert!(Arc::ptr_eq(&self.owner, &other.owner) && self.what == other.what);
        self.amount += std::mem::take(&mut other.amount);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if self.amount > 0 {
            self.budgets.give_back(&self.owner, self.what, self.amount);
        }
    }
}

#[cfg(test)]
mod tests;
