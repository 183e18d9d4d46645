//! How many places each key holds of a bound that keys share, such as addresses at a port.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Counts places by key, up to a bound per key. Cheap to clone; clones count together.
#[derive(Debug)]
pub struct KeyedPlaces<K> {
    max: usize,
    held: Arc<Mutex<HashMap<K, usize>>>,
}

impl<K> Clone for KeyedPlaces<K> {
    fn clone(&self) -> Self {
        Self {
            max: self.max,
            held: Arc::clone(&self.held),
        }
    }
}

impl<K: Hash + Eq + Copy> KeyedPlaces<K> {
    /// At most `max` places for each key.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            max,
            held: Arc::default(),
        }
    }

    /// Takes a place for a key; `None` if it holds as many as it may.
    #[must_use]
    pub fn take(&self, key: K) -> Option<KeyedPlace<K>> {
        let mut held = lock(&self.held);
        let count = held.entry(key).or_default();
        // A key that is new holds none, so no entry without a place is left behind.
        if *count >= self.max {
            return None;
        }
        *count += 1;
        drop(held);
        Some(KeyedPlace {
            key,
            held: Arc::clone(&self.held),
        })
    }

    /// The most places that one key holds.
    #[cfg(test)]
    #[must_use]
    pub fn largest(&self) -> usize {
        lock(&self.held).values().copied().max().unwrap_or(0)
    }
}

/// A place that a key holds until this is dropped.
#[derive(Debug)]
pub struct KeyedPlace<K: Hash + Eq + Copy> {
    key: K,
    held: Arc<Mutex<HashMap<K, usize>>>,
}

impl<K: Hash + Eq + Copy> Drop for KeyedPlace<K> {
    fn drop(&mut self) {
        let mut held = lock(&self.held);
        if let Some(count) = held.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.key);
            }
        }
    }
}

fn lock<K>(held: &Mutex<HashMap<K, usize>>) -> MutexGuard<'_, HashMap<K, usize>> {
    // A panic under the lock leaves the counts whole.
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_a_share_that_comes_back() {
        let shares = KeyedPlaces::new(2);
        let first = shares.take(1).unwrap();
        let second = shares.take(1).unwrap();
        assert!(shares.take(1).is_none());
        assert!(shares.take(2).is_some(), "another key has its own");
        assert_eq!(shares.largest(), 2);
        drop(first);
        let third = shares.take(1).unwrap();
        assert!(shares.take(1).is_none());
        drop((second, third));
        assert!(lock(&shares.held).is_empty(), "no key is remembered");
    }

    #[test]
    fn share_of_nothing_admits_no_key_and_remembers_none() {
        let shares: KeyedPlaces<u8> = KeyedPlaces::new(0);
        assert!(shares.take(1).is_none());
    }
}
