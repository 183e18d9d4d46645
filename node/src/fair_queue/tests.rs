//! The queue keeps order within a key, and takes turns between keys.

use proptest::{collection::vec, prelude::*};

use super::{sweeps::SWEEP_MIN, *};
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
fn keys_that_are_passed_over_keep_their_turns() {
    let mut queue = queue(&[(1, 90), (1, 90), (2, 60), (3, 50), (2, 60)]);
    let of_others =
        |queue: &mut FairQueue<u8, Item>| queue.take_of(|key| *key != 1, 2, 200, |_| true);
    assert_eq!(keys(&of_others(&mut queue)), [2, 3]);
    assert_eq!(keys(&of_others(&mut queue)), [2]);
    assert!(of_others(&mut queue).is_empty());
    assert_eq!(keys(&all(&mut queue)), [1, 1]);
    assert!(queue.is_empty() && queue.fifos.is_empty());
}

#[test]
fn keys_that_are_passed_over_come_before_the_others() {
    let items = [(1, 90), (1, 90), (2, 60), (3, 50), (2, 60), (3, 50)];
    let mut queue = queue(&items);
    let of_others = queue.take_of(|key| *key != 1, 2, 200, |_| true);
    assert_eq!(keys(&of_others), [2, 3]);
    // Key 2 has had its turn, and key 3 is in the middle of its own.
    assert_eq!(keys(&all(&mut queue)), [1, 3, 2, 1]);
}

#[test]
fn unwanted_items_are_dropped_and_cost_their_key_nothing() {
    let items = [(1, 90), (1, 10), (2, 60), (1, 90), (2, 60)];
    let mut queue = queue(&items);
    let order = queue.take(9, usize::MAX, |(.., at)| *at != 0 && *at != 4);
    let order: Vec<_> = order.into_iter().map(|(.., at)| at).collect();
    // Had the first item its price, the last of key 1 would wait for key 2.
    assert_eq!(order, [1, 3, 2]);
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
