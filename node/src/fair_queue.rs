//! A queue in which keys take turns: however much of one key waits, it holds up the items of another for a turn, not to its end.
//!
//! It is deficit round robin (Shreedhar and Varghese, 1995). Each turn gives its key a quantum of credit, in the unit that items are
//! weighed in. What is too little for the next item stays the key's own, so an item that is heavier than a quantum passes after some
//! turns. In the long run every key that waits gets the same weight, in many items or in few.

mod sweeps;

use std::{
    borrow::Borrow,
    collections::{HashMap, VecDeque},
    hash::Hash,
    mem,
};

pub(crate) use self::sweeps::Sweeps;

/// Items that wait, by their keys. Those of one key keep their order.
#[derive(Debug)]
pub struct FairQueue<K, T> {
    quantum: usize,
    /// The keys of which something waits; others take up nothing.
    fifos: HashMap<K, Fifo<T>>,
    /// The same keys. The first one has its turn.
    turns: VecDeque<K>,
    sweeps: Sweeps,
}

#[derive(Debug)]
struct Fifo<T> {
    /// Each with its weight.
    items: VecDeque<(usize, T)>,
    /// What may be taken in the turn that the key has, or has next. A batch that is full leaves it as it is.
    credit: usize,
}

impl<K: Eq + Hash, T> FairQueue<K, T> {
    /// An empty queue, in which a turn is worth this weight, at least 1.
    #[must_use]
    pub fn new(quantum: usize) -> Self {
        Self {
            quantum: quantum.max(1),
            fifos: HashMap::new(),
            turns: VecDeque::new(),
            sweeps: Sweeps::default(),
        }
    }

    /// How many items wait, wanted or not. Looks at each key.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fifos.values().map(|fifo| fifo.items.len()).sum()
    }

    /// The keys that have items, wanted or not.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.turns.iter()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Puts an item behind those of its key, and a key that has none behind the other keys.
    pub fn push<Q>(&mut self, key: &Q, weight: usize, item: T)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        self.sweeps.pushed();
        if let Some(fifo) = self.fifos.get_mut(key) {
            fifo.items.push_back((weight, item));
            return;
        }
        let fifo = Fifo {
            items: VecDeque::from([(weight, item)]),
            credit: self.quantum,
        };
        self.fifos.insert(key.to_owned(), fifo);
        self.turns.push_back(key.to_owned());
    }

    /// Drops the items that are not wanted any more, once as many were pushed as the last sweep left. To be called after each push: then
    /// unwanted items are about as many as wanted ones at most, or a few hundred, and each push pays for a look at a few items.
    pub fn sweep(&mut self, is_wanted: impl Fn(&T) -> bool) {
        if !self.sweeps.is_due() {
            return;
        }
        let quantum = self.quantum;
        self.fifos.retain(|_, fifo| {
            fifo.drop_unwanted(quantum, &is_wanted);
            fifo.items.retain(|(_, item)| is_wanted(item));
            !fifo.items.is_empty()
        });
        let fifos = &self.fifos;
        self.turns.retain(|key| fifos.contains_key(key));
        self.sweeps.swept(self.len());
    }

    /// Takes the items whose turns are next: at most `count` of them, and at most this weight together, but an item that is heavier alone.
    /// Items that are not wanted any more are dropped when it would be their turn, and cost their key nothing.
    ///
    /// Without a limit the order would be the same: where a full batch breaks a turn off, the next one goes on.
    pub fn take(&mut self, count: usize, weight: usize, is_wanted: impl Fn(&T) -> bool) -> Vec<T> {
        let mut batch = Vec::new();
        let mut room = weight;
        while batch.len() < count {
            let fits = if batch.is_empty() { usize::MAX } else { room };
            let Some((weight, item)) = self.next(fits, &is_wanted) else {
                break;
            };
            room = room.saturating_sub(weight);
            batch.push(item);
        }
        batch
    }

    /// Takes as [`take`](Self::take) does, but only from keys that `may` admits. The other keys then come before the admitted ones, each
    /// group in its order.
    pub fn take_of(
        &mut self,
        may: impl Fn(&K) -> bool,
        count: usize,
        weight: usize,
        is_wanted: impl Fn(&T) -> bool,
    ) -> Vec<T> {
        let turns = mem::take(&mut self.turns);
        let (admitted, mut others): (VecDeque<_>, VecDeque<_>) = turns.into_iter().partition(may);
        self.turns = admitted;
        let batch = self.take(count, weight, is_wanted);
        others.append(&mut self.turns);
        self.turns = others;
        batch
    }

    /// The item whose turn it is, unless it weighs more than `room`. An item has one turn pass for each quantum that it weighs.
    fn next(&mut self, room: usize, is_wanted: &impl Fn(&T) -> bool) -> Option<(usize, T)> {
        loop {
            let is_alone = self.turns.len() == 1;
            let fifo = self.fifos.get_mut(self.turns.front()?)?;
            fifo.drop_unwanted(self.quantum, is_wanted);
            let Some(weight) = fifo.items.front().map(|(weight, _)| *weight) else {
                self.end_of_key();
                continue;
            };
            if weight > fifo.credit && !is_alone {
                fifo.credit = fifo.credit.saturating_add(self.quantum);
                self.turns.rotate_left(1);
                continue;
            }
            if weight > room {
                return None;
            }
            fifo.credit = fifo.credit.saturating_sub(weight);
            let item = fifo.items.pop_front();
            if fifo.items.is_empty() {
                self.end_of_key();
            }
            return item;
        }
    }

    /// Forgets the key whose turn it is: nothing of it waits any more.
    fn end_of_key(&mut self) {
        if let Some(key) = self.turns.pop_front() {
            self.fifos.remove(&key);
        }
    }
}

impl<T> Fifo<T> {
    /// Drops what is not wanted any more at the front. Of the credit that was saved for it no more than one turn's worth remains: else a
    /// key could save for an item, give that up, and have one long turn.
    fn drop_unwanted(&mut self, quantum: usize, is_wanted: &impl Fn(&T) -> bool) {
        while self.items.front().is_some_and(|(_, item)| !is_wanted(item)) {
            self.items.pop_front();
            self.credit = self.credit.min(quantum);
        }
    }
}

#[cfg(test)]
mod tests;
