//! A bound that callers share: on connections, or on bytes.
//!
//! A member that does nothing useful waits to be evicted. When a new claim would go over the bound, members
//! that wait are evicted, the one that has waited longest first; when none waits, the claim is refused. One
//! address has a share of its own, over which only its own members are evicted.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::address::Address;

/// What is told that its place goes to another.
pub(crate) trait Evict: Send + Sync {
    /// Gives up as soon as it can. The pool no longer counts it.
    fn evict(&self);
}

/// Which members are evicted before others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// It has not shown that it means to send anything whole.
    First,
    /// It has, and rests.
    Second,
    /// Its caller does not read the answer that is ready.
    Third,
}

/// Why a claim is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// The bound is reached, and all members are at work.
    All,
    /// The address's share is, and all of its members are at work.
    Address,
}

/// The bound.
pub(crate) struct Pool {
    max: usize,
    share: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    used: usize,
    next: u64,
    members: HashMap<u64, Member>,
    waiting: BTreeSet<Turn>,
    accounts: HashMap<Address, Account>,
}

/// What one address has.
#[derive(Default)]
struct Account {
    used: usize,
    members: usize,
    waiting: BTreeSet<Turn>,
}

struct Member {
    address: Address,
    amount: usize,
    turn: Option<Turn>,
    evict: Arc<dyn Evict>,
}

/// A member's turn to be evicted: the smallest is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    rank: Rank,
    /// Grows with time.
    since: u64,
    id: u64,
}

impl Pool {
    /// A bound of `max`, of which one address may have `share`.
    pub(crate) fn new(max: usize, share: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            share,
            state: Mutex::default(),
        })
    }

    /// A member that has claimed nothing yet and is at work.
    pub(crate) fn enter(self: &Arc<Self>, address: Address, evict: Arc<dyn Evict>) -> Place {
        let mut state = self.lock();
        let id = state.tick();
        let member = Member {
            address,
            amount: 0,
            turn: None,
            evict,
        };
        state.members.insert(id, member);
        state.accounts.entry(address).or_default().members += 1;
        drop(state);
        Place {
            pool: Arc::clone(self),
            id,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much of it is claimed.
    pub(crate) fn used(&self) -> usize {
        self.lock().used
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("max", &self.max)
            .finish_non_exhaustive()
    }
}

/// A member's place. Given back when it is dropped.
pub(crate) struct Place {
    pool: Arc<Pool>,
    id: u64,
}

impl Place {
    /// Claims this much more, and evicts others for it.
    ///
    /// # Errors
    /// If that is not enough, or this member was evicted itself.
    pub(crate) fn claim(&self, amount: usize) -> Result<(), Full> {
        let mut state = self.pool.lock();
        let Some(member) = state.members.get(&self.id) else {
            return Err(Full::All);
        };
        let (address, own) = (member.address, member.amount + amount);
        if own > self.pool.share {
            return Err(Full::Address);
        }
        while state.account(address).used + amount > self.pool.share {
            let next = state.account(address).next_but(self.id);
            state.evict(next.ok_or(Full::Address)?);
        }
        while state.used + amount > self.pool.max {
            let next = next_but(&state.waiting, self.id);
            state.evict(next.ok_or(Full::All)?);
        }
        state.used += amount;
        state.account(address).used += amount;
        if let Some(member) = state.members.get_mut(&self.id) {
            member.amount = own;
        }
        Ok(())
    }

    /// From now on it may be evicted.
    pub(crate) fn wait(&self, rank: Rank) {
        let mut state = self.pool.lock();
        let since = state.tick();
        let turn = Turn {
            rank,
            since,
            id: self.id,
        };
        state.set_turn(self.id, Some(turn));
    }

    /// From now on it may not be evicted.
    pub(crate) fn work(&self) {
        self.pool.lock().set_turn(self.id, None);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.pool.lock().remove(self.id);
    }
}

impl State {
    fn tick(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The account of an address that has a member.
    fn account(&mut self, address: Address) -> &mut Account {
        self.accounts.entry(address).or_default()
    }

    fn set_turn(&mut self, id: u64, turn: Option<Turn>) {
        let Some(member) = self.members.get_mut(&id) else {
            return;
        };
        let (address, before) = (member.address, member.turn);
        member.turn = turn;
        if let Some(before) = before {
            self.waiting.remove(&before);
            self.account(address).waiting.remove(&before);
        }
        if let Some(turn) = turn {
            self.waiting.insert(turn);
            self.account(address).waiting.insert(turn);
        }
    }

    fn evict(&mut self, turn: Turn) {
        if let Some(member) = self.remove(turn.id) {
            member.evict.evict();
        }
    }

    fn remove(&mut self, id: u64) -> Option<Member> {
        self.set_turn(id, None);
        let member = self.members.remove(&id)?;
        self.used -= member.amount;
        let account = self.account(member.address);
        account.used -= member.amount;
        account.members -= 1;
        if account.members == 0 {
            self.accounts.remove(&member.address);
        }
        Some(member)
    }
}

impl Account {
    fn next_but(&self, id: u64) -> Option<Turn> {
        next_but(&self.waiting, id)
    }
}

/// The next to be evicted that is not this one.
fn next_but(waiting: &BTreeSet<Turn>, id: u64) -> Option<Turn> {
    waiting.iter().find(|turn| turn.id != id).copied()
}

#[cfg(test)]
mod tests {
    use std::{
        net::IpAddr,
        sync::atomic::{AtomicBool, Ordering},
    };

    use super::*;

    #[derive(Default)]
    struct Told(AtomicBool);

    impl Evict for Told {
        fn evict(&self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    fn address(last: u8) -> Address {
        IpAddr::from([10, 0, 0, last]).into()
    }

    /// A member of this address, and whether it was evicted.
    fn enter(pool: &Arc<Pool>, last: u8) -> (Place, Arc<Told>) {
        let told = Arc::<Told>::default();
        (pool.enter(address(last), Arc::clone(&told) as _), told)
    }

    fn is_evicted(told: &Told) -> bool {
        told.0.load(Ordering::Relaxed)
    }

    #[test]
    fn longest_waiting_goes_first_and_resting_ones_last() {
        let pool = Pool::new(3, 3);
        let members: Vec<_> = (1..=3).map(|last| enter(&pool, last)).collect();
        for (place, _) in &members {
            place.claim(1).unwrap();
        }
        members[0].0.wait(Rank::Second);
        members[1].0.wait(Rank::First);
        members[2].0.wait(Rank::First);
        let mut evicted: Vec<usize> = Vec::new();
        let mut kept = Vec::new();
        for _ in 0..3 {
            let (place, _) = enter(&pool, 9);
            place.claim(1).unwrap();
            kept.push(place);
            let now = members.iter().position(|(_, told)| {
                is_evicted(told) && !evicted.iter().any(|at| Arc::ptr_eq(&members[*at].1, told))
            });
            evicted.push(now.unwrap());
        }
        assert_eq!(evicted, [1, 2, 0]);
        assert_eq!(pool.used(), 3);
        drop((members, kept));
        assert_eq!(pool.used(), 0);
        assert!(pool.lock().accounts.is_empty());
    }

    #[test]
    fn members_at_work_are_not_evicted() {
        let pool = Pool::new(2, 2);
        let (busy, told) = enter(&pool, 1);
        busy.claim(2).unwrap();
        busy.wait(Rank::First);
        busy.work();
        let (late, _) = enter(&pool, 2);
        assert_eq!(late.claim(1), Err(Full::All));
        assert!(!is_evicted(&told));
    }

    #[test]
    fn address_over_its_share_evicts_only_its_own() {
        let pool = Pool::new(10, 2);
        let (other, other_told) = enter(&pool, 1);
        other.claim(1).unwrap();
        other.wait(Rank::First);
        let (own, own_told) = enter(&pool, 2);
        own.claim(2).unwrap();
        let (more, _) = enter(&pool, 2);
        assert_eq!(more.claim(1), Err(Full::Address));
        own.wait(Rank::First);
        more.claim(1).unwrap();
        assert!(is_evicted(&own_told) && !is_evicted(&other_told));
        assert_eq!(own.claim(1), Err(Full::All), "it was evicted");
    }

    #[test]
    fn claim_over_the_whole_share_evicts_nothing() {
        let pool = Pool::new(10, 5);
        let (other, told) = enter(&pool, 1);
        other.claim(5).unwrap();
        other.wait(Rank::First);
        let (greedy, _) = enter(&pool, 1);
        greedy.wait(Rank::First);
        assert_eq!(greedy.claim(6), Err(Full::Address));
        assert!(!is_evicted(&told));
    }
}
