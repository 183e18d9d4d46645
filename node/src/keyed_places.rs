//! How many places each key holds of a bound that keys share, such as addresses at a port.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::limits::PLACES_SHARE;

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

impl<K: Hash + Eq + Clone> KeyedPlaces<K> {
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
        let count = held.entry(key.clone()).or_default();
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
pub struct KeyedPlace<K: Hash + Eq + Clone> {
    key: K,
    held: Arc<Mutex<HashMap<K, usize>>>,
}

impl<K: Hash + Eq + Clone> Drop for KeyedPlace<K> {
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

/// Places that keys share. A key gets no more once it holds [`PLACES_SHARE`] times what is free, so no key takes all. Clones count
/// together.
#[derive(Debug, Clone)]
pub struct SharedPlaces(Arc<Sharing>);

#[derive(Debug)]
struct Sharing {
    max: usize,
    held: Mutex<Held>,
    refused: AtomicU64,
}

#[derive(Debug, Default)]
struct Held {
    all: usize,
    by_key: HashMap<Arc<str>, usize>,
}

impl SharedPlaces {
    /// This many places for all keys together.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self(Arc::new(Sharing {
            max,
            held: Mutex::default(),
            refused: AtomicU64::new(0),
        }))
    }

    /// Takes places for a key. `None`, which is counted, if it has its share; it may pass that by fewer than it takes at once.
    #[must_use]
    pub fn take(&self, key: &str, count: usize) -> Option<SharedPlace> {
        let may = |own: usize, free: usize| own < free.saturating_mul(PLACES_SHARE);
        let taken = self.take_if(key, count, may);
        if taken.is_none() {
            self.0.refused.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    /// Takes places for a key that leave this many free for others; `None` if there are too few, or
    /// its share is less.
    #[must_use]
    pub fn take_within(&self, key: &str, count: usize, kept: usize) -> Option<SharedPlace> {
        self.take_if(key, count, |own, free| {
            let free = free.saturating_sub(kept);
            count <= free && own.saturating_add(count) <= free.saturating_mul(PLACES_SHARE)
        })
    }

    /// Takes places for a key if what it holds and what is free say that it may.
    fn take_if(
        &self,
        key: &str,
        count: usize,
        may: impl FnOnce(usize, usize) -> bool,
    ) -> Option<SharedPlace> {
        let mut held = self.0.lock();
        let (key, own) = match held.by_key.get_key_value(key) {
            Some((key, own)) => (Arc::clone(key), *own),
            None => (Arc::from(key), 0),
        };
        if !may(own, self.0.max.saturating_sub(held.all)) {
            return None;
        }
        held.all += count;
        held.by_key.insert(Arc::clone(&key), own + count);
        drop(held);
        Some(SharedPlace {
            key,
            count,
            sharing: Arc::clone(&self.0),
        })
    }

    /// How many are taken.
    #[must_use]
    pub fn used(&self) -> usize {
        self.0.lock().all
    }

    /// How often there was none for a key.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }
}

impl Sharing {
    fn lock(&self) -> MutexGuard<'_, Held> {
        // A panic under the lock leaves the counts whole.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Places that a key holds until this is dropped.
#[derive(Debug)]
pub struct SharedPlace {
    key: Arc<str>,
    count: usize,
    sharing: Arc<Sharing>,
}

impl SharedPlace {
    /// Holds this many places from now on, be there some or not.
    pub fn resize(&mut self, count: usize) {
        let mut held = self.sharing.lock();
        held.all = held.all - self.count + count;
        if let Some(own) = held.by_key.get_mut(&self.key) {
            *own = *own - self.count + count;
        }
        self.count = count;
    }
}

impl Drop for SharedPlace {
    fn drop(&mut self) {
        let mut held = self.sharing.lock();
        held.all -= self.count;
        if let Some(own) = held.by_key.get_mut(&self.key) {
            *own -= self.count;
            if *own == 0 {
                held.by_key.remove(&self.key);
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
    fn one_key_never_has_all_places_and_each_is_returned() {
        let places = SharedPlaces::new(1_600);
        let fill = |key: &str| -> Vec<_> { std::iter::from_fn(|| places.take(key, 1)).collect() };
        let greedy = fill("greedy");
        assert_eq!(greedy.len(), 1_200, "three quarters");
        let honest = fill("honest");
        assert_eq!(honest.len(), 300, "the same of what is left");
        assert_eq!((places.used(), places.refused()), (1_500, 2));
        drop(greedy);
        let several = places.take("honest", 7).unwrap();
        assert_eq!(places.used(), 307);
        drop((honest, several));
        let mut exact = places.take_within("exact", 1_000, 500).unwrap();
        assert!(places.take_within("exact", 201, 400).is_none(), "too few");
        assert!(places.take_within("exact", 600, 0).is_some());
        exact.resize(1_300);
        assert!(places.take_within("exact", 1, 200).is_none(), "its share");
        assert_eq!((places.used(), places.refused()), (1_300, 2));
        drop(exact);
        let held = places.0.lock();
        assert!(held.all == 0 && held.by_key.is_empty(), "{held:?}");
    }

    #[test]
    fn share_of_nothing_admits_no_key_and_remembers_none() {
        let shares: KeyedPlaces<u8> = KeyedPlaces::new(0);
        assert!(shares.take(1).is_none());
    }
}
