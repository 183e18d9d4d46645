//! A queue in which keys take turns: however much of one key waits, it holds up the items of another for a turn, not to its end.
//!
//! It is deficit round robin (Shreedhar and Varghese, 1995). Each turn gives its key a quantum of credit, in the unit that items are
//! weighed in. What is too little for the next item stays the key's own, so an item that is heavier than a quantum passes after some
//! turns. In the long run every key that waits gets the same weight, in many items or in few.

use std::{
    borrow::Borrow,
    collections::{HashMap, VecDeque},
    hash::Hash,
};

/// Items pushed, at least, before [`FairQueue::sweep`] looks through a queue again.
const SWEEP_MIN: usize = 512;

/// Items that wait, by their keys. Those of one key keep their order.
#[derive(Debug)]
pub struct FairQueue<K, T> {
    quantum: usize,
    /// The keys of which something waits; others take up nothing.
    fifos: HashMap<K, Fifo<T>>,
    /// The same keys. The first one has its turn.
    turns: VecDeque<K>,
    /// Items pushed since the last sweep, and items that it left.
    pushed: usize,
    left: usize,
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
            pushed: 0,
            left: 0,
        }
    }

    /// How many items wait, wanted or not. Looks at each key.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fifos.values().map(|fifo| fifo.items.len()).sum()
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
        self.pushed = self.pushed.saturating_add(1);
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
        if self.pushed <= self.left.max(SWEEP_MIN) {
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
        self.left = self.len();
        self.pushed = 0;
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
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::properties::check;

    const QUANTUM: usize = 100;

    /// A key, a weight, and its place among all.
    type Item = (u8, usize, usize);

    fn queue(items: &[(u8, usize)]) -> FairQueue<u8, Item> {
        let mut queue = FairQueue::new(QUANTUM);
        for (at, &(key, weight)) in items.iter().enumerate() {
            queue.push(&key, weight, (key, weight, at));
        }
        queue
    }

    /// Batches of these limits, over and over, until nothing waits.
    fn batches(queue: &mut FairQueue<u8, Item>, limits: &[(usize, usize)]) -> Vec<Vec<Item>> {
        let mut batches = Vec::new();
        for (count, weight) in limits.iter().cycle() {
            if queue.is_empty() {
                break;
            }
            batches.push(queue.take(*count, *weight, |_| true));
        }
        batches
    }

    fn all(queue: &mut FairQueue<u8, Item>) -> Vec<Item> {
        queue.take(usize::MAX, usize::MAX, |_| true)
    }

    fn keys(items: &[Item]) -> Vec<u8> {
        items.iter().map(|(key, ..)| *key).collect()
    }

    /// Of four keys, and up to five quanta each.
    fn items() -> impl Strategy<Value = Vec<(u8, usize)>> {
        vec((0..4_u8, 0..5 * QUANTUM), 0..40)
    }

    #[test]
    fn few_small_items_wait_for_one_quantum_of_large_ones() {
        let large = [(1, QUANTUM / 2); 50];
        let small = [(2, QUANTUM / 10); 3];
        let mut queue = queue(&[&large[..], &small[..]].concat());
        let order = all(&mut queue);
        assert_eq!(keys(&order[..6]), [1, 1, 2, 2, 2, 1]);

        // The same if the large ones were alone for a while.
        for (at, (key, weight)) in large.into_iter().enumerate() {
            queue.push(&key, weight, (key, weight, at));
        }
        assert_eq!(queue.take(9, usize::MAX, |_| true).len(), 9);
        queue.push(&2, QUANTUM / 10, (2, QUANTUM / 10, 0));
        let order = all(&mut queue);
        let before = order.iter().take_while(|(key, ..)| *key == 1);
        assert!(before.map(|(_, weight, _)| weight).sum::<usize>() <= QUANTUM);
    }

    #[test]
    fn item_heavier_than_a_quantum_passes_after_its_turns() {
        let light = [(2, QUANTUM); 20];
        let mut queue = queue(&[&[(1, 5 * QUANTUM)][..], &light[..]].concat());
        let order = keys(&all(&mut queue));
        assert_eq!(order.iter().position(|key| *key == 1), Some(4));
        queue.push(&1, 5 * QUANTUM, (1, 5 * QUANTUM, 0));
        assert_eq!(all(&mut queue).len(), 1, "at once if it is alone");
    }

    #[test]
    fn batch_is_full_by_count_or_weight_or_by_one_heavy_item() {
        let mut queue = queue(&[(1, 60), (1, 60), (1, 60), (1, 500), (1, 1)]);
        let lengths = batches(&mut queue, &[(2, 200), (9, 100)]);
        let lengths: Vec<_> = lengths.iter().map(Vec::len).collect();
        assert_eq!(lengths, [2, 1, 1, 1]);
        assert!(queue.take(9, 9, |_| true).is_empty());
    }

    #[test]
    fn order_is_the_same_however_turns_are_broken_off() {
        let limits = vec((1..6_usize, 1..3 * QUANTUM), 1..5);
        check(&(items(), limits), |(items, limits)| {
            let whole = all(&mut queue(&items));
            let broken = batches(&mut queue(&items), &limits);
            for batch in &broken {
                prop_assert!(!batch.is_empty());
            }
            prop_assert_eq!(broken.concat(), whole);
            Ok(())
        });
    }

    #[test]
    fn nothing_is_lost_or_doubled_and_each_key_keeps_its_order() {
        // What is pushed, by key and weight, and how many are taken then.
        let steps = vec((items(), 0..30_usize), 0..6);
        check(&steps, |steps| {
            let mut queue = FairQueue::<u8, Item>::new(QUANTUM);
            let (mut pushed, mut taken) = (Vec::<Item>::new(), Vec::new());
            for (items, count) in steps {
                for (key, weight) in items {
                    let item = (key, weight, pushed.len());
                    queue.push(&key, weight, item);
                    pushed.push(item);
                }
                taken.extend(queue.take(count, 3 * QUANTUM, |_| true));
            }
            taken.extend(all(&mut queue));
            // Stable: it keeps the order within each key.
            pushed.sort_by_key(|(key, ..)| *key);
            taken.sort_by_key(|(key, ..)| *key);
            prop_assert_eq!(taken, pushed);
            prop_assert!(queue.is_empty() && queue.fifos.is_empty());
            Ok(())
        });
    }

    #[test]
    fn keys_that_wait_get_equal_weight_within_a_quantum_and_item() {
        let weights = vec((1..3 * QUANTUM, 1..3 * QUANTUM), 1..40);
        check(&weights, |weights| {
            let (ones, twos): (Vec<_>, Vec<_>) = weights
                .into_iter()
                .map(|(one, two)| ((1, one), (2, two)))
                .unzip();
            let mut queue = queue(&[ones, twos].concat());
            let mut got = [0_usize; 2];
            while queue.turns.len() == 2 {
                for (key, weight, _) in queue.take(1, usize::MAX, |_| true) {
                    got[usize::from(key - 1)] += weight;
                }
                prop_assert!(got[0].abs_diff(got[1]) <= QUANTUM + 3 * QUANTUM);
            }
            Ok(())
        });
    }

    #[test]
    fn unwanted_items_are_dropped_and_cost_their_key_nothing() {
        let items = [(1, 90), (1, 10), (2, 60), (1, 90), (2, 60)];
        let mut queue = queue(&items);
        let order = queue.take(9, usize::MAX, |(.., at)| *at != 0 && *at != 2);
        let order: Vec<_> = order.into_iter().map(|(.., at)| at).collect();
        assert_eq!(order, [1, 3, 4]);
        assert!(queue.is_empty() && queue.fifos.is_empty());
    }

    #[test]
    fn unwanted_items_behind_others_never_are_many() {
        let mut queue = FairQueue::<u8, usize>::new(QUANTUM);
        let is_wanted = |at: &usize| *at % 1_000 == 1;
        for at in 0..100_000_usize {
            queue.push(&u8::from(at % 2 == 1), 1, at);
            queue.sweep(is_wanted);
            assert!(queue.len() <= 2 * SWEEP_MIN, "after {at}");
        }
        let left = queue.take(usize::MAX, usize::MAX, is_wanted);
        assert_eq!(left, (1..100_000).step_by(1_000).collect::<Vec<_>>());
        assert!(queue.is_empty() && queue.fifos.is_empty());
    }

    #[test]
    fn credit_saved_for_an_item_that_is_given_up_buys_no_long_turn() {
        let heavy = (1, 9 * QUANTUM);
        let light = [(2, QUANTUM); 8];
        let mut queue = queue(&[&[heavy][..], &light[..], &[(1, QUANTUM); 8][..]].concat());
        // The heavy item has saved for some turns.
        assert_eq!(keys(&queue.take(5, usize::MAX, |_| true)), [2; 5]);
        let order = queue.take(9, usize::MAX, |(_, weight, _)| *weight == QUANTUM);
        assert_eq!(keys(&order), [1, 2, 1, 2, 1, 2, 1, 1, 1]);
    }
}
