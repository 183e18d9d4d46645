//! Places of health watches. They are open to strangers, so that one who takes all must not keep out others who watch less.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use helve_http::Address;
use tokio_util::sync::CancellationToken;

use crate::{
    bounds::{self, Shared},
    limits::{ADDRESS_HEALTH_WATCHES_MAX, HEALTH_WATCHES_MAX},
    service::failure::Failure,
};

/// Bounds the health watches on this node: [`HEALTH_WATCHES_MAX`] in all, and of one address
/// [`ADDRESS_HEALTH_WATCHES_MAX`]. Where there is no place, the oldest watch ends of the address
/// that has most, or of the connection that has most of its address: if that is at least two more
/// than the caller's own, so that callers who watch alike do not end each other's.
#[derive(Debug, Clone, Default)]
pub(crate) struct HealthWatches(Arc<Mutex<Watches>>);

/// Room for a health watch. Given back when this is dropped.
#[derive(Debug)]
pub(super) struct WatchRoom {
    number: u64,
    ended: CancellationToken,
    watches: HealthWatches,
}

#[derive(Debug, Default)]
struct Watches {
    /// In the order in which they began.
    held: BTreeMap<u64, Watch>,
    begun: u64,
    refused: u64,
}

#[derive(Debug)]
struct Watch {
    from: SocketAddr,
    end: CancellationToken,
}

impl HealthWatches {
    /// Admits a health watch over the connection that comes from there.
    ///
    /// # Errors
    /// Overloaded, if there is no place, and none that another has more of.
    pub(super) fn admit(&self, from: SocketAddr) -> Result<WatchRoom, Failure> {
        let mut watches = self.lock();
        if !watches.make_place(from) {
            watches.refused += 1;
            return Err(Failure::Overloaded(bounds::HEALTH_WATCHES));
        }
        watches.begun += 1;
        let (number, end) = (watches.begun, CancellationToken::new());
        let ended = end.clone();
        watches.held.insert(number, Watch { from, end });
        drop(watches);
        Ok(WatchRoom {
            number,
            ended,
            watches: self.clone(),
        })
    }

    /// How many watches there are, may be, and were refused.
    pub(crate) fn fullness(&self) -> Shared {
        let watches = self.lock();
        Shared {
            used: watches.held.len(),
            limit: HEALTH_WATCHES_MAX,
            refused: watches.refused,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Watches> {
        // A panic under the lock leaves the places whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watches {
    /// Whether there is a place for one more watch from there, be it one that was just taken away.
    fn make_place(&mut self, from: SocketAddr) -> bool {
        let own = address(from);
        let of_own = |watch: &Watch| (address(watch.from) == own).then_some(watch.from);
        let own_count = self.held.values().filter_map(of_own).count();
        let taken = if own_count >= ADDRESS_HEALTH_WATCHES_MAX {
            self.most(of_own, &from)
        } else if self.held.len() >= HEALTH_WATCHES_MAX {
            self.most(|watch| Some(address(watch.from)), &own)
        } else {
            return true;
        };
        let Some(taken) = taken.and_then(|number| self.held.remove(&number)) else {
            return false;
        };
        taken.end.cancel();
        true
    }

    /// The oldest watch of what has most watches, by this name; `None` if `own` has as many, or only one fewer.
    fn most<K: Hash + Eq>(&self, name: impl Fn(&Watch) -> Option<K>, own: &K) -> Option<u64> {
        let mut counted: HashMap<K, (usize, u64)> = HashMap::new();
        for (number, watch) in &self.held {
            if let Some(name) = name(watch) {
                counted.entry(name).or_insert((0, *number)).0 += 1;
            }
        }
        let own_count = counted.get(own).map_or(0, |(count, _)| *count);
        let most = counted.into_values().max_by_key(|(count, _)| *count);
        most.filter(|(count, _)| *count > own_count + 1)
            .map(|(_, oldest)| oldest)
    }
}

fn address(from: SocketAddr) -> Address {
    from.ip().into()
}

impl WatchRoom {
    /// Ends once the place was given to another.
    pub(super) fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        self.ended.clone().cancelled_owned()
    }
}

impl Drop for WatchRoom {
    fn drop(&mut self) {
        self.watches.lock().held.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: u8, port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, host], port))
    }

    /// As many watches as the node has places, of so few addresses that each has its share, of a connection each.
    fn full(watches: &HealthWatches) -> Vec<WatchRoom> {
        let each = ADDRESS_HEALTH_WATCHES_MAX;
        let places = (0..HEALTH_WATCHES_MAX).map(|n| {
            let (host, port) = (1 + n / each, 1 + n % each);
            at(u8::try_from(host).unwrap(), u16::try_from(port).unwrap())
        });
        places.map(|from| watches.admit(from).unwrap()).collect()
    }

    fn is_ended(room: &WatchRoom) -> bool {
        room.ended.is_cancelled()
    }

    #[test]
    fn watches_are_bounded_and_given_back() {
        let watches = HealthWatches::default();
        let held = full(&watches);
        let first = watches.admit(at(1, 9_000));
        assert!(matches!(first, Err(Failure::Overloaded(_))));
        let filled = watches.fullness();
        assert_eq!((filled.used, filled.refused), (filled.limit, 1));
        assert!(!held.iter().any(is_ended), "one each: none has more");
        drop(held);
        assert!(watches.admit(at(1, 9_000)).is_ok());
        assert_eq!(watches.fullness().used, 0);
    }

    #[test]
    fn few_addresses_with_all_places_leave_some_to_others() {
        let watches = HealthWatches::default();
        let held = full(&watches);
        let others: Vec<_> = (0..40)
            .map(|host| watches.admit(at(100 + host, 1)).unwrap())
            .collect();
        assert!(!others.iter().any(is_ended));
        assert_eq!(held.iter().filter(|room| is_ended(room)).count(), 40);
        assert_eq!(watches.fullness().used, HEALTH_WATCHES_MAX);
        let each = ADDRESS_HEALTH_WATCHES_MAX;
        let left = held
            .chunks(each)
            .map(|rooms| rooms.iter().filter(|room| !is_ended(room)).count());
        assert_eq!(left.collect::<Vec<_>>(), [each - 10; 4], "by turns");
        drop(held);
        assert_eq!(
            watches.fullness().used,
            40,
            "an ended one gives nothing back"
        );
    }

    #[test]
    fn connection_with_all_of_its_address_leaves_some_to_others() {
        let watches = HealthWatches::default();
        let one = || watches.admit(at(1, 1));
        let held: Vec<_> = (0..ADDRESS_HEALTH_WATCHES_MAX)
            .map(|_| one().unwrap())
            .collect();
        assert!(one().is_err(), "its own are no more than its own");
        let other = watches.admit(at(1, 2)).unwrap();
        assert!(is_ended(&held[0]), "the oldest");
        assert!(!is_ended(&other) && !held[1..].iter().any(is_ended));
        assert_eq!(watches.fullness().used, ADDRESS_HEALTH_WATCHES_MAX);
    }
}
